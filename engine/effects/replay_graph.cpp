// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/effects/replay_graph.h"

#include <ATen/SequenceNumber.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/function.h>

#include <utility>

#include "reprise/engine/checks/saved_tensor_record.h"
#include "reprise/engine/operators/autograd_facts.h"
#include "reprise/hooks/seam/hook_stack.h"

namespace reprise::engine_internal {

namespace {

constinit thread_local ReplayGraph* t_innermost = nullptr;

}  // namespace

ReplayGraph::Scope::Scope(ReplayGraph& graph, std::size_t slots)
    : previous_(std::exchange(t_innermost, &graph)) {
  static const bool kObserves = [] {
    hooks_internal::set_pack_observer(&ReplayGraph::note_packed);
    return true;
  }();
  static_cast<void>(kObserves);
  graph.first_node_ = at::sequence_number::peek();
  graph.saved_.reserve(slots);
}

ReplayGraph::Scope::~Scope() { t_innermost = previous_; }

void ReplayGraph::note_packed(const at::Tensor& tensor) {
  if (t_innermost != nullptr && tensor.requires_grad()) {
    t_innermost->note_cycle(tensor);
  }
}

void ReplayGraph::note_save(SlotId slot, const at::Tensor& tensor) {
  if (node_of(tensor) == nullptr) {
    return;
  }
  saved_.emplace_back(slot, tensor.getIntrusivePtr());
  note_cycle(tensor);
}

void ReplayGraph::note_cycle(const at::Tensor& tensor) {
  hooks_internal::NodePtr slices = copy_slices_of(tensor);
  if (slices && slices->thread_id() == at::RecordFunction::currentThreadId() &&
      slices->sequence_nr() >= first_node_) {
    cycles_.push_back(std::move(slices));
  }
}

void ReplayGraph::break_cycles() {
  for (const auto& node : std::exchange(cycles_, {})) {
    node->release_variables();
  }
}

std::optional<SlotId> ReplayGraph::escaped_that_retains_grad() const {
  for (const auto& [slot, weak] : saved_) {
    if (auto impl = weak.lock()) {
      if (at::Tensor(std::move(impl)).retains_grad()) {
        return slot;
      }
    }
  }
  return std::nullopt;
}

}  // namespace reprise::engine_internal
