// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Amounts in records, each within its bounds.
#ifndef REPRISE_PLANNER_FORMAT_AMOUNTS_H_
#define REPRISE_PLANNER_FORMAT_AMOUNTS_H_

#include <cstdint>
#include <string>

#include "reprise/planner/format/json_record.h"

namespace reprise::planner_internal {

// Sums and differences of such amounts do not overflow.
inline constexpr std::int64_t kMostBytes = std::int64_t{1} << 60;
inline constexpr double kMostSeconds = 0x1p60;
inline constexpr std::int32_t kMostCount = 1 << 20;

inline std::int64_t bytes_from(JsonRecord& record, const char* key, std::int64_t least = 0,
                               std::int64_t most = kMostBytes) {
  const std::int64_t bytes = record.integer(key, std::int64_t{0});
  if (bytes < least || bytes > most) {
    record.fail("has \"" + std::string(key) + "\" out of range");
  }
  return bytes;
}

inline double seconds_from(JsonRecord& record, const char* key, double least = 0,
                           double most = kMostSeconds) {
  const double seconds = record.real(key, 0);
  if (!(seconds >= least && seconds <= most)) {
    record.fail("has \"" + std::string(key) + "\" out of range");
  }
  return seconds;
}

inline std::int32_t count_from(JsonRecord& record, const char* key,
                               std::int32_t most = kMostCount) {
  return static_cast<std::int32_t>(bytes_from(record, key, 0, most));
}

}  // namespace reprise::planner_internal

#endif  // REPRISE_PLANNER_FORMAT_AMOUNTS_H_
