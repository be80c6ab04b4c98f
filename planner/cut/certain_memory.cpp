// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/planner/cut/certain_memory.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace reprise::planner_internal {
namespace {

using planner::Operator;

// Returns the last operator during whose run of the program's own each value is in memory in any
// plan, from its producer on.
std::vector<OperatorId> last_certain(const Trace& trace, const TraceFacts& facts) {
  const auto size = static_cast<OperatorId>(trace.operators.size());
  std::vector<OperatorId> last(trace.values.size());
  for (std::size_t value = 0; value < last.size(); ++value) {
    const OperatorId released = trace.values[value].released;
    last[value] = released == kNone ? size - 1 : released;
  }
  for (OperatorId op = 0; op < size; ++op) {
    for (const ValueId value : trace.operators[op].reads) {
      if (facts.producer[value] == kNone) {
        last[value] = std::max(last[value], op);
      }
    }
  }
  return last;
}

// What `each` reads though nothing holds it, each value once.
std::int64_t requested_bytes(const Trace& trace, const std::vector<OperatorId>& last,
                             OperatorId op) {
  std::vector<ValueId> values = trace.operators[op].reads;
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return std::accumulate(values.begin(), values.end(), std::int64_t{0},
                         [&](std::int64_t sum, ValueId value) {
                           return sum + (last[value] < op ? trace.values[value].bytes : 0);
                         });
}

}  // namespace

CertainMemory::CertainMemory(const Trace& trace, const TraceFacts& facts)
    : before(trace.operators.size() + 1), during(trace.operators.size()) {
  const std::vector<OperatorId> last = last_certain(trace, facts);
  for (std::size_t value = 0; value < last.size(); ++value) {
    before[facts.producer[value] + 1] += trace.values[value].bytes;
    before[last[value] + 1] -= trace.values[value].bytes;
  }
  std::partial_sum(before.begin(), before.end(), before.begin());
  before.pop_back();
  for (std::size_t op = 0; op < during.size(); ++op) {
    const Operator& each = trace.operators[op];
    std::int64_t results = 0;
    for (const ValueId value : each.results) {
      const ValueId overwritten = trace.values[value].overwrites;
      results += trace.values[value].bytes;
      results -= overwritten == kNone ? 0 : trace.values[overwritten].bytes;
    }
    during[op] = before[op] + requested_bytes(trace, last, static_cast<OperatorId>(op)) + results +
                 each.workspace_bytes;
    before[op] += std::min<std::int64_t>(results, 0);
  }
}

}  // namespace reprise::planner_internal
