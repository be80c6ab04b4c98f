// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/tape/trace_of_tape.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "reprise/engine/operators/operator_traits.h"

namespace reprise::engine_internal {
namespace {

planner::ValueId id_of(TapeOperatorId op) { return static_cast<planner::ValueId>(op.number()); }

void add_once(std::vector<planner::ValueId>& values, planner::ValueId value) {
  if (std::find(values.begin(), values.end(), value) == values.end()) {
    values.push_back(value);
  }
}

class TraceBuilder {
 public:
  TraceBuilder(const Tape& tape, absl::FunctionRef<bool(TapeValueId)> may_keep)
      : tape_(tape), may_keep_(may_keep) {}

  RegionTrace build(const SlotSet& alive) {
    region_.trace.backward_begin = static_cast<planner::OperatorId>(tape_.operators.size());
    for (const TapeOperatorId op : tape_.operators.ids()) {
      add_operator(op);
    }
    planner::Operator backward;
    TapeOperatorSet is_read(tape_.operators.size());
    for (const SlotId slot : alive.ids()) {
      const TapeOperatorId op = alive[slot] ? maker_of(tape_.slots[slot].value) : TapeOperatorId();
      if (op != Tape::kNone && !is_read[op]) {
        is_read[op] = true;
        backward.reads.push_back(id_of(op));
      }
    }
    region_.trace.operators.push_back(std::move(backward));
    return std::move(region_);
  }

 private:
  TapeOperatorId maker_of(TapeValueId value) const {
    return value == Tape::kNone ? TapeOperatorId() : tape_.values[value].op;
  }

  void add_operator(TapeOperatorId index) {
    const Tape::Operator& op = tape_.operators[index];
    planner::Operator added{.name = op.op.operator_name().name,
                            .can_recompute = op.transfer == Transfer::kNone};
    planner::Value value{.released = region_.trace.backward_begin - 1};
    tape_.for_each_use(op, [&](TapeValueId used) {
      const TapeOperatorId maker = maker_of(used);
      if (maker != Tape::kNone && maker != index) {
        add_once(added.reads, id_of(maker));
      }
    });
    bool may_save = op.is_asked && !OperatorTraits::of(op.op).is_factory;
    for (const Tape::Write& write : tape_.writes_of(op)) {
      const TapeOperatorId maker = maker_of(write.before);
      if (write.after != Tape::kNone && maker != Tape::kNone) {
        region_.may_save[maker.number()] = false;
        value.overwrites = id_of(maker);
      }
    }
    tape_.for_each_outcome(op, [&](TapeValueId made) { may_save = may_save && may_keep_(made); });
    added.results = {region_.trace.add_value(std::move(value))};
    region_.trace.operators.push_back(std::move(added));
    region_.ordinals.push_back(op.ordinal);
    region_.may_save.push_back(may_save);
  }

  const Tape& tape_;
  const absl::FunctionRef<bool(TapeValueId)> may_keep_;
  RegionTrace region_;
};

}  // namespace

RegionTrace trace_of_tape(const Tape& tape, const SlotSet& alive,
                          absl::FunctionRef<bool(TapeValueId)> may_keep) {
  return TraceBuilder(tape, may_keep).build(alive);
}

}  // namespace reprise::engine_internal
