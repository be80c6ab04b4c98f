// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/tape/tape_needs.h"

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace reprise::engine_internal {
namespace {

using Why = Tape::Given::Why;

bool is_operator_needed(const Tape& tape, const Tape::Operator& op, const TapeValueSet& needed,
                        IsAvailable is_available) {
  bool is_needed = false;
  tape.for_each_outcome(op, [&](TapeValueId value) {
    is_needed = is_needed || (needed[value] && !is_available(value));
  });
  return is_needed;
}

// An operator makes values later than all that it reads, so one pass from the end suffices.
TapeOperatorSet find_operators(const Tape& tape, TapeValueSet& needed, IsAvailable is_available,
                               absl::FunctionRef<bool(TapeOperatorId)> is_required) {
  TapeOperatorSet operators(tape.operators.size());
  for (std::size_t number = tape.operators.size(); number-- > 0;) {
    const TapeOperatorId index(number);
    const Tape::Operator& op = tape.operators[index];
    if (!(op.is_required && is_required(index)) &&
        !is_operator_needed(tape, op, needed, is_available)) {
      continue;
    }
    operators[index] = true;
    tape.for_each_use(op, [&](TapeValueId value) { needed[value] = true; });
  }
  return operators;
}

// Adds the results of transfers, as of after the wait.
void need_transfers(const Tape& tape, TapeValueSet& needed) {
  for (const Tape::Operator& op : tape.operators) {
    if (op.transfer == Transfer::kNone) {
      continue;
    }
    for (const Tape::Write& write : tape.writes_of(op)) {
      needed[write.before] = needed[write.before] && write.after == Tape::kNone;
    }
    tape.for_each_outcome(op, [&](TapeValueId value) { needed[value] = true; });
  }
}

// Drops the constants that no argument refers to. Numbers in Python's arithmetic are tensors.
void drop_unused_constants(Tape& tape) {
  std::vector<c10::IValue> used;
  std::vector<std::uint32_t> numbers(tape.constants.size(), Tape::kNone);  // afterwards
  for (Tape::Argument& argument : tape.arguments) {
    if (argument.kind != Tape::Argument::Kind::kConstant) {
      continue;
    }
    std::uint32_t& number = numbers[argument.number];
    if (number == Tape::kNone) {
      number = static_cast<std::uint32_t>(used.size());
      used.push_back(std::move(tape.constants[argument.number]));
    }
    argument.number = number;
  }
  tape.constants = std::move(used);
}

// Reserves exactly the space that the needed operators take.
void reserve_for(Tape& kept, const Tape& tape, const TapeOperatorSet& needed) {
  std::size_t operators = 0, arguments = 0, made = 0, writes = 0;
  for (const TapeOperatorId index : tape.operators.ids()) {
    if (needed[index]) {
      const Tape::Operator& op = tape.operators[index];
      ++operators;
      arguments += op.end_argument - op.first_argument;
      made += op.end_made - op.first_made;
      writes += op.end_write - op.first_write;
    }
  }
  kept.operators.reserve(operators);
  kept.arguments.reserve(arguments);
  kept.made.reserve(made);
  kept.writes.reserve(writes);
}

}  // namespace

TapeOperatorSet needed_operators(const Tape& tape, TapeValueSet& needed, IsAvailable is_available,
                                 const TapeOperatorSet* excused) {
  return find_operators(tape, needed, is_available, [excused](TapeOperatorId op) {
    return excused == nullptr || !(*excused)[op];
  });
}

bool is_always_available(const Tape& tape, TapeValueId value) {
  const auto found = tape.given.find(value);
  return found != tape.given.end() && !(tape.allow_mutation && found->second.why == Why::kPolicy);
}

TapeValueSet needed_values(const Tape& tape, const SlotSet& slots, TapeOperatorSet& operators,
                           IsAvailable is_available) {
  TapeValueSet needed(tape.values.size());
  for (const SlotId slot : slots.ids()) {
    if (slots[slot] && tape.slots[slot].value != Tape::kNone) {
      needed[tape.slots[slot].value] = true;
    }
  }
  operators = needed_operators(tape, needed, is_available, /*excused=*/nullptr);
  return needed;
}

void require_transfers(Tape& tape, bool all, IsAvailable is_available) {
  TapeValueSet needed(tape.values.size());
  if (all) {
    need_transfers(tape, needed);
  }
  for (const Tape::Tensor& slot : tape.slots) {
    if (slot.value != Tape::kNone) {
      needed[slot.value] = true;
    }
  }
  const TapeOperatorSet operators =
      needed_operators(tape, needed, is_available, /*excused=*/nullptr);
  for (const TapeOperatorId index : operators.ids()) {
    Tape::Operator& op = tape.operators[index];
    op.is_required = op.transfer != Transfer::kNone && operators[index];
    tape.has_required = tape.has_required || op.is_required;
  }
}

TapeOperatorSet transfers_to_repeat(const Tape& tape, IsAvailable is_available) {
  TapeOperatorSet operators(tape.operators.size(), true);
  if (!tape.refilled.empty()) {
    TapeValueSet needed(tape.values.size());
    for (const Tape::Tensor& slot : tape.slots) {
      if (slot.value != Tape::kNone && !tape.refilled.contains(slot.value)) {
        needed[slot.value] = true;
      }
    }
    operators = find_operators(tape, needed, is_available, [](TapeOperatorId) { return false; });
  }
  for (const TapeOperatorId index : operators.ids()) {
    operators[index] = operators[index] && tape.operators[index].is_required;
  }
  return operators;
}

void drop_operators_but(Tape& tape, const TapeOperatorSet& needed) {
  Tape kept;
  base_internal::IdVector<TapeOperatorId, TapeOperatorId> ids(tape.operators.size());  // afterwards
  const auto take = [](auto& to, const auto& from, std::uint32_t& first, std::uint32_t& end) {
    const auto start = static_cast<std::uint32_t>(to.size());
    to.insert(to.end(), from.begin() + first, from.begin() + end);
    first = start;
    end = static_cast<std::uint32_t>(to.size());
  };
  // Not in place: an operator that runs inside another one stands before that, its arguments
  // behind.
  reserve_for(kept, tape, needed);
  for (const TapeOperatorId index : tape.operators.ids()) {
    if (!needed[index]) {
      continue;
    }
    Tape::Operator op = tape.operators[index];
    take(kept.arguments, tape.arguments, op.first_argument, op.end_argument);
    take(kept.made, tape.made, op.first_made, op.end_made);
    take(kept.writes, tape.writes, op.first_write, op.end_write);
    if (op.random != Tape::kNone) {
      kept.random.push_back(std::move(tape.random[op.random]));
      op.random = static_cast<std::uint32_t>(kept.random.size() - 1);
    }
    ids[index] = kept.operators.next_id();
    kept.operators.push_back(std::move(op));
  }
  for (Tape::Value& value : tape.values) {
    value.op = value.op == Tape::kNone ? TapeOperatorId() : ids[value.op];
  }
  tape.operators = std::move(kept.operators);
  tape.arguments = std::move(kept.arguments);
  tape.made = std::move(kept.made);
  tape.writes = std::move(kept.writes);
  tape.random = std::move(kept.random);
  tape.values.shrink_to_fit();
  tape.geometries.shrink_to_fit();
  drop_unused_constants(tape);
  ++tape.generation;
}

TapeValueSet looked_at_otherwise(const Tape& tape, const SlotSet& slots) {
  TapeValueSet otherwise(tape.values.size());
  base_internal::IdVector<TapeValueId, GeometryId> given_as(tape.values.size());
  for (const auto& [value, given] : tape.given) {
    given_as[value] = given.geometry;
  }
  const auto look = [&](const Tape::Tensor& tensor) {
    if (given_as[tensor.value] == Tape::kNone || tensor.geometry == Tape::kNone) {
      return;
    }
    const auto& geometries = tape.geometries;
    if (!covers(geometries[given_as[tensor.value]], geometries[tensor.geometry])) {
      otherwise[tensor.value] = true;
    }
  };
  for (const Tape::Operator& op : tape.operators) {
    tape.for_each_tensor_argument(op, look);
  }
  for (const SlotId slot : slots.ids()) {
    if (slots[slot] && tape.slots[slot].value != Tape::kNone) {
      look(tape.slots[slot]);
    }
  }
  return otherwise;
}

}  // namespace reprise::engine_internal
