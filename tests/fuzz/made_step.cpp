// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "tests/fuzz/made_step.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace reprise::fuzz {
namespace {

using namespace planner;

// Returns whether the program holds `value`, or may recompute it, when the next operator runs.
bool is_readable(const Trace& trace, ValueId value) {
  const auto op = static_cast<OperatorId>(trace.operators.size());
  const OperatorId released = trace.values[value].released;
  return released == kNone || released >= op ||
         (op >= trace.backward_begin && trace.producers()[value] < trace.backward_begin);
}

ValueId add_result(Trace& trace, Input& input) {
  const auto op = static_cast<OperatorId>(trace.operators.size());
  Value value = {.bytes = static_cast<std::int64_t>(input.number(255) << input.number(20))};
  value.released = input.boolean() ? op + static_cast<OperatorId>(input.number(7)) : kNone;
  const auto other = static_cast<ValueId>(input.number(trace.values.size() - 1));
  if (input.number(7) == 7 && is_readable(trace, other)) {  // a write in place
    value.overwrites = other;
    trace.values[other].released = op;
  }
  return trace.add_value(value);
}

void add_operator(Trace& trace, Input& input) {
  Operator op = {.seconds = static_cast<double>(input.number(255)) / 64,
                 .workspace_bytes = static_cast<std::int64_t>(input.number(255)),
                 .can_recompute = input.number(7) != 7};
  for (std::uint64_t reads = input.number(3); reads > 0; --reads) {
    const auto value = static_cast<ValueId>(input.number(trace.values.size() - 1));
    if (is_readable(trace, value)) {
      op.reads.push_back(value);
    }
  }
  for (std::uint64_t results = input.number(2); results > 0; --results) {
    op.results.push_back(add_result(trace, input));
  }
  trace.operators.push_back(op);
}

}  // namespace

Trace made_step(Input& input) {
  const auto forward = static_cast<OperatorId>(input.number(12));
  Trace trace{.operators = {}, .values = {{.bytes = 64}}, .backward_begin = forward};
  while (!input.is_at_end() && trace.operators.size() < 2 * static_cast<std::size_t>(forward)) {
    add_operator(trace, input);
  }
  const auto operators = static_cast<OperatorId>(trace.operators.size());
  trace.backward_begin = std::min(forward, operators);
  for (Value& value : trace.values) {
    value.released = value.released < operators ? value.released : kNone;
  }
  return trace;
}

}  // namespace reprise::fuzz
