// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Sees each operator that a thread runs, below autograd: what LibTorch composes of others arrives
// as its parts, autocast's casts arrive like any operator, and nothing that a kernel calls arrives.
//
// Note [The key]: operators are seen on the dispatch key Fake, which LibTorch itself does not use
// in C++ programs. It gets a boxed fallback at the first scope, or, if somebody else has put one
// there, a kernel for each operator, which precedes a fallback. The key is in the thread's included
// set only inside a scope, so that nothing else of the process pays. LibTorch copies that set to
// the threads of a backward; there no interceptor is found, and operators run as ever.
#ifndef REPRISE_ENGINE_OPERATORS_INTERCEPTION_H_
#define REPRISE_ENGINE_OPERATORS_INTERCEPTION_H_

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/core/DispatchKeySet.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <cstdint>
#include <optional>

#include "reprise/base/export.h"

namespace reprise::engine_internal {

struct OperatorTraits;

// One call of an operator. `stack` ends with its arguments.
struct OperatorCall {
  const c10::OperatorHandle& op;
  const OperatorTraits& traits;
  c10::DispatchKeySet keys;
  torch::jit::Stack& stack;

  // Runs the operator: its results replace its arguments. It is not seen again.
  void run() const { op.redispatchBoxed(keys, &stack); }

  c10::ArrayRef<c10::IValue> arguments() const {
    return torch::jit::last(stack, op.schema().arguments().size());
  }
  // When it has run.
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

  // Stands in for the operator: on return its results have replaced its arguments. Operators that
  // are run from here are not seen. Called on the thread of the scope, with autograd off and
  // perhaps under a mutex of LibTorch's: it must not call code of the user's that may run
  // operators.
  virtual void intercept(const OperatorCall& call) = 0;

  // Puts back the versions that autograd has counted for writes that a replay has left out.
  virtual void settle() {}

  // A backward inside the region has been given the tensor of a slot, recomputed out of sight.
  // saved: the memory that was saved, by address; null if it is not known.
  // provenance: of that memory in the region of the slot, see provenance.h.
  virtual void note_recomputed(const at::Tensor& /*tensor*/, const void* /*saved*/,
                               std::uint64_t /*provenance*/) {}

  // What the operator, which is about to run, is to find in `target`, a tensor that it writes to:
  // number `element` of argument `argument`. In a replay that is not what it holds. Not to be
  // changed.
  virtual at::Tensor state_before(const OperatorCall& call, std::uint32_t argument,
                                  std::uint32_t element, const at::Tensor& target);
};

// The number that autograd was to give to the next node of this thread when an interceptor last saw
// an operator of it.
std::uint64_t sequence_number_at_last_operator() noexcept;

// To the next interceptor, or, without one, to the operator itself.
inline void pass_on(const OperatorCall& call, OperatorInterceptor* next) {
  if (next == nullptr) {
    call.run();
  } else {
    next->intercept(call);
  }
}

// As state_before() of the next interceptor; without one, the target itself.
inline at::Tensor state_before(const OperatorCall& call, std::uint32_t argument,
                               std::uint32_t element, const at::Tensor& target,
                               OperatorInterceptor* next) {
  return next == nullptr ? target : next->state_before(call, argument, element, target);
}

// While alive, the operators of this thread go to `interceptor` and to no other; to none, if it is
// null (for the engine's own operators), or if they are unseen (hooks_internal::UnseenScope). It
// must outlive the scope.
class [[nodiscard]] REPRISE_API InterceptionScope {
 public:
  explicit InterceptionScope(OperatorInterceptor* interceptor);
  ~InterceptionScope();
  // The interceptor that sees what this thread runs now, or null.
  static OperatorInterceptor* current() noexcept;

  InterceptionScope(const InterceptionScope&) = delete;
  InterceptionScope& operator=(const InterceptionScope&) = delete;

 private:
  OperatorInterceptor* const previous_;
  const int previous_depth_;
  std::optional<c10::impl::IncludeDispatchKeyGuard> included_;
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_OPERATORS_INTERCEPTION_H_
