// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/planner/chain/stage_trace.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

namespace reprise::planner_internal {
namespace {

using planner::Operator;
using planner::Value;

class StageTraceBuilder {
 public:
  StageTraceBuilder(const Trace& whole, const RegionChain& chain, RegionId region, StageTrace& out)
      : whole_(whole),
        chain_(chain),
        id_(region),
        region_(chain.regions[region]),
        out_(out),
        trace_(out.trace) {}

  void add_forward(RegionInputs inputs) {
    Operator source{.name = "inputs"};
    for (const ValueId value : region_.inputs) {
      const bool is_passed = inputs == RegionInputs::kPassed;
      source.results.push_back(add(value, {.bytes = is_passed ? whole_.values[value].bytes : 0,
                                           .released = is_passed ? 0 : kNone}));
    }
    trace_.operators.push_back(std::move(source));
    for (OperatorId op = region_.begin; op < region_.end; ++op) {
      add_forward_operator(op);
    }
    trace_.backward_begin = static_cast<OperatorId>(trace_.operators.size());
    out_.is_output.resize(trace_.values.size());
    for (const ValueId value : next_inputs()) {
      if (const auto found = local_.find(value); found != local_.end()) {
        out_.is_output[found->second] = true;
      }
    }
  }

  void add_sweep() {
    Operator request{.name = "sweep"};
    for (std::size_t value = 0; value < trace_.values.size(); ++value) {
      if (out_.is_output[value]) {
        request.reads.push_back(static_cast<ValueId>(value));
      }
    }
    trace_.operators.push_back(std::move(request));
  }

  // Before each operator, one that stands for what the program holds by then.
  void add_backward(const AmbientMemory& ambient) {
    for (OperatorId op = region_.backward_begin; op < region_.backward_end; ++op) {
      const auto hold = static_cast<OperatorId>(trace_.operators.size());
      const ValueId held = add(kNone, {.bytes = ambient.before[op], .released = hold + 1});
      trace_.operators.push_back({.name = "hold", .results = {held}});
      Operator backward{
          .name = whole_.operators[op].name,
          .workspace_bytes = std::max<std::int64_t>(0, ambient.during[op] - ambient.before[op])};
      for (const ValueId value : whole_.operators[op].reads) {
        backward.reads.push_back(find_or_add(value));
      }
      trace_.operators.push_back(std::move(backward));
    }
  }

  void finish() { out_.is_output.resize(trace_.values.size()); }

 private:
  const std::vector<ValueId>& next_inputs() const {
    static const std::vector<ValueId> kNoValues;
    const auto next = static_cast<std::size_t>(id_) + 1;
    return next < chain_.regions.size() ? chain_.regions[next].inputs : kNoValues;
  }

  ValueId add(ValueId original, Value value) {
    out_.original.push_back(original);
    const ValueId local = trace_.add_value(std::move(value));
    if (original != kNone) {
      local_.emplace(original, local);
    }
    return local;
  }

  // What is made elsewhere and is no input is there, and counted elsewhere.
  ValueId find_or_add(ValueId value) {
    const auto found = local_.find(value);
    return found == local_.end() ? add(value, {}) : found->second;
  }

  void add_forward_operator(OperatorId op) {
    const Operator& from = whole_.operators[op];
    const auto now = static_cast<OperatorId>(trace_.operators.size());
    Operator to{.name = from.name,
                .seconds = from.seconds,
                .workspace_bytes = from.workspace_bytes,
                .can_recompute = from.can_recompute};
    for (const ValueId value : from.reads) {
      to.reads.push_back(find_or_add(value));
      extend(to.reads.back(), now);
    }
    for (const ValueId value : from.results) {
      const bool is_counted = chain_.must_be_kept(value);
      to.results.push_back(add(value, {.bytes = is_counted ? whole_.values[value].bytes : 0,
                                       .released = is_counted ? now : kNone,
                                       .overwrites = overwritten(value)}));
      if (trace_.values[to.results.back()].overwrites != kNone) {
        trace_.values[trace_.values[to.results.back()].overwrites].released = now;
      }
    }
    trace_.operators.push_back(std::move(to));
  }

  void extend(ValueId local, OperatorId now) {
    OperatorId& released = trace_.values[local].released;
    released = released == kNone ? kNone : now;
  }

  // Only within the region: the memory of other values is counted elsewhere.
  ValueId overwritten(ValueId value) const {
    const ValueId before = whole_.values[value].overwrites;
    const auto found = local_.find(before);
    const bool is_counted = before != kNone && found != local_.end() &&
                            chain_.region_of[before] == id_ && chain_.must_be_kept(before);
    return is_counted ? found->second : kNone;
  }

  const Trace& whole_;
  const RegionChain& chain_;
  const RegionId id_;
  const Region& region_;
  StageTrace& out_;
  Trace& trace_;
  std::map<ValueId, ValueId> local_;  // by value of the whole
};

}  // namespace

StageTrace::StageTrace(const Trace& whole, const RegionChain& chain, const AmbientMemory& ambient,
                       RegionId region, RegionTail tail, RegionInputs inputs) {
  StageTraceBuilder builder(whole, chain, region, *this);
  builder.add_forward(inputs);
  if (tail == RegionTail::kSweep) {
    builder.add_sweep();
  } else {
    builder.add_backward(ambient);
  }
  builder.finish();
}

}  // namespace reprise::planner_internal
