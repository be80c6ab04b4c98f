// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/budget/backward_nodes.h"

#include <ATen/record_function.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

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
    recording->begin_node(node);
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

using HeldSteps = std::vector<std::shared_ptr<BudgetStep>>;

// Returns the steps that a backward of this graph is one through, but for those whose limits hold
// on this thread anyway.
HeldSteps steps_to_hold(const hooks_internal::BackwardGraph& graph) {
  HeldSteps steps = MemoryGuard::all_steps();
  std::erase_if(steps, [](const auto& step) { return !step->may_begin_backward(); });
  HeldSteps found;
  if (!steps.empty()) {
    graph.any_of([&](std::uint64_t thread, std::uint64_t sequence) {
      const auto reached = std::find_if(steps.begin(), steps.end(), [&](const auto& step) {
        return step->has_made_node(thread, sequence);
      });
      if (reached != steps.end()) {
        found.push_back(std::move(*reached));
        steps.erase(reached);
      }
      return steps.empty();
    });
  }
  return found;
}

// Of the recorded step.
void expect_backward(const hooks_internal::BackwardGraph& graph, const StepRecording& recording) {
  for (const auto& step : MemoryGuard::all_steps()) {
    if (step->is_recorded_by(recording)) {
      step->expect_backward(graph.nodes());
    }
  }
}

// Returns whether a backward of this graph is one through the step that is recorded.
bool is_through(const hooks_internal::BackwardGraph& graph, const StepRecording& recording) {
  const HeldSteps steps = MemoryGuard::all_steps();
  return graph.any_of([&](std::uint64_t thread, std::uint64_t sequence) {
    return std::any_of(steps.begin(), steps.end(), [&](const auto& step) {
      return step->is_recorded_by(recording) && step->has_made_node(thread, sequence);
    });
  });
}

// See StepRecording::begin_backward().
StepRecording::IsOfOthers nodes_of_others(const StepRecording& recording) {
  std::vector<std::weak_ptr<BudgetStep>> others;
  for (const auto& step : MemoryGuard::all_steps()) {
    if (!step->is_recorded_by(recording)) {
      others.push_back(step);
    }
  }
  if (others.empty()) {
    return nullptr;
  }
  return [others = std::move(others)](std::uint64_t thread, std::uint64_t sequence) {
    return std::any_of(others.begin(), others.end(), [&](const auto& each) {
      const auto step = each.lock();
      return step != nullptr && step->has_made_node(thread, sequence);
    });
  };
}

// LibTorch passes both on to the threads of the backward, and to backwards inside it.
class BackwardObservation {
 public:
  BackwardObservation(const std::shared_ptr<StepRecording>& recording,
                      const std::vector<MemoryGuard*>& guards) {
    if (recording != nullptr) {
      recording->begin_backward(nodes_of_others(*recording));
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

// What is made around a backward; destroyed from the last to the first.
struct AroundBackward {
  std::optional<PausedRecording> pause;
  std::vector<std::unique_ptr<HeldBackward>> held;
  std::optional<BackwardObservation> observation;
};

std::shared_ptr<void> observe_backward(const hooks_internal::BackwardGraph& graph) {
  if (hooks_internal::current_backward() >= 0) {
    return nullptr;  // inside another one
  }
  HeldSteps steps = steps_to_hold(graph);
  auto around = steps.empty() ? nullptr : std::make_shared<AroundBackward>();
  for (auto& step : steps) {
    around->held.push_back(std::make_unique<HeldBackward>(std::move(step), /*backward=*/-1));
  }
  std::shared_ptr<StepRecording> recording = StepRecording::of_this_thread();
  if (recording != nullptr && recording->is_in_forward()) {
    recording = nullptr;
  }
  if (recording != nullptr && !is_through(graph, *recording)) {
    around = around == nullptr ? std::make_shared<AroundBackward>() : std::move(around);
    around->pause.emplace();
    recording = nullptr;
  }
  if (recording != nullptr) {
    expect_backward(graph, *recording);
  }
  const std::vector<MemoryGuard*> guards = MemoryGuard::between_operators();
  if (recording == nullptr && guards.empty()) {
    return around;
  }
  around = around == nullptr ? std::make_shared<AroundBackward>() : std::move(around);
  around->observation.emplace(recording, guards);
  return around;
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
