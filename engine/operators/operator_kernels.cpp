// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/operators/operator_kernels.h"

#include <ATen/core/op_registration/op_registration.h>

#include <memory>
#include <utility>

namespace reprise::engine_internal {

class OperatorKernels::Listener final : public c10::OpRegistrationListener {
 public:
  explicit Listener(OperatorKernels& kernels) : kernels_(kernels) {}
  void onOperatorRegistered(const c10::OperatorHandle& op) override { kernels_.note(op); }
  void onOperatorDeregistered(const c10::OperatorHandle&) override {}

 private:
  OperatorKernels& kernels_;
};

OperatorKernels::OperatorKernels(c10::DispatchKey key, const c10::KernelFunction& kernel,
                                 Filter takes)
    : key_(key), kernel_(kernel), takes_(takes) {
  listening_ =
      c10::Dispatcher::singleton().addRegistrationListener(std::make_unique<Listener>(*this));
}

void OperatorKernels::note(const c10::OperatorHandle& op) {
  if (takes_(op)) {
    const MutexLock lock(mutex_);
    new_.push_back(op.operator_name());
    has_new_.store(true, std::memory_order_release);
  }
}

void OperatorKernels::register_new_operators() {
  if (!has_new_.load(std::memory_order_acquire)) {
    return;
  }
  const MutexLock one_at_a_time(registering_);
  std::vector<c10::OperatorName> names;
  {
    const MutexLock lock(mutex_);
    names.swap(new_);
    has_new_.store(false, std::memory_order_release);
  }
  for (c10::OperatorName& name : names) {
    registrations_.push_back(c10::Dispatcher::singleton().registerImpl(
        std::move(name), key_, kernel_, std::nullopt, nullptr, "reprise"));
  }
}

}  // namespace reprise::engine_internal
