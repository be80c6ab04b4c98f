// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/tape/tape_needs.h"

#include <cstddef>
#include <utility>

namespace reprise::engine_internal {
namespace {

using Why = Tape::Given::Why;

bool is_operator_needed(const Tape& tape, const Tape::Operator& op, const std::vector<bool>& needed,
                        IsAvailable is_available) {
  const auto is_wanted = [&](TapeValueId value) {
    return value != Tape::kNone && needed[value] && !is_available(value);
  };
  for (std::uint32_t i = op.first_made; i < op.end_made; ++i) {
    if (is_wanted(tape.made[i].value)) {
      return true;
    }
  }
  for (std::uint32_t i = op.first_write; i < op.end_write; ++i) {
    if (is_wanted(tape.writes[i].after)) {
      return true;
    }
  }
  return false;
}

// Adds the inputs of needed values to `needed`. An operator makes values later than all that it
// reads, so one pass from the end suffices.
std::vector<bool> needed_operators(const Tape& tape, std::vector<bool>& needed,
                                   IsAvailable is_available) {
  std::vector<bool> operators(tape.operators.size());
  for (std::size_t index = tape.operators.size(); index-- > 0;) {
    const Tape::Operator& op = tape.operators[index];
    if (!op.is_required && !is_operator_needed(tape, op, needed, is_available)) {
      continue;
    }
    operators[index] = true;
    tape.for_each_use(op, [&](TapeValueId value) { needed[value] = true; });
  }
  return operators;
}

// Adds the results of transfers, as of after the wait.
void need_transfers(const Tape& tape, std::vector<bool>& needed) {
  for (const Tape::Operator& op : tape.operators) {
    if (op.transfer == Transfer::kNone) {
      continue;
    }
    for (std::uint32_t i = op.first_made; i < op.end_made; ++i) {
      needed[tape.made[i].value] = true;
    }
    for (std::uint32_t i = op.first_write; i < op.end_write; ++i) {
      if (tape.writes[i].after != Tape::kNone) {
        needed[tape.writes[i].before] = false;
        needed[tape.writes[i].after] = true;
      }
    }
  }
}

}  // namespace

bool is_always_available(const Tape& tape, TapeValueId value) {
  const auto found = tape.given.find(value);
  return found != tape.given.end() && !(tape.allow_mutation && found->second.why == Why::kPolicy);
}

std::vector<bool> needed_values(const Tape& tape, const std::vector<bool>& slots,
                                std::vector<bool>& operators, IsAvailable is_available) {
  std::vector<bool> needed(tape.values.size());
  for (std::size_t slot = 0; slot < slots.size(); ++slot) {
    if (slots[slot] && tape.slots[slot].value != Tape::kNone) {
      needed[tape.slots[slot].value] = true;
    }
  }
  operators = needed_operators(tape, needed, is_available);
  return needed;
}

void require_transfers(Tape& tape, bool all) {
  std::vector<bool> needed(tape.values.size());
  if (all) {
    need_transfers(tape, needed);
  }
  for (const Tape::Tensor& slot : tape.slots) {
    if (slot.value != Tape::kNone) {
      needed[slot.value] = true;
    }
  }
  const std::vector<bool> operators = needed_operators(
      tape, needed, [&](TapeValueId value) { return is_always_available(tape, value); });
  for (std::size_t index = 0; index < operators.size(); ++index) {
    Tape::Operator& op = tape.operators[index];
    op.is_required = op.transfer != Transfer::kNone && operators[index];
    tape.has_required = tape.has_required || op.is_required;
  }
}

void drop_operators_but(Tape& tape, const std::vector<bool>& needed) {
  Tape kept;
  std::vector<std::uint32_t> numbers(tape.operators.size(), Tape::kNone);
  const auto take = [](auto& to, const auto& from, std::uint32_t& first, std::uint32_t& end) {
    const auto start = static_cast<std::uint32_t>(to.size());
    to.insert(to.end(), from.begin() + first, from.begin() + end);
    first = start;
    end = static_cast<std::uint32_t>(to.size());
  };
  for (std::size_t index = 0; index < tape.operators.size(); ++index) {
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
    numbers[index] = static_cast<std::uint32_t>(kept.operators.size());
    kept.operators.push_back(std::move(op));
  }
  for (Tape::Value& value : tape.values) {
    value.op = value.op == Tape::kNone ? Tape::kNone : numbers[value.op];
  }
  tape.operators = std::move(kept.operators);
  tape.arguments = std::move(kept.arguments);
  tape.made = std::move(kept.made);
  tape.writes = std::move(kept.writes);
  tape.random = std::move(kept.random);
  tape.values.shrink_to_fit();
  tape.geometries.shrink_to_fit();
  tape.constants.shrink_to_fit();
  ++tape.generation;
}

std::vector<bool> looked_at_otherwise(const Tape& tape, const std::vector<bool>& slots) {
  std::vector<bool> otherwise(tape.values.size());
  std::vector<std::uint32_t> given_as(tape.values.size(), Tape::kNone);  // geometries
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
  for (std::size_t slot = 0; slot < slots.size(); ++slot) {
    if (slots[slot] && tape.slots[slot].value != Tape::kNone) {
      look(tape.slots[slot]);
    }
  }
  return otherwise;
}

}  // namespace reprise::engine_internal
