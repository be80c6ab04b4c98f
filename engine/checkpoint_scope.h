// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: checkpoint_scope.h
//
// Activation checkpointing as a guard: what autograd would keep of the operators between its making
// and its end is dropped, and computed again in backward by running those operators again that it
// depends on. No callable is needed, and no code of the user's runs in backward.
//
// Not for code whose recomputation must see something new: the operators are run again as they
// were. Code that computes through pointers (`data_ptr()`, kernels launched by hand) is not seen;
// what comes of it is kept instead, see docs/checkpoint-scope.md. `checkpoint()` runs the code
// itself.
//
// Example:
//
//   for (auto& block : blocks) {
//     reprise::CheckpointScope scope({.name = "block"});
//     h = block->forward(h);
//   }
//   loss(h).backward();
//
// Thread-safety: a scope concerns the thread that has made it, and must end there, before the
// scopes and regions that were made earlier. One that ends otherwise goes on until its thread comes
// by, and what it has saved is a CheckpointError in backward. Backward may run on any threads.
#ifndef REPRISE_ENGINE_CHECKPOINT_SCOPE_H_
#define REPRISE_ENGINE_CHECKPOINT_SCOPE_H_

#include <memory>

#include "reprise/base/export.h"
#include "reprise/engine/checkpoint_options.h"

namespace reprise {

namespace engine_internal {
class ForwardRegion;
}

class [[nodiscard]] REPRISE_API CheckpointScope {
 public:
  // Begins the region. With grad mode off, nothing happens here or at the end. `replay` of the
  // options says nothing here. Throws std::invalid_argument for options that contradict each other,
  // c10::Error if saved-tensor hooks are disabled on this thread.
  //
  // Kept until backward are the tensors from outside that a recomputation has to read, what the
  // policy keeps, and a record of the operators. A tensor from outside that is changed in place
  // afterwards is an error in backward, if backward needs it. Gradients, and tensors that backward
  // reads, are those of a run without the scope, bit for bit.
  //
  // Streams: recomputation runs on the stream of the node that asks first; nothing is synchronised.
  explicit CheckpointScope(CheckpointOptions options = {});

  // Ends the region, as does close(). Throws what the surrounding saved-tensor hooks throw when
  // they are given the tensors from outside, unless an exception is leaving the scope.
  ~CheckpointScope() noexcept(false);
  CheckpointScope(const CheckpointScope&) = delete;
  CheckpointScope& operator=(const CheckpointScope&) = delete;

  // Ends the region early: `std::move(scope).close()`.
  void close() &&;

 private:
  std::unique_ptr<engine_internal::ForwardRegion> region_;
};

}  // namespace reprise

#endif  // REPRISE_ENGINE_CHECKPOINT_SCOPE_H_
