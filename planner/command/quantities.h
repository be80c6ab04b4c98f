// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Amounts of memory and times as people write and read them.
#ifndef REPRISE_PLANNER_COMMAND_QUANTITIES_H_
#define REPRISE_PLANNER_COMMAND_QUANTITIES_H_

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>

namespace reprise::planner_internal {

// The command line is wrong; the message says how.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Bytes, or a share of what a step needs beyond the bytes that exist before it.
struct Budget {
  std::optional<std::int64_t> bytes;
  double fraction = 1;  // if there are no bytes

  // `base`: the bytes that exist before the step; `peak`: of the step without recomputation.
  std::int64_t resolve(std::int64_t base, std::int64_t peak) const;
};

// These throw UsageError for any other text.
std::int64_t parse_bytes(const std::string& text);       // 512MiB, 2G (of 1024), 25MB (of 1000), 8B
double parse_seconds(const std::string& text);           // 10us, 1.5ms
double parse_seconds_per_byte(const std::string& text);  // 25GB/s
double parse_number(const std::string& text);            // not negative
Budget parse_budget(const std::string& text);  // 2GiB, or 0.5: a number up to 1 is a share

}  // namespace reprise::planner_internal

#endif  // REPRISE_PLANNER_COMMAND_QUANTITIES_H_
