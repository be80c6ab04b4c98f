// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Counts the operators that are computed, unlike OpRecorder, which sees also operators that a
// region answers from its cache.
#ifndef REPRISE_TESTS_TESTING_KERNEL_COUNTER_H_
#define REPRISE_TESTS_TESTING_KERNEL_COUNTER_H_

#include <c10/core/impl/LocalDispatchKeySet.h>

#include <cstddef>
#include <map>
#include <string>

namespace reprise::testing {

// While alive, counts the operators of this thread whose kernels run, not operators inside
// others' kernels. One at a time.
class [[nodiscard]] KernelCounter {
 public:
  KernelCounter();
  ~KernelCounter();
  KernelCounter(const KernelCounter&) = delete;
  KernelCounter& operator=(const KernelCounter&) = delete;

  // For example count("aten::mm"), without overload name.
  [[nodiscard]] std::size_t count(const std::string& name) const;

 private:
  std::map<std::string, std::size_t> counts_;
  c10::impl::IncludeDispatchKeyGuard included_;
};

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_TESTING_KERNEL_COUNTER_H_
