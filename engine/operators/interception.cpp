// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/operators/interception.h"

#include <ATen/SavedTensorHooks.h>
#include <ATen/SequenceNumber.h>
#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/op_registration/op_registration.h>

#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "reprise/base/error.h"
#include "reprise/base/threading/mutex.h"
#include "reprise/engine/embedding/embedding_language.h"
#include "reprise/engine/operators/operator_traits.h"
#include "reprise/engine/operators/region_scope.h"
#include "reprise/hooks/seam/hook_stack.h"
#include "reprise/hooks/seam/unseen_scope.h"

namespace reprise::engine_internal {
namespace {

constexpr auto kKey = c10::DispatchKey::Fake;

// In one struct: finding a thread-local variable takes a call.
struct Interception {
  OperatorInterceptor* interceptor = nullptr;
  int depth = 0;  // see Note [Unseen]
  std::uint64_t last_sequence_number = 0;
  const bool* is_tracing = nullptr;  // LibTorch's flag of this thread; set with the interceptor

  OperatorInterceptor* if_seen() const noexcept {
    const bool is_seen =
        interceptor != nullptr && depth >= hooks_internal::UnseenScope::depth() && !*is_tracing;
    return is_seen ? interceptor : nullptr;
  }
};
constinit thread_local Interception t_interception;

void dispatch(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const c10::impl::ExcludeDispatchKeyGuard seen_once(kKey);
  if (RegionScope::is_innermost_abandoned()) {
    RegionScope::end_abandoned();
  }
  const auto below = keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kKey);
  Interception& thread = t_interception;
  OperatorInterceptor* const interceptor = thread.if_seen();
  if (interceptor == nullptr) {
    op.redispatchBoxed(below, stack);
  } else {
    thread.last_sequence_number = at::sequence_number::peek();
    try {
      interceptor->intercept({op, OperatorTraits::of(op), below, *stack});
    } catch (const Error& error) {
      throw_in_language(error);
      throw;
    }
  }
}

c10::KernelFunction make_kernel() {
  return c10::KernelFunction::makeFromBoxedFunction<&dispatch>();
}

// Kernels per operator, including operators of libraries that are loaded later.
class OperatorKernels {
 public:
  OperatorKernels() {
    auto listener = std::make_unique<Listener>(*this);
    listening_ = c10::Dispatcher::singleton().addRegistrationListener(std::move(listener));
  }

  // The dispatcher calls listeners under its lock, so registering has to wait until now.
  void register_new_operators() ABSL_LOCKS_EXCLUDED(mutex_) {
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
          std::move(name), kKey, make_kernel(), std::nullopt, nullptr, "reprise"));
    }
  }

 private:
  class Listener final : public c10::OpRegistrationListener {
   public:
    explicit Listener(OperatorKernels& kernels) : kernels_(kernels) {}
    void onOperatorRegistered(const c10::OperatorHandle& op) override {
      const MutexLock lock(kernels_.mutex_);
      kernels_.new_.push_back(op.operator_name());
      kernels_.has_new_.store(true, std::memory_order_release);
    }
    void onOperatorDeregistered(const c10::OperatorHandle&) override {}

   private:
    OperatorKernels& kernels_;
  };

  Mutex mutex_;
  std::vector<c10::OperatorName> new_ ABSL_GUARDED_BY(mutex_);
  std::atomic<bool> has_new_{false};
  Mutex registering_;
  std::vector<c10::RegistrationHandleRAII> registrations_ ABSL_GUARDED_BY(registering_);
  std::optional<c10::RegistrationHandleRAII> listening_;
};

// Returns null if the key was free. Never freed: operators may run during static destruction.
OperatorKernels* install() {
  c10::Dispatcher& dispatcher = c10::Dispatcher::singleton();
  if (dispatcher.hasBackendFallbackForDispatchKey(kKey)) {
    return new OperatorKernels;
  }
  static auto& registration =
      *new c10::RegistrationHandleRAII(dispatcher.registerFallback(kKey, make_kernel(), "reprise"));
  static_cast<void>(registration);
  return nullptr;
}

// Called for the result of a user's unpack hook, which is in other memory in each recomputation.
void note_unpacked(const at::Tensor& tensor) {
  if (OperatorInterceptor* const interceptor = InterceptionScope::current()) {
    interceptor->note_recomputed(tensor, nullptr, 0);
  }
}

void ensure_installed() {
  static const bool kObserves = [] {
    hooks_internal::set_unpack_observer(&note_unpacked);
    return true;
  }();
  static_cast<void>(kObserves);
  static OperatorKernels* const kKernels = install();
  if (kKernels != nullptr) {
    kKernels->register_new_operators();
  }
}

}  // namespace

std::uint64_t sequence_number_at_last_operator() noexcept {
  return t_interception.last_sequence_number;
}

at::Tensor OperatorInterceptor::state_before(const OperatorCall&, std::uint32_t, std::uint32_t,
                                             const at::Tensor& target) {
  return target;
}

InterceptionScope::InterceptionScope(OperatorInterceptor* interceptor)
    : previous_(t_interception.interceptor), previous_depth_(t_interception.depth) {
  if (interceptor != nullptr) {
    ensure_installed();
    included_.emplace(kKey);
  }
  Interception& thread = t_interception;
  thread.interceptor = interceptor;
  thread.depth = hooks_internal::UnseenScope::depth();
  thread.is_tracing = &at::SavedTensorDefaultHooks::get_tls_state().is_tracing;
}

OperatorInterceptor* InterceptionScope::current() noexcept { return t_interception.if_seen(); }

InterceptionScope::~InterceptionScope() {
  Interception& thread = t_interception;
  thread.interceptor = previous_;
  thread.depth = previous_depth_;
}

}  // namespace reprise::engine_internal
