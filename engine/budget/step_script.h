// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The operators that a step's tape records, and which value of the step's trace each of their
// results is: how a later step finds its place in a plan.
#ifndef REPRISE_ENGINE_BUDGET_STEP_SCRIPT_H_
#define REPRISE_ENGINE_BUDGET_STEP_SCRIPT_H_

#include <ATen/core/dispatch/Dispatcher.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "reprise/engine/budget/backward_nodes.h"
#include "reprise/engine/tape/tape_retention.h"
#include "reprise/planner/trace.h"

namespace reprise::engine_internal {

struct StepScript {
  struct Value {
    planner::ValueId id;  // planner::kNone: not in the trace
    std::int64_t bytes;
    // If a backward inside forward reads the value, it stays until this call; otherwise 0.
    std::uint32_t until_call = 0;
    bool is_made_once = false;  // see TapeRetention::note_made_once()
  };
  struct Call {
    c10::OperatorHandle op;
    std::uint32_t first_value;
    std::uint32_t end_value;
    float seconds;
    std::int64_t bytes;  // that it takes at once; 0 on the CPU
  };

  std::span<const Value> values_of(std::size_t call) const {
    return {values.data() + calls[call].first_value, values.data() + calls[call].end_value};
  }

  // Returns how many calls both scripts begin with, with results of the same sizes.
  std::size_t calls_shared_with(const StepScript& other) const;
  // Returns by how many bytes the results of call number `call` differ from these; nothing if it is
  // another operator, or has more or fewer results.
  std::optional<std::int64_t> difference(std::size_t call, const c10::OperatorHandle& op,
                                         std::span<const TapeRetention::Result> results) const;
  std::int64_t bytes() const;  // of all values

  std::vector<Call> calls;
  std::vector<Value> values;
  std::vector<NodeNeeds> nodes;  // of backward
  int number = 0;                // of the step among those that its budget has known
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_BUDGET_STEP_SCRIPT_H_
