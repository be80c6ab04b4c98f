// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// One boxed kernel for many operators on one dispatch key, including operators of libraries that
// are loaded later.
#ifndef REPRISE_ENGINE_OPERATORS_OPERATOR_KERNELS_H_
#define REPRISE_ENGINE_OPERATORS_OPERATOR_KERNELS_H_

#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/DispatchKey.h>

#include <atomic>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "reprise/base/threading/mutex.h"

namespace reprise::engine_internal {

// Lives as long as the process. Thread-safe.
class OperatorKernels {
 public:
  using Filter = bool (*)(const c10::OperatorHandle& op);

  // takes: whether an operator gets the kernel.
  OperatorKernels(c10::DispatchKey key, const c10::KernelFunction& kernel, Filter takes);
  OperatorKernels(const OperatorKernels&) = delete;
  OperatorKernels& operator=(const OperatorKernels&) = delete;

  // The dispatcher calls listeners under its lock, so registering has to wait until now.
  void register_new_operators() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  class Listener;
  void note(const c10::OperatorHandle& op) ABSL_LOCKS_EXCLUDED(mutex_);

  const c10::DispatchKey key_;
  const c10::KernelFunction kernel_;
  const Filter takes_;
  Mutex mutex_;
  std::vector<c10::OperatorName> new_ ABSL_GUARDED_BY(mutex_);
  std::atomic<bool> has_new_{false};
  Mutex registering_;
  std::vector<c10::RegistrationHandleRAII> registrations_ ABSL_GUARDED_BY(registering_);
  std::optional<c10::RegistrationHandleRAII> listening_;
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_OPERATORS_OPERATOR_KERNELS_H_
