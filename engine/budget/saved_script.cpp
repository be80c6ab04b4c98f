// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/budget/saved_script.h"

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "reprise/engine/operators/operator_traits.h"

namespace reprise::engine_internal {

using planner_internal::SavedCall;
using planner_internal::SavedResult;
using planner_internal::SavedStep;

namespace {

void keep_transfers(const StepScript& script, planner::Trace& trace) {
  const std::vector<planner::OperatorId> producers = trace.producers();
  for (std::size_t call = 0; call < script.calls.size(); ++call) {
    if (OperatorTraits::of(script.calls[call].op).transfer == Transfer::kNone) {
      continue;
    }
    for (const StepScript::Value& value : script.values_of(call)) {
      if (value.id != planner::kNone && producers[value.id] != planner::kNone) {
        trace.operators[producers[value.id]].can_recompute = false;
      }
    }
  }
}

}  // namespace

void save_script(const StepScript& script, SavedStep& step) {
  for (const StepScript::Call& call : script.calls) {
    const c10::OperatorName& name = call.op.operator_name();
    step.calls.push_back({.op = name.name,
                          .overload = name.overload_name,
                          .seconds = call.seconds,
                          .bytes = call.bytes,
                          .end_result = call.end_value});
  }
  for (const StepScript::Value& value : script.values) {
    step.results.push_back(
        {.value = value.id, .bytes = value.bytes, .until_call = value.until_call});
  }
}

std::optional<StepScript> load_script(SavedStep& step) {
  StepScript script;
  std::uint32_t first = 0;
  for (const SavedCall& call : step.calls) {
    const auto op = c10::Dispatcher::singleton().findSchema({call.op, call.overload});
    if (!op) {
      return std::nullopt;
    }
    const auto end = static_cast<std::uint32_t>(call.end_result);
    script.calls.push_back({*op, std::exchange(first, end), end, call.seconds, call.bytes});
  }
  for (const SavedResult& result : step.results) {
    script.values.push_back({result.value, result.bytes, result.until_call});
  }
  keep_transfers(script, step.trace);
  script.nodes = needs_of_nodes(step.trace);
  script.number = step.number;
  return script;
}

}  // namespace reprise::engine_internal
