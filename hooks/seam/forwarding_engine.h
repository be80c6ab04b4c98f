// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The seam to LibTorch's autograd engine. LibTorch asks its default engine for the hooks of every
// tensor it saves, and the base engine has none to give. Ours answers that question and forwards
// everything else to the engine that was there before.
//
// Note [Why a forwarding engine]: device threads are started once a process by whichever engine
// object runs the first backward, so a second engine that inherits `execute` never gets any (its
// first CUDA backward fails an internal assert). A forwarding engine owns no threads and runs no
// backward itself.
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

// Makes sure that the default engine asks us. Called at each entry of a scope, because another
// engine may have been installed since (importing torch in Python does that). Costs one comparison
// when nothing has changed. Thread-safe.
REPRISE_API void ensure_engine_installed();

// What the default engine answers on this thread, our own hooks and any other library's; null if
// nothing is to be done with saved tensors.
REPRISE_API std::unique_ptr<SavedVariableHooks> make_ambient_hooks();

// Inside a backward: runs `callback` when that backward has succeeded, and destroys it when the
// backward ends in any way. Throws outside of a backward.
REPRISE_API void at_backward_end(std::function<void()> callback);

// True for the nodes that LibTorch generates, which unpack each saved tensor once; false for those
// written by hand. Node::is_traceable() is not to be asked: it throws for Python's functions.
REPRISE_API bool is_generated(const torch::autograd::Node& node);

// What the calling thread does for a backward just now.
struct BackwardInfo {
  // The backward's graph task; -1 outside of any backward.
  int id = -1;
  // The node that is being evaluated, for comparison only.
  const void* node = nullptr;
  // See is_generated(). Nodes written by hand may unpack a saved tensor repeatedly.
  bool node_reads_once = false;
  // False if the backward frees what it has used.
  bool keeps_graph = true;
};
REPRISE_API BackwardInfo backward_info();

// `backward_info().id` alone.
REPRISE_API int current_backward() noexcept;

}  // namespace reprise::hooks_internal

#endif  // REPRISE_HOOKS_SEAM_FORWARDING_ENGINE_H_
