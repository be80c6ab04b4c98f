// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: graph_exec_group.h
//
// Makes several backwards share one recomputation per region (one session). For a backward that is
// split over several calls on the same graph, such as gradients of activations first and of weights
// later, as pipeline schedules do.
//
// Not for ordinary training: recomputed tensors that no backward has taken stay alive until
// `release()`, or until the group is destroyed.
//
// Example:
//
//   reprise::GraphExecGroup group;
//   {
//     reprise::GraphExecGroupGuard entered(group);
//     auto gy = torch::autograd::grad({z}, {y}, ...);  // recomputes the regions it needs
//     auto gx = torch::autograd::grad({y}, {x}, gy);   // recomputes none of them again
//   }
//   group.release();
//
// Thread-safety: a group is thread-safe and may be entered on several threads at once; a guard
// belongs to the thread that constructs it, and applies to the device threads of its backwards.
#ifndef REPRISE_ENGINE_GRAPH_EXEC_GROUP_H_
#define REPRISE_ENGINE_GRAPH_EXEC_GROUP_H_

#include <memory>

#include "reprise/base/export.h"

namespace reprise {

namespace engine_internal {
class GroupState;
class GroupScope;
}  // namespace engine_internal

class REPRISE_API GraphExecGroup {
 public:
  GraphExecGroup();
  // Calls release().
  ~GraphExecGroup();
  GraphExecGroup(GraphExecGroup&&) noexcept;
  GraphExecGroup& operator=(GraphExecGroup&&) noexcept;
  GraphExecGroup(const GraphExecGroup&) = delete;
  GraphExecGroup& operator=(const GraphExecGroup&) = delete;

  // Recomputes now, on this thread and in the order of their forward, all live regions whose
  // forward ran while the group was entered and that this group has not recomputed yet; a later
  // backward inside the group finds the tensors ready.
  //
  // Throws: as a backward that recomputes.
  void recompute_now();

  // Releases the recomputed tensors of this group. The group can be used again: the next request
  // starts a new recomputation. Idempotent.
  void release();

 private:
  friend class GraphExecGroupGuard;
  std::shared_ptr<engine_internal::GroupState> state_;
};

// While alive, backwards called on this thread belong to `group`, which must outlive the guard.
//
// Throws: CheckpointError if a group is already entered on this thread: groups do not nest.
class [[nodiscard]] REPRISE_API GraphExecGroupGuard {
 public:
  [[nodiscard]] explicit GraphExecGroupGuard(GraphExecGroup& group);
  ~GraphExecGroupGuard();
  GraphExecGroupGuard(const GraphExecGroupGuard&) = delete;
  GraphExecGroupGuard& operator=(const GraphExecGroupGuard&) = delete;

  // Returns whether a group is entered on this thread.
  [[nodiscard]] static bool is_active() noexcept;

 private:
  std::unique_ptr<engine_internal::GroupScope> scope_;
};

}  // namespace reprise

#endif  // REPRISE_ENGINE_GRAPH_EXEC_GROUP_H_
