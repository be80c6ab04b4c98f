// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/budget/backward_nodes.h"

#include <ATen/record_function.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "reprise/engine/allocation/accelerator_memory.h"
#include "reprise/engine/budget/budget_step.h"
#include "reprise/engine/budget/memory_guard.h"
#include "reprise/engine/budget/step_recording.h"
#include "reprise/hooks/seam/backward_scope.h"
#include "reprise/hooks/seam/forwarding_engine.h"

namespace reprise::engine_internal {
namespace {

// LibTorch drops what these throw. Room is made within the recording of a node, if there is one, so
// that it knows whose thread this is.
template <bool kIsRecorded>
std::unique_ptr<at::ObserverContext> on_node_begin(const at::RecordFunction& node) {
  if (const auto recording = kIsRecorded ? StepRecording::now() : nullptr) {
    recording->begin_node(node.name());
  }
  for (MemoryGuard* const guard : MemoryGuard::between_operators()) {
    std::int64_t bytes = 0;
    for (const auto& step : guard->steps()) {
      bytes = std::max(bytes, step->begin_node(node.name()));
    }
    guard->make_room_for(bytes);
  }
  return nullptr;
}

template <bool kIsRecorded>
void on_node_end(const at::RecordFunction& /*node*/, at::ObserverContext* /*context*/) {
  for (MemoryGuard* const guard : MemoryGuard::between_operators()) {
    guard->make_room_for(0);
  }
  if (const auto recording = kIsRecorded ? StepRecording::now() : nullptr) {
    recording->end_node();
  }
}

// LibTorch passes both on to the threads of the backward, and to backwards inside it.
class BackwardObservation {
 public:
  BackwardObservation(const std::shared_ptr<StepRecording>& recording,
                      const std::vector<MemoryGuard*>& guards) {
    if (recording != nullptr) {
      recording->begin_backward();
    }
    std::vector<AcceleratorMemory*> sources;
    sources.reserve(guards.size());
    for (MemoryGuard* const guard : guards) {
      sources.push_back(&AcceleratorMemory::of(guard->source().device()));
    }
    if (!sources.empty()) {
      const c10::Device device =
          recording == nullptr ? sources.front()->device() : recording->recorder().device();
      reports_ = MemoryReports::begin(
          std::make_shared<MemoryReports>(std::move(sources), recording, device));
    }
    const auto callback =
        recording == nullptr
            ? at::RecordFunctionCallback(&on_node_begin<false>, &on_node_end<false>)
            : at::RecordFunctionCallback(&on_node_begin<true>, &on_node_end<true>);
    nodes_ = at::addThreadLocalCallback(
        at::RecordFunctionCallback(callback).scopes({at::RecordScope::BACKWARD_FUNCTION}));
  }
  ~BackwardObservation() { at::removeCallback(nodes_); }
  BackwardObservation(const BackwardObservation&) = delete;
  BackwardObservation& operator=(const BackwardObservation&) = delete;

 private:
  std::unique_ptr<c10::DebugInfoGuard> reports_;
  at::CallbackHandle nodes_;
};

std::shared_ptr<void> observe_backward() {
  if (hooks_internal::current_backward() >= 0) {
    return nullptr;  // inside another one
  }
  const std::shared_ptr<StepRecording> recording = StepRecording::of_this_thread();
  const std::vector<MemoryGuard*> guards = MemoryGuard::between_operators();
  return recording == nullptr && guards.empty()
             ? nullptr
             : std::make_shared<BackwardObservation>(recording, guards);
}

}  // namespace

void observe_backwards() { hooks_internal::set_backward_scope_maker(&observe_backward); }

std::vector<NodeNeeds> needs_of_nodes(const planner::Trace& trace) {
  std::vector<NodeNeeds> nodes;
  for (auto op = static_cast<std::size_t>(trace.backward_begin); op < trace.operators.size();
       ++op) {
    std::int64_t bytes = trace.operators[op].workspace_bytes;
    for (const planner::ValueId result : trace.operators[op].results) {
      bytes += trace.values[result].bytes;
    }
    nodes.push_back({trace.operators[op].name, bytes});
  }
  return nodes;
}

std::int64_t NodeCursor::advance(const std::vector<NodeNeeds>& nodes, std::string_view name) {
  const MutexLock lock(mutex_);
  const auto found = std::find_if(nodes.begin() + static_cast<std::ptrdiff_t>(next_), nodes.end(),
                                  [&](const NodeNeeds& node) { return node.name == name; });
  bytes_ = 0;
  if (found != nodes.end()) {
    bytes_ = found->bytes;
    next_ = static_cast<std::size_t>(found - nodes.begin()) + 1;
  }
  return bytes_;
}

std::int64_t NodeCursor::bytes() const {
  const MutexLock lock(mutex_);
  return bytes_;
}

}  // namespace reprise::engine_internal
