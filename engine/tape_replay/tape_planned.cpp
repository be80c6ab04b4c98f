// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The replay of a planned tape: see Note [Planned tapes]. An operator may run several times in a
// session; its inputs count as used when it runs for the last time.
#include <algorithm>

#include "reprise/engine/tape_replay/tape_eviction.h"
#include "reprise/engine/tape_replay/tape_replay.h"

namespace reprise::engine_internal {

// The node that asks for one of its slots will ask for the others.
std::vector<SlotId> TapeReplay::slots_of_node(SlotId asked, Wants wants) const {
  const auto is_of_node = [&](std::size_t number) {
    return record_.slots[SlotId(number)].saved.node_number() ==
           record_.slots[asked].saved.node_number();
  };
  std::size_t first = asked.number();
  while (first > 0 && is_of_node(first - 1)) {
    --first;
  }
  std::vector<SlotId> slots = {asked};
  for (std::size_t number = first; number < tape_.slots.size() && is_of_node(number); ++number) {
    if (const SlotId slot(number); slot != asked && wants(slot)) {
      slots.push_back(slot);
    }
  }
  return slots;
}

// Returns whether the value stays, if it is there.
bool TapeReplay::is_retained(TapeValueId value) const {
  return is_available(value) || work_[value].times_made >= tape_.values[value].retained_from;
}

// A value that is there already, and is made again beside another result, is not made once more.
void TapeReplay::note_made(TapeValueId value) {
  Work& work = work_[value];
  constexpr std::uint8_t kMost = 254;
  work.times_made += !work.base.tensor.defined() && work.times_made < kMost ? 1 : 0;
}

void TapeReplay::fill_slots_planned(TapeValueId value, Wants wants) {
  for (const SlotId slot : asked_) {
    if (tape_.slots[slot].value == value && wants(slot)) {
      fill_slot(slot);
    }
  }
}

// Returns whether an operator that has not run yet in this pass makes the value in vain for later
// uses.
bool TapeReplay::is_made_again(TapeValueId value, const std::vector<SlotId>& slots,
                               Wants wants) const {
  const Work& work = work_[value];
  if (is_available(value) || work.base.tensor.defined() ||
      work.times_made + 1 >= tape_.values[value].retained_from) {
    return false;
  }
  if (work.uses > work.ending_uses) {
    return true;
  }
  for (auto next = slots_from(value); next != slots_.end() && next->first == value; ++next) {
    const bool is_asked = std::find(slots.begin(), slots.end(), next->second) != slots.end();
    if (!is_asked && wants(next->second)) {
      return true;
    }
  }
  return false;
}

// Has the inputs of the operator there, and keeps them from eviction. One may have been evicted
// since the pass was planned.
void TapeReplay::pin_inputs(const Tape::Operator& op, Wants wants) {
  tape_.for_each_use(op, [this](TapeValueId value) { ++work_[value].pins; });
  tape_.for_each_use(op, [&](TapeValueId value) {
    if (!is_there(value)) {
      recover(value, wants);
    }
  });
}

void TapeReplay::unpin_inputs(const Tape::Operator& op) {
  tape_.for_each_use(op, [this](TapeValueId value) { --work_[value].pins; });
}

void TapeReplay::recover(TapeValueId value, Wants wants) {
  std::vector<TapeOperatorId> operators = {tape_.values[value].op};
  for (std::size_t next = 0; next < operators.size(); ++next) {
    const TapeOperatorId index = operators[next];
    TORCH_INTERNAL_ASSERT(index != Tape::kNone, "a value that nothing makes");
    repeated_in_[index] = pass_;
    tape_.for_each_use(tape_.operators[index], [&](TapeValueId use) {
      ++work_[use].pass_uses;
      const TapeOperatorId maker = tape_.values[use].op;
      if (!is_there(use) &&
          std::find(operators.begin(), operators.end(), maker) == operators.end()) {
        operators.push_back(maker);
      }
    });
  }
  std::sort(operators.begin(), operators.end());
  run_all(operators, wants);
}

void TapeReplay::add_holdings(TapeEviction& eviction) {
  for (const TapeValueId value : work_.ids()) {
    Work& work = work_[value];
    if (work.base.tensor.defined()) {
      eviction.add(value, work.base.tensor);
    }
    if (work.pins > 0 || is_awaited(value)) {
      eviction.pin(value);
    }
  }
  for (auto& [slot, recomputed] : filled_) {
    const bool is_asked = std::find(asked_.begin(), asked_.end(), slot) != asked_.end();
    if (recomputed.tensor.defined() && !is_asked && tape_.slots[slot].value != Tape::kNone) {
      eviction.add(tape_.slots[slot].value, recomputed.tensor);
    }
  }
}

void TapeReplay::note_repeated(const std::vector<TapeOperatorId>& operators,
                               const std::vector<SlotId>& slots, Wants wants) {
  asked_ = slots;
  if (!slots.empty() && tape_.slots[slots.front()].value != Tape::kNone) {
    const TapeOperatorId op = tape_.values[tape_.slots[slots.front()].value].op;
    position_ = op == Tape::kNone ? position_ : op.number();
  }
  const auto reset = [this](TapeValueId value) { work_[value].ending_uses = 0; };
  for (const TapeOperatorId index : operators) {
    tape_.for_each_use(tape_.operators[index], reset);
    tape_.for_each_outcome(tape_.operators[index], reset);
  }
  const std::vector<TapeOperatorId> from_the_last(operators.rbegin(), operators.rend());
  for (const TapeOperatorId index : from_the_last) {
    const Tape::Operator& op = tape_.operators[index];
    bool is_repeated = false;
    tape_.for_each_outcome(op, [&](TapeValueId value) {
      is_repeated = is_repeated || is_made_again(value, slots, wants);
    });
    if (is_repeated) {
      repeated_in_[index] = pass_;
    } else {
      tape_.for_each_use(op, [this](TapeValueId value) { ++work_[value].ending_uses; });
    }
  }
}

}  // namespace reprise::engine_internal
