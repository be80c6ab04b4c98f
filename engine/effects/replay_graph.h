// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The temporary graph of a function replay, which no backward runs through, and its tensors that
// outlive the replay.
#ifndef REPRISE_ENGINE_EFFECTS_REPLAY_GRAPH_H_
#define REPRISE_ENGINE_EFFECTS_REPLAY_GRAPH_H_

#include <ATen/core/Tensor.h>
#include <c10/core/TensorImpl.h>
#include <c10/util/intrusive_ptr.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "reprise/engine/checks/slot_id.h"
#include "reprise/hooks/seam/torch_version.h"

namespace reprise::engine_internal {

// Lives for one replay, on its thread.
class ReplayGraph {
 public:
  // Around the region's code, which is to save about `slots` tensors.
  class [[nodiscard]] Scope {
   public:
    Scope(ReplayGraph& graph, std::size_t slots);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    ReplayGraph* const previous_;
  };

  void note_save(SlotId slot, const at::Tensor& tensor);
  // A tensor has been saved, by a region or through hooks in the region's code. No effect unless
  // this thread runs a replay.
  static void note_packed(const at::Tensor& tensor);

  // Breaks reference cycles: a torch::autograd::Function that saves a view which it has written to
  // owns the view's history, which owns the Function. LibTorch breaks them when backward has run.
  void break_cycles();

  // Returns, after the replay, the slot of a tensor that has an owner and retains its gradient.
  std::optional<SlotId> escaped_that_retains_grad() const;

 private:
  void note_cycle(const at::Tensor& tensor);

  std::uint64_t first_node_ = 0;  // its sequence number
  std::vector<hooks_internal::NodePtr> cycles_;
  std::vector<std::pair<SlotId, c10::weak_intrusive_ptr<c10::TensorImpl>>> saved_;
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_EFFECTS_REPLAY_GRAPH_H_
