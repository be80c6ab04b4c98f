// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Notes which dispatcher operators ran.
#ifndef REPRISE_TESTS_TESTING_OP_RECORDER_H_
#define REPRISE_TESTS_TESTING_OP_RECORDER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::testing {

// While alive, notes each operator that runs on this thread, also nested ones, in
// the order in which they start. Recorders nest: an outer one also records the inner one's
// operators.
class [[nodiscard]] OpRecorder {
 public:
  OpRecorder();
  ~OpRecorder();
  OpRecorder(const OpRecorder&) = delete;
  OpRecorder& operator=(const OpRecorder&) = delete;

  // "aten::exp", without overload name.
  [[nodiscard]] std::vector<std::string> names() const;

  // For example count("aten::exp").
  [[nodiscard]] std::size_t count(std::string_view name) const;

  void clear();

 private:
  std::uint64_t callback_ = 0;
  std::size_t first_;
};

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_TESTING_OP_RECORDER_H_
