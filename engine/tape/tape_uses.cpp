// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/tape/tape_uses.h"

#include <utility>

#include "absl/container/inlined_vector.h"
#include "reprise/engine/tape/tape_needs.h"

namespace reprise::engine_internal {

TapeUses::TapeUses(const Tape& tape, const SlotSet& alive, Kind kind)
    : kind_(kind), of_values_(tape.values.size()), of_operators_(tape.operators.size()) {
  const auto is_leaf = [&](TapeValueId value) {
    return kind == Kind::kDirect && tape.given.contains(value);
  };
  TapeOperatorSet operators(tape.operators.size(), true);
  if (kind == Kind::kDirect) {
    needed_values(tape, alive, operators, is_leaf);
  }
  for (const TapeOperatorId index : operators.ids()) {
    if (operators[index]) {
      tape.for_each_use(tape.operators[index], [this](TapeValueId value) { ++of_values_[value]; });
    }
  }
  for (const SlotId slot : alive.ids()) {
    if (alive[slot] && tape.slots[slot].value != Tape::kNone) {
      ++of_values_[tape.slots[slot].value];
    }
  }
  for (const TapeValueId value : of_values_.ids()) {
    const TapeOperatorId op = tape.values[value].op;
    if (op != Tape::kNone && of_values_[value] > 0 && !is_leaf(value)) {
      ++of_operators_[op];
    }
  }
  for (const TapeOperatorId index : of_operators_.ids()) {
    of_operators_[index] += tape.operators[index].is_required ? 1 : 0;  // by each session
  }
}

std::vector<Tape::Given> TapeUses::drop_slot(Tape& tape, SlotId slot) {
  std::vector<Tape::Given> dropped;
  absl::InlinedVector<TapeValueId, 8> pending;  // each for one use that has ended
  if (tape.slots[slot].value != Tape::kNone) {
    pending.push_back(tape.slots[slot].value);
  }
  while (!pending.empty()) {
    const TapeValueId value = pending.back();
    pending.pop_back();
    if (--of_values_[value] > 0) {
      continue;
    }
    const auto given = tape.given.find(value);
    const bool is_leaf = kind_ == Kind::kDirect && given != tape.given.end();
    if (given != tape.given.end() && may_drop(given->second)) {
      dropped.push_back(std::move(given->second));
      tape.given.erase(given);
    }
    const TapeOperatorId op = tape.values[value].op;
    if (op != Tape::kNone && !is_leaf && --of_operators_[op] == 0) {
      tape.for_each_use(tape.operators[op], [&](TapeValueId use) { pending.push_back(use); });
    }
  }
  return dropped;
}

}  // namespace reprise::engine_internal
