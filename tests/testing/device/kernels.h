// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Kernels of the test device: each operator runs as on the CPU, on the device's memory, when the
// stream gets there. Operators whose result's shape depends on values, and random ones, wait.
#ifndef REPRISE_TESTS_TESTING_DEVICE_KERNELS_H_
#define REPRISE_TESTS_TESTING_DEVICE_KERNELS_H_

namespace reprise::testing {

// Once a process.
void register_kernels();

// While alive, the n-th copy to or from the device fails with a c10::Error, counted from 0. One at
// a time.
class [[nodiscard]] CopyFaultGuard {
 public:
  explicit CopyFaultGuard(int n);
  ~CopyFaultGuard();
  CopyFaultGuard(const CopyFaultGuard&) = delete;
  CopyFaultGuard& operator=(const CopyFaultGuard&) = delete;

  [[nodiscard]] bool has_failed() const;
};

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_TESTING_DEVICE_KERNELS_H_
