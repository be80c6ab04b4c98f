// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/tape_replay/planned_liveness.h"

#include <algorithm>

#include "reprise/engine/tape_replay/tape_replay.h"

namespace reprise::engine_internal {

void PlannedLiveness::restart() {
  states_.assign(replay_.tape_.values.size(), {});
  runs_again_in_.assign(replay_.tape_.operators.size(), replay_.pass_);
  asked_.clear();
}

bool PlannedLiveness::stays(TapeValueId value) const {
  return replay_.is_available(value) ||
         states_[value].times_made >= replay_.tape_.values[value].retained_from;
}

// A value may be there from an earlier pass, and its slot not.
bool PlannedLiveness::is_awaited(TapeValueId value) const {
  const TapeReplay::Work& work = replay_.work_[value];
  return work.asked_in == replay_.pass_ && work.filled_in != replay_.pass_;
}

bool PlannedLiveness::runs_again(TapeOperatorId op) const {
  return runs_again_in_[op] == replay_.pass_;
}

// A value that is there already, and is made again beside another result, is not made once more.
void PlannedLiveness::note_made(TapeValueId value) {
  std::uint8_t& times_made = states_[value].times_made;
  constexpr std::uint8_t kMost = 254;
  const bool is_there = replay_.work_[value].base.tensor.defined();
  times_made += !is_there && times_made < kMost ? 1 : 0;
}

void PlannedLiveness::fill_asked_slots(TapeValueId value, Wants wants) {
  for (const SlotId slot : asked_) {
    if (replay_.tape_.slots[slot].value == value && wants(slot)) {
      replay_.fill_slot(slot);
    }
  }
}

// Returns whether an operator that has not run yet in this pass makes the value in vain for later
// uses.
bool PlannedLiveness::is_made_again(TapeValueId value, Wants wants) const {
  const TapeReplay::Work& work = replay_.work_[value];
  const State& state = states_[value];
  if (replay_.is_available(value) || work.base.tensor.defined() ||
      state.times_made + 1 >= replay_.tape_.values[value].retained_from) {
    return false;
  }
  if (work.uses > state.ending_uses) {
    return true;
  }
  for (auto next = replay_.slots_from(value); next != replay_.slots_.end() && next->first == value;
       ++next) {
    const bool is_asked = std::find(asked_.begin(), asked_.end(), next->second) != asked_.end();
    if (!is_asked && wants(next->second)) {
      return true;
    }
  }
  return false;
}

// Keeps the inputs from eviction. One may have been evicted since the pass was planned.
void PlannedLiveness::before_run(const Tape::Operator& op, Wants wants) {
  replay_.tape_.for_each_use(op, [this](TapeValueId value) { ++states_[value].pins; });
  replay_.tape_.for_each_use(op, [&](TapeValueId value) {
    if (!replay_.is_there(value)) {
      recover(value, wants);
    }
  });
}

void PlannedLiveness::after_run(const Tape::Operator& op) {
  replay_.tape_.for_each_use(op, [this](TapeValueId value) { --states_[value].pins; });
}

void PlannedLiveness::recover(TapeValueId value, Wants wants) {
  const Tape& tape = replay_.tape_;
  std::vector<TapeOperatorId> operators = {tape.values[value].op};
  for (std::size_t next = 0; next < operators.size(); ++next) {
    const TapeOperatorId index = operators[next];
    TORCH_INTERNAL_ASSERT(index != Tape::kNone, "a value that nothing makes");
    runs_again_in_[index] = replay_.pass_;
    tape.for_each_use(tape.operators[index], [&](TapeValueId use) {
      ++replay_.work_[use].pass_uses;
      const TapeOperatorId maker = tape.values[use].op;
      if (!replay_.is_there(use) &&
          std::find(operators.begin(), operators.end(), maker) == operators.end()) {
        operators.push_back(maker);
      }
    });
  }
  std::sort(operators.begin(), operators.end());
  replay_.run_all(operators, wants);
}

void PlannedLiveness::add_holdings(TapeEviction& eviction) {
  for (const TapeValueId value : replay_.work_.ids()) {
    if (at::Tensor& tensor = replay_.work_[value].base.tensor; tensor.defined()) {
      eviction.add(value, tensor);
    }
    if (states_[value].pins > 0 || is_awaited(value)) {
      eviction.pin(value);
    }
  }
  for (auto& [slot, recomputed] : replay_.filled_) {
    const TapeValueId value = replay_.tape_.slots[slot].value;
    const bool is_asked = std::find(asked_.begin(), asked_.end(), slot) != asked_.end();
    if (recomputed.tensor.defined() && !is_asked && value != Tape::kNone) {
      eviction.add(value, recomputed.tensor);
    }
  }
}

// Walks from the last operator to the first: whether one runs again depends on those behind it.
void PlannedLiveness::begin_pass(const std::vector<TapeOperatorId>& operators,
                                 const std::vector<SlotId>& slots, Wants wants) {
  const Tape& tape = replay_.tape_;
  asked_ = slots;
  if (!slots.empty() && tape.slots[slots.front()].value != Tape::kNone) {
    const TapeOperatorId maker = tape.values[tape.slots[slots.front()].value].op;
    replay_.position_ = maker == Tape::kNone ? replay_.position_ : maker.number();
  }
  const auto reset = [this](TapeValueId value) { states_[value].ending_uses = 0; };
  for (const TapeOperatorId index : operators) {
    tape.for_each_use(tape.operators[index], reset);
    tape.for_each_outcome(tape.operators[index], reset);
  }
  const std::vector<TapeOperatorId> from_the_last(operators.rbegin(), operators.rend());
  for (const TapeOperatorId index : from_the_last) {
    const Tape::Operator& op = tape.operators[index];
    bool runs_again = false;
    tape.for_each_outcome(
        op, [&](TapeValueId value) { runs_again = runs_again || is_made_again(value, wants); });
    if (runs_again) {
      runs_again_in_[index] = replay_.pass_;
    } else {
      tape.for_each_use(op, [this](TapeValueId value) { ++states_[value].ending_uses; });
    }
  }
}

}  // namespace reprise::engine_internal
