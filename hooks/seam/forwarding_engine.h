// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The seam to LibTorch's autograd engine. LibTorch asks its default engine for the hooks of each
// tensor that it saves, and the base engine returns none. Ours answers that question and forwards
// everything else to the previous engine.
//
// Note [Why a forwarding engine]: device threads are started once per process by the engine object
// that runs the first backward, so a second engine that inherits `execute` never has any (its first
// CUDA backward fails an internal assert). A forwarding engine owns no threads and runs no backward
// itself.
#ifndef REPRISE_HOOKS_SEAM_FORWARDING_ENGINE_H_
#define REPRISE_HOOKS_SEAM_FORWARDING_ENGINE_H_

#include <functional>
#include <memory>

#include "reprise/base/export.h"
#include "reprise/hooks/seam/hook_stack.h"

namespace torch::autograd {
struct Node;
}  // namespace torch::autograd

namespace reprise::hooks_internal {

// Ensures that the default engine asks ours. Called at each entry of a scope, because another
// engine may have been installed since (importing torch in Python does that). Costs one comparison
// if nothing has changed. Thread-safe.
REPRISE_API void ensure_engine_installed();

// Returns the default engine's hooks on this thread, our own or another library's; null if saved
// tensors are not packed.
REPRISE_API std::unique_ptr<SavedVariableHooks> make_ambient_hooks();

// Inside a backward: runs `callback` when that backward has succeeded, and destroys it when the
// backward ends in any way. Throws outside of a backward.
REPRISE_API void at_backward_end(std::function<void()> callback);

// Returns true for nodes that LibTorch generates, which unpack each saved tensor once; false for
// custom autograd Functions. Node::is_traceable() is unsuitable: it throws for Python's functions.
REPRISE_API bool is_generated(const torch::autograd::Node& node);

// The backward that the calling thread works for now.
struct BackwardInfo {
  // The backward's graph task; -1 outside of any backward.
  int id = -1;
  // The node that is being evaluated, for comparison only.
  const void* node = nullptr;
  // See is_generated(). Custom autograd Functions may unpack a saved tensor repeatedly.
  bool node_reads_once = false;
  // False if the backward frees the graph.
  bool keeps_graph = true;
};
REPRISE_API BackwardInfo backward_info();

// After a backward has ended with an exception, on its thread: LibTorch retains the nodes that were
// ready to run, with the tensors that they have saved, in the thread's queue until the next
// backward there. Runs a backward of one element, unseen. Not to be called inside of a backward.
REPRISE_API void release_nodes_of_failed_backward();

// Returns `backward_info().id`.
REPRISE_API int current_backward() noexcept;

}  // namespace reprise::hooks_internal

#endif  // REPRISE_HOOKS_SEAM_FORWARDING_ENGINE_H_
