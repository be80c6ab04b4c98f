// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: graph_exec_group.h
//
// Makes several backwards share one replay a region (one session). For backward split over several
// calls on the same graph: gradients of activations first and of weights later, say, as pipeline
// schedules do. Recomputed tensors that nobody took stay alive until `release()`, or until the
// group is destroyed; so do not enter a group around ordinary training.
//
// Example:
//
//   reprise::GraphExecGroup group;
//   {
//     reprise::GraphExecGroupGuard entered(group);
//     auto gy = torch::autograd::grad({z}, {y}, ...);  // replays the regions it needs
//     auto gx = torch::autograd::grad({y}, {x}, gy);   // replays none of them again
//   }
//   group.release();
//
// Thread-safety: a group is thread-safe and may be entered on several threads at once; a guard
// belongs to the thread that made it, and travels to the device threads of a backward.
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
  // Releases.
  ~GraphExecGroup();
  GraphExecGroup(GraphExecGroup&&) noexcept;
  GraphExecGroup& operator=(GraphExecGroup&&) noexcept;
  GraphExecGroup(const GraphExecGroup&) = delete;
  GraphExecGroup& operator=(const GraphExecGroup&) = delete;

  // Replays now, on this thread, in the order of their forward, all living regions whose forward
  // ran while the group was entered and that this group's session has not replayed yet; a later
  // backward inside the group then finds the tensors ready. Errors: as a backward that replays.
  void recompute_now();

  // Drops the recomputed tensors of this group's session. The group can be used again: the next
  // request replays anew. Idempotent.
  void release();

 private:
  friend class GraphExecGroupGuard;
  std::shared_ptr<engine_internal::GroupState> state_;
};

// While alive, backwards called on this thread belong to `group`, which must outlive the guard.
// Throws CheckpointError if a group is entered on this thread already: groups do not nest.
class [[nodiscard]] REPRISE_API GraphExecGroupGuard {
 public:
  explicit GraphExecGroupGuard(GraphExecGroup& group);
  ~GraphExecGroupGuard();
  GraphExecGroupGuard(const GraphExecGroupGuard&) = delete;
  GraphExecGroupGuard& operator=(const GraphExecGroupGuard&) = delete;

  // True if a group is entered on this thread.
  [[nodiscard]] static bool is_active() noexcept;

 private:
  std::unique_ptr<engine_internal::GroupScope> scope_;
};

}  // namespace reprise

#endif  // REPRISE_ENGINE_GRAPH_EXEC_GROUP_H_
