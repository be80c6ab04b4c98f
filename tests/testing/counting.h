// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Checks that a stretch of test code leaves no CPU tensor behind.
#ifndef REPRISE_TESTS_TESTING_COUNTING_H_
#define REPRISE_TESTS_TESTING_COUNTING_H_

#include <cstdint>

namespace reprise::testing {

// Bytes of living CPU tensors, of all threads.
std::int64_t live_cpu_bytes();

// The same, when background threads have released their tensors.
std::int64_t settled_cpu_bytes();
// False if they do not come to that.
bool cpu_bytes_come_to(std::int64_t bytes);

// Expects as many bytes of living CPU tensors at the end as at its construction, when
// expect_no_leak() is called and, if it never was, in the destructor. Make it before the tensors of
// the test, so that it goes after them. Caches that LibTorch fills at first use count as leaks: run
// the code once before.
class LeakCheck {
 public:
  LeakCheck();
  ~LeakCheck();
  LeakCheck(const LeakCheck&) = delete;
  LeakCheck& operator=(const LeakCheck&) = delete;

  void expect_no_leak();

  [[nodiscard]] std::int64_t bytes_at_start() const { return bytes_at_start_; }

 private:
  const std::int64_t bytes_at_start_;
  bool checked_ = false;
};

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_TESTING_COUNTING_H_
