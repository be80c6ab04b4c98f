// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: checkpoint.h
//
// `checkpoint()` runs a callable and drops what autograd would keep of it for backward. The first
// time backward asks for one of those tensors, the callable runs once more (a replay) and supplies
// all of them. Gradients are bit-identical to a run without it, dropout included.
//
// What the callable writes to tensors from outside (batch-norm's statistics, counters, caches) it
// writes once, in forward. Not for code whose other side effects must not happen twice and that
// cannot ask `is_recomputing()`, and not worth it for code that saves nothing (a single addition).
//
// Example:
//
//   namespace rp = reprise;
//   at::Tensor y = rp::checkpoint([&](const at::Tensor& x) { return block->forward(x); }, x);
//   auto [h, loss] = rp::checkpoint({.name = "head"}, head_fn, x, mask, 3);
//   y.sum().backward();  // block->forward runs again here
//
// Thread-safety: thread-safe. Regions are a matter of the calling thread; a backward may replay on
// LibTorch's device threads.
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

// Runs `fn(args...)` as a region and returns what it returns, unchanged.
//
// fn: anything `std::invoke` takes, a module holder, or an object (or pointer to one) with
//   `forward(args...)`. It is copied into the region, or moved if passed as an rvalue; move-only
//   callables must be passed as rvalues. A callable that calling can change (a mutable lambda) is
//   copied, and each replay starts from the state in which it was passed. What it captures by
//   reference must live until backward.
// args: any copyable types. Tensors in them are found at any depth of std::optional, pair, tuple,
//   variant, containers, arrays and aggregates of up to 16 members; they go through the
//   saved-tensor hooks that surround the region, and a change in place before the replay is an
//   error. Tensors inside other types (smart pointers, classes with private members) are kept as
//   they are. A class can take part by a function `reprise_visit_tensors(T&, visitor)` found by
//   argument-dependent lookup that calls `visitor(member)` for each member.
//   None of the tensors needs to require grad. Nothing is done to the caller's tensors.
// Results may be of any type, an argument included.
//
// Streams: the replay runs on the stream of the node that asks first; others wait by an event.
// Nothing is synchronised, except as `DeterminismCheck::kValues` says.
//
// With grad mode off, `fn` is simply called.
//
// Throws std::invalid_argument for options that contradict each other; c10::Error if saved-tensor
// hooks are disabled on this thread; whatever `fn` throws. Backward throws DeterminismError,
// MutationError, or whatever `fn` throws in the replay.
//
// Semantics after torch.utils.checkpoint (non-reentrant); docs/semantics.md lists the differences.
template <class F, class... Args>
decltype(auto) checkpoint(CheckpointOptions options, F&& fn, Args&&... args) {
  using engine_internal::ForwardRegion;
  using Function = engine_internal::StoredCall<F, Args...>;
  const auto call = [&]() -> decltype(auto) {
    return engine_internal::invoke_callable(fn, std::forward<Args>(args)...);
  };
  if (!ForwardRegion::is_needed(options)) {
    return call();
  }
  if (options.replay == ReplayMode::kTape) {
    return ForwardRegion(std::move(options)).run(call);
  }
  auto owned = std::make_unique<Function>(std::forward<F>(fn), args...);
  Function& replay = *owned;
  engine_internal::RegionInputs inputs = replay.take_inputs();
  ForwardRegion region(std::move(options), std::move(owned), std::move(inputs));
  return region.run([&]() -> decltype(auto) {
    return engine_internal::invoke_callable(replay.forward_callable(fn),
                                            std::forward<Args>(args)...);
  });
}

// The same with default options.
template <class F, class... Args>
requires(!std::same_as<std::remove_cvref_t<F>, CheckpointOptions>) decltype(auto)
    checkpoint(F&& fn, Args&&... args) {
  return checkpoint(CheckpointOptions{}, std::forward<F>(fn), std::forward<Args>(args)...);
}

}  // namespace reprise

#endif  // REPRISE_ENGINE_CHECKPOINT_H_
