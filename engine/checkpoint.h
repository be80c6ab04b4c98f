// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: checkpoint.h
//
// `checkpoint()` runs a callable and drops the tensors that autograd would save for backward. When
// backward first asks for one of them, the callable runs again (the recomputation) and supplies all
// of them. Gradients are bit-identical to a run without it, dropout included.
//
// Writes of the callable to tensors from outside (batch-norm's statistics, counters, caches) happen
// once, in forward. Not for code whose other side effects must not happen twice and that cannot ask
// `is_recomputing()`, and not worthwhile for code that saves nothing (a single addition).
//
// Example:
//
//   namespace rp = reprise;
//   at::Tensor y = rp::checkpoint([&](const at::Tensor& x) { return block->forward(x); }, x);
//   auto [h, loss] = rp::checkpoint({.name = "head"}, head_fn, x, mask, 3);
//   y.sum().backward();  // block->forward runs again here
//
// Thread-safety: thread-safe. A region belongs to the calling thread; a backward may recompute it
// on LibTorch's device threads.
#ifndef REPRISE_ENGINE_CHECKPOINT_H_
#define REPRISE_ENGINE_CHECKPOINT_H_

#include <concepts>
#include <memory>
#include <type_traits>
#include <utility>

#include "reprise/engine/callable/stored_call.h"
#include "reprise/engine/checkpoint_options.h"
#include "reprise/engine/errors.h"
#include "reprise/engine/recomputing.h"
#include "reprise/engine/region/forward_region.h"

namespace reprise {
namespace engine_internal {

// Calls `fn` in a region with function replay. `options` are moved from; null means the defaults.
template <class F, class... Args>
decltype(auto) run_region(CheckpointOptions* options, F&& fn, Args&&... args) {
  auto owned = std::make_unique<StoredCall<F, Args...>>(std::forward<F>(fn), args...);
  auto& replay = *owned;
  ForwardRegion region(options, std::move(owned));
  return region.run([&]() -> decltype(auto) {
    return invoke_callable(replay.forward_callable(fn), std::forward<Args>(args)...);
  });
}

}  // namespace engine_internal

// Runs `fn(args...)` as a region. With grad mode off, or tensors of fewer than
// `options.min_input_bytes`, calls `fn` and does nothing else.
//
// fn: a callable as for `std::invoke`, a module holder, or an object (or pointer to one) with
//   `forward(args...)`. It is copied into the region, or moved if passed as an rvalue; move-only
//   callables must be passed as rvalues. A callable with mutable state (a mutable lambda) is
//   copied, and each recomputation starts from the state in which it was passed. Objects captured
//   by reference must live until backward.
// args: of any copyable types. Tensors in them are found at any depth of std::optional, pair,
//   tuple, variant, containers, arrays and aggregates of up to 16 members; they pass through the
//   saved-tensor hooks around the region, and an in-place change before the recomputation is an
//   error. Tensors inside other types (smart pointers, classes with private members) are retained
//   as they are. A class can opt in with a function `reprise_visit_tensors(T&, visitor)`, found by
//   argument-dependent lookup, that calls `visitor(member)` for each member.
//   Braces without a type (`{}`, `{2, 3}`) cannot be deduced, as in any template, and do not
//   compile: write `at::Tensor()`, `std::vector<std::int64_t>{2, 3}`, or call in a lambda.
//   Tensors need not require grad. The caller's tensors are not modified.
//
// Returns: the result of `fn`, of any type, unchanged; it may be an argument.
// Throws: std::invalid_argument for contradictory options; c10::Error if saved-tensor hooks are
//   disabled on this thread; exceptions of `fn`. Backward throws DeterminismError, MutationError,
//   or exceptions of `fn` in the recomputation.
// Stream: the recomputation runs on the stream of the node that asks first; others wait by an
//   event. Does not synchronise, except for `DeterminismCheck::kValues`.
//
// Follows torch.utils.checkpoint (non-reentrant); docs/semantics.md lists the differences.
template <class F, class... Args>
decltype(auto) checkpoint(CheckpointOptions options, F&& fn, Args&&... args) {
  using Call = engine_internal::ValidCall<F, Args...>;
  Call::check();
  if constexpr (Call::value) {
    using engine_internal::ForwardRegion;
    const auto call = [&]() -> decltype(auto) {
      return engine_internal::invoke_callable(fn, std::forward<Args>(args)...);
    };
    if (!ForwardRegion::prepare(options) ||
        (options.min_input_bytes > 0 &&
         engine_internal::tensor_bytes<Args...>(args...) < options.min_input_bytes)) {
      return call();
    }
    if (options.replay == ReplayMode::kTape) {
      return ForwardRegion(std::move(options)).run(call);
    }
    return engine_internal::run_region(&options, std::forward<F>(fn), std::forward<Args>(args)...);
  }
}

// The same with default options.
template <class F, class... Args>
requires(!std::same_as<std::remove_cvref_t<F>, CheckpointOptions>) decltype(auto)
    checkpoint(F&& fn, Args&&... args) {
  using Call = engine_internal::ValidCall<F, Args...>;
  Call::check();
  if constexpr (Call::value) {
    if (!engine_internal::ForwardRegion::prepare()) {
      return engine_internal::invoke_callable(fn, std::forward<Args>(args)...);
    }
    return engine_internal::run_region(nullptr, std::forward<F>(fn), std::forward<Args>(args)...);
  }
}

// Braces among the arguments: nothing gives them a type, so that the functions above are not even
// considered.
template <class F, class... Rest>
void checkpoint(F&& /*fn*/, engine_internal::Braces /*argument*/, Rest&&... /*rest*/) {
  engine_internal::reject_braces<F>();
}
template <class F, class A, class... Rest>
void checkpoint(F&& /*fn*/, A&& /*a*/, engine_internal::Braces /*argument*/, Rest&&... /*rest*/) {
  engine_internal::reject_braces<F>();
}
template <class F, class... Rest>
void checkpoint(const CheckpointOptions& /*options*/, F&& /*fn*/,
                engine_internal::Braces /*argument*/, Rest&&... /*rest*/) {
  engine_internal::reject_braces<F>();
}
template <class F, class A, class... Rest>
void checkpoint(const CheckpointOptions& /*options*/, F&& /*fn*/, A&& /*a*/,
                engine_internal::Braces /*argument*/, Rest&&... /*rest*/) {
  engine_internal::reject_braces<F>();
}

}  // namespace reprise

#endif  // REPRISE_ENGINE_CHECKPOINT_H_
