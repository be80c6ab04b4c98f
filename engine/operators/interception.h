// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Intercepts each operator that a thread runs, below autograd: composite operators arrive as their
// parts, autocast's casts like any operator, and operators that a kernel calls do not arrive.
//
// Note [The key]: operators are intercepted on the dispatch key Fake, which LibTorch itself does
// not use in C++ programs. It gets a boxed fallback at the first scope, or, if other code has
// registered one, a kernel per operator, which precedes a fallback. The key is in the thread's
// included set only inside a scope, so that other code of the process pays nothing.
//
// Note [Threads that inherit]: at::ThreadLocalState gives a thread the dispatch keys and the hooks
// of another: the device threads of a backward inside a region have these, and the threads of
// at::launch(). Their operators are the region's, and go to its interceptor, in the order in which
// they run. One operator is intercepted at a time: an operator that begins meanwhile on another
// thread runs as usual, and what it computes comes from outside. No thread waits for another, for
// that would be a lock around LibTorch's code; only the end of a region waits, for an operator that
// is under way elsewhere.
#ifndef REPRISE_ENGINE_OPERATORS_INTERCEPTION_H_
#define REPRISE_ENGINE_OPERATORS_INTERCEPTION_H_

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/core/DispatchKeySet.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <atomic>
#include <cstdint>
#include <optional>

#include "absl/base/attributes.h"
#include "reprise/base/export.h"

namespace reprise::engine_internal {

struct OperatorThread;
struct OperatorTraits;

// One call of an operator. `stack` ends with its arguments.
struct OperatorCall {
  const c10::OperatorHandle& op;
  const OperatorTraits& traits;
  c10::DispatchKeySet keys;
  torch::jit::Stack& stack;

  // Runs the operator: its results replace its arguments. It is not intercepted again.
  void run() const { op.redispatchBoxed(keys, &stack); }

  // Inline in every source: each operator asks several times.
  ABSL_ATTRIBUTE_ALWAYS_INLINE c10::ArrayRef<c10::IValue> arguments() const {
    return torch::jit::last(stack, op.schema().arguments().size());
  }
  // After the operator has run.
  c10::ArrayRef<c10::IValue> results() const {
    return torch::jit::last(stack, op.schema().returns().size());
  }
  c10::IValue& argument(std::size_t index) const {
    return stack[stack.size() - op.schema().arguments().size() + index];
  }
};

class OperatorInterceptor {
 public:
  OperatorInterceptor() = default;
  OperatorInterceptor(const OperatorInterceptor&) = delete;
  OperatorInterceptor& operator=(const OperatorInterceptor&) = delete;
  virtual ~OperatorInterceptor() = default;

  // Called in place of the operator: on return, its results have replaced its arguments. Operators
  // run from here are not intercepted. Called on the thread of the scope, or on one that inherits
  // its state while the former's operators are not intercepted, with autograd off and perhaps under
  // a mutex of LibTorch's: it must not call user code that may run operators.
  virtual void intercept(const OperatorCall& call) = 0;

  // Restores the versions that autograd has counted for writes that a replay has skipped.
  virtual void settle() {}

  // A backward inside the region has received the tensor of a slot, recomputed without
  // interception. saved: the memory that was saved, by address; null if unknown. provenance: of
  // that memory in the region of the slot, see provenance.h.
  virtual void note_recomputed(const at::Tensor& /*tensor*/, const void* /*saved*/,
                               std::uint64_t /*provenance*/) {}

  // Returns the contents that the operator, which is about to run, finds in a tensor that it reads
  // or writes to, if they are not the present ones, as in a replay; otherwise an undefined tensor.
  // Must not be modified. A region that begins inside a replay records these.
  virtual at::Tensor state_before(const OperatorCall& /*call*/, const at::Tensor& /*argument*/) {
    return {};
  }
};

// Returns the sequence number of autograd's next node on this thread at the time of the last
// intercepted operator.
std::uint64_t sequence_number_at_last_operator() noexcept;

// Returns whether the present operator belongs to a backward inside a region whose code runs in
// `backward`, as hooks_internal::current_backward() numbers them. A thread that the region's code
// has started is in none, and belongs to the region.
bool is_in_backward_inside(int backward) noexcept;

// Passes the call to the next interceptor, or, without one, to the operator itself.
inline void pass_on(const OperatorCall& call, OperatorInterceptor* next) {
  if (next == nullptr) {
    call.run();
  } else {
    next->intercept(call);
  }
}

// While alive, passes the operators of this thread to `interceptor` and to no other; to none, if it
// is null (for the engine's own operators), inside a hooks_internal::UnseenScope, or while a
// compiler traces code on this thread (at::SavedTensorDefaultHooks::set_tracing), whose operators
// compute nothing. The interceptor must outlive the scope.
class [[nodiscard]] REPRISE_API InterceptionScope {
 public:
  explicit InterceptionScope(OperatorInterceptor* interceptor);
  ~InterceptionScope();
  // Returns the interceptor of this thread's operators, its own or an inherited one, or null.
  static OperatorInterceptor* current() noexcept;

  InterceptionScope(const InterceptionScope&) = delete;
  InterceptionScope& operator=(const InterceptionScope&) = delete;

 private:
  OperatorThread& thread_;
  OperatorInterceptor* const previous_;
  const int previous_depth_;
  std::optional<c10::impl::IncludeDispatchKeyGuard> included_;
};

// Base of the hooks of a region, by which threads that inherit these find its interceptor.
class SharedInterception {
 public:
  SharedInterception() = default;
  SharedInterception(const SharedInterception&) = delete;
  SharedInterception& operator=(const SharedInterception&) = delete;
  virtual ~SharedInterception() = default;

  // While alive, on the thread of the region, threads that inherit its hooks share the interceptor
  // that is current when the scope begins.
  class [[nodiscard]] Scope {
   public:
    explicit Scope(SharedInterception& shared);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    SharedInterception& shared_;
    OperatorThread& thread_;
    std::atomic<const void*>* const previous_turn_;
  };

  // Returns that of the innermost region whose state this thread has inherited, or null.
  static SharedInterception* inherited();

  // Null outside of a scope.
  OperatorInterceptor* interceptor() const { return interceptor_.load(); }
  std::atomic<const void*>& turn() const { return *turn_; }

 private:
  std::atomic<OperatorInterceptor*> interceptor_{nullptr};
  // The thread of which an operator is being intercepted, in this region or in one around it, or
  // null: one for all regions inside each other.
  std::atomic<const void*>* turn_ = nullptr;
  std::atomic<const void*> own_turn_{nullptr};
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_OPERATORS_INTERCEPTION_H_
