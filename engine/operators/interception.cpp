// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/operators/interception.h"

#include <ATen/SavedTensorHooks.h>
#include <ATen/SequenceNumber.h>
#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/op_registration/op_registration.h>

#include <thread>

#include "reprise/base/error.h"
#include "reprise/engine/embedding/embedding_language.h"
#include "reprise/engine/operators/operator_kernels.h"
#include "reprise/engine/operators/operator_thread.h"
#include "reprise/engine/operators/operator_traits.h"
#include "reprise/engine/operators/python_key.h"
#include "reprise/engine/operators/region_scope.h"
#include "reprise/engine/operators/uncounted_writes.h"
#include "reprise/hooks/seam/forwarding_engine.h"
#include "reprise/hooks/seam/hook_stack.h"
#include "reprise/hooks/seam/unseen_scope.h"

namespace reprise::engine_internal {
namespace {

constexpr auto kKey = kInterceptedKey;

// An operator's turn at the interceptor of its thread, or at the one that its thread has inherited;
// see Note [Threads that inherit].
class OperatorTurn {
 public:
  explicit OperatorTurn(const OperatorThread& thread) {
    SharedInterception* const inherited =
        thread.scopes > 0 ? nullptr : SharedInterception::inherited();
    std::atomic<const void*>* const turn = inherited == nullptr ? thread.turn : &inherited->turn();
    if (turn == nullptr || takes(*turn, &thread)) {
      interceptor_ = inherited == nullptr ? thread.if_seen() : inherited->interceptor();
    }
  }
  ~OperatorTurn() {
    if (taken_ != nullptr) {
      taken_->store(nullptr, std::memory_order_release);
    }
  }
  OperatorTurn(const OperatorTurn&) = delete;
  OperatorTurn& operator=(const OperatorTurn&) = delete;

  // Null if the operator is not to be intercepted.
  OperatorInterceptor* interceptor() const { return interceptor_; }

 private:
  // An operator of the same thread may be under way: a mode of Python's runs this one in its place.
  bool takes(std::atomic<const void*>& turn, const void* thread) {
    const void* holder = nullptr;
    if (turn.compare_exchange_strong(holder, thread)) {
      taken_ = &turn;
      return true;
    }
    return holder == thread;
  }

  std::atomic<const void*>* taken_ = nullptr;
  OperatorInterceptor* interceptor_ = nullptr;
};

void dispatch(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const c10::impl::ExcludeDispatchKeyGuard seen_once(kKey);
  OperatorThread& thread = OperatorThread::current();
  if (thread.region != nullptr && thread.region->is_abandoned()) {
    RegionScope::end_abandoned();
  }
  const auto below = keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kKey);
  const OperatorTurn turn(thread);
  OperatorInterceptor* const interceptor = turn.interceptor();
  if (interceptor == nullptr) {
    op.redispatchBoxed(below, stack);
  } else {
    thread.last_sequence_number = at::sequence_number::peek();
    try {
      interceptor->intercept({op, thread.traits.of(op), below, *stack});
    } catch (const Error& error) {
      throw_in_language(error);
      throw;
    }
  }
}

c10::KernelFunction make_kernel() {
  return c10::KernelFunction::makeFromBoxedFunction<&dispatch>();
}

// Returns null if the key was free. Never freed: operators may run during static destruction.
OperatorKernels* install() {
  c10::Dispatcher& dispatcher = c10::Dispatcher::singleton();
  if (dispatcher.hasBackendFallbackForDispatchKey(kKey)) {
    return new OperatorKernels(kKey, make_kernel(),
                               [](const c10::OperatorHandle&) { return true; });
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
  observe_uncounted_writes();
  static OperatorKernels* const kKernels = install();
  if (kKernels != nullptr) {
    kKernels->register_new_operators();
  }
}

}  // namespace

std::uint64_t sequence_number_at_last_operator() noexcept {
  return OperatorThread::current().last_sequence_number;
}

bool is_in_backward_inside(int backward) noexcept {
  const int now = hooks_internal::current_backward();
  return now != backward && (now >= 0 || OperatorThread::current().scopes > 0);
}

InterceptionScope::InterceptionScope(OperatorInterceptor* interceptor)
    : thread_(OperatorThread::current()),
      previous_(thread_.interceptor),
      previous_depth_(thread_.depth) {
  if (interceptor != nullptr) {
    ensure_installed();
    included_.emplace(kKey);
    thread_.unseen_depth = hooks_internal::UnseenScope::depth_of_thread();
    thread_.depth = *thread_.unseen_depth;
    thread_.is_tracing = &at::SavedTensorDefaultHooks::get_tls_state().is_tracing;
  }
  ++thread_.scopes;
  thread_.interceptor = interceptor;
}

OperatorInterceptor* InterceptionScope::current() noexcept {
  const OperatorThread& thread = OperatorThread::current();
  if (thread.scopes > 0) {
    return thread.if_seen();
  }
  if (!c10::impl::tls_local_dispatch_key_set().included_.has(kKey)) {
    return nullptr;
  }
  SharedInterception* const inherited = SharedInterception::inherited();
  return inherited == nullptr ? nullptr : inherited->interceptor();
}

InterceptionScope::~InterceptionScope() {
  --thread_.scopes;
  thread_.interceptor = previous_;
  thread_.depth = previous_depth_;
}

SharedInterception::Scope::Scope(SharedInterception& shared)
    : shared_(shared), thread_(OperatorThread::current()), previous_turn_(thread_.turn) {
  if (thread_.turn == nullptr) {
    SharedInterception* const around =
        hooks_internal::has_several_providers() ? inherited() : nullptr;
    thread_.turn = around == nullptr ? &shared.own_turn_ : around->turn_;
  }
  shared.turn_ = thread_.turn;
  shared.interceptor_.store(InterceptionScope::current());
}

SharedInterception::Scope::~Scope() {
  shared_.interceptor_.store(nullptr);
  for (const void* holder = thread_.turn->load(); holder != nullptr && holder != &thread_;
       holder = thread_.turn->load()) {
    std::this_thread::yield();
  }
  thread_.turn = previous_turn_;
}

SharedInterception* SharedInterception::inherited() {
  SharedInterception* found = nullptr;
  if (!at::SavedTensorDefaultHooks::get_tls_state().is_tracing) {
    hooks_internal::find_open_provider([&found](hooks_internal::HookProvider& provider) {
      auto* const shared = dynamic_cast<SharedInterception*>(&provider);
      found = shared != nullptr && shared->interceptor() != nullptr ? shared : nullptr;
      return found != nullptr;
    });
  }
  return found;
}

}  // namespace reprise::engine_internal
