// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: checkpoint_scope.h
//
// Activation checkpointing as a guard: the tensors that autograd would save for operators between
// its construction and its end are dropped, and recomputed in backward by dispatching again the
// operators that they depend on. No callable is needed, and no user code runs in backward.
//
// Not for code whose recomputation must see new state: the operators run again as recorded. Code
// that computes through pointers (`data_ptr()`, custom kernel launches) is not recorded; its
// results are retained instead, see docs/checkpoint-scope.md. `checkpoint()` runs the code itself.
//
// Example:
//
//   for (auto& block : blocks) {
//     reprise::CheckpointScope scope({.name = "block"});
//     h = block->forward(h);
//   }
//   loss(h).backward();
//
// Thread-safety: a scope belongs to the thread that constructs it, and must end there, before
// scopes and regions that were begun earlier. A scope that ends otherwise stays in effect until its
// thread next reaches it, and reading its saved tensors in backward is a CheckpointError. Backward
// may run on any threads.
#ifndef REPRISE_ENGINE_CHECKPOINT_SCOPE_H_
#define REPRISE_ENGINE_CHECKPOINT_SCOPE_H_

#include <cstddef>
#include <memory>

#include "reprise/base/export.h"
#include "reprise/engine/checkpoint_options.h"

namespace reprise {

namespace engine_internal {
class ForwardRegion;
}

class [[nodiscard]] REPRISE_API CheckpointScope {
 public:
  // Begins the region. With grad mode off, neither this nor the end has an effect. `options.replay`
  // is ignored.
  //
  // Until backward, the scope retains the tensors from outside that a recomputation reads, the
  // results that the policy saves, and a record of the operators. If a tensor from outside that
  // backward needs is modified in place afterwards, backward throws. Gradients are bit-identical to
  // those of a run without the scope.
  //
  // Throws: std::invalid_argument for contradictory options, and for `min_input_bytes`; c10::Error
  //   if saved-tensor hooks are disabled on this thread.
  // Stream: the recomputation runs on the stream of the node that asks first; does not synchronise.
  [[nodiscard]] explicit CheckpointScope(CheckpointOptions options = {});

  // Ends the region, unless close() has.
  //
  // Throws: exceptions of the surrounding saved-tensor hooks, which receive the tensors from
  //   outside, unless an exception is leaving the scope.
  ~CheckpointScope() noexcept(false);
  CheckpointScope(const CheckpointScope&) = delete;
  CheckpointScope& operator=(const CheckpointScope&) = delete;

  // Ends the region early: `std::move(scope).close()`.
  void close() &&;

 private:
  friend class CheckpointedModule;
  // Without a region.
  explicit CheckpointScope(std::nullptr_t);

  std::unique_ptr<engine_internal::ForwardRegion> region_;
};

}  // namespace reprise

#endif  // REPRISE_ENGINE_CHECKPOINT_SCOPE_H_
