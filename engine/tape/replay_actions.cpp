// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/tape/replay_actions.h"

#include <cstddef>
#include <cstdint>
#include <utility>

namespace reprise::engine_internal {
namespace {

// The values that one memory holds after each other.
class Chains {
 public:
  explicit Chains(const Tape& tape) : tape_(tape), next_(tape.values.size()) {
    for (const Tape::Write& write : tape.writes) {
      if (write.after != Tape::kNone) {
        next_[write.before] = write.after;
      }
    }
  }

  // Returns the value that a write has left in place of this one; none if there is no write.
  TapeValueId next(TapeValueId value) const { return next_[value]; }
  TapeOperatorId writer(TapeValueId value) const { return tape_.values[value].op; }

 private:
  const Tape& tape_;
  base_internal::IdVector<TapeValueId, TapeValueId> next_;
};

class ActionFinder {
 public:
  ActionFinder(const Tape& tape, const TapeValueSet& needed, TapeOperatorSet runs,
               IsAvailable is_saved)
      : tape_(tape),
        needed_(needed),
        is_saved_(is_saved),
        chains_(tape),
        actions_{.runs = std::move(runs),
                 .supplied = base_internal::IdVector<TapeValueId, TapeValueId>(tape.values.size()),
                 .is_copied = TapeValueSet(tape.values.size()),
                 .is_left_out = TapeValueSet(tape.values.size()),
                 .is_written = TapeValueSet(tape.values.size())},
        is_supplied_early_(tape.values.size()) {}

  ReplayActions find() {
    for (const TapeOperatorId op : tape_.operators.ids()) {
      supply_results(op);
      if (!actions_.runs[op]) {
        copy_outcomes(op);
      }
    }
    for (const TapeValueId value : tape_.values.ids()) {
      if (const TapeValueId supplied = actions_.supplied[value]; supplied != Tape::kNone) {
        actions_.is_written[supplied] = is_written_after(supplied);
      }
    }
    return std::move(actions_);
  }

 private:
  bool is_supplied(TapeValueId value) const { return needed_[value] && is_saved_(value); }

  void supply_results(TapeOperatorId op) {
    for (const Tape::Made& each : tape_.made_by(tape_.operators[op])) {
      const TapeValueId made = each.value;
      TapeValueId value = made;
      while (value != Tape::kNone && !is_supplied(value)) {
        const TapeValueId next = chains_.next(value);
        const bool may_skip =
            !actions_.runs[op] && next != Tape::kNone && !actions_.runs[chains_.writer(next)];
        value = may_skip ? next : TapeValueId();
      }
      actions_.supplied[made] = value;
      for (TapeValueId early = made; value != Tape::kNone && early != value;) {
        early = chains_.next(early);
        is_supplied_early_[early] = true;
      }
    }
  }

  void copy_outcomes(TapeOperatorId op) {
    for (const Tape::Write& write : tape_.writes_of(tape_.operators[op])) {
      const TapeValueId after = write.after;
      if (after != Tape::kNone && !is_supplied_early_[after]) {
        (is_supplied(after) ? actions_.is_copied : actions_.is_left_out)[after] = true;
      }
    }
  }

  bool is_written_after(TapeValueId value) const {
    for (TapeValueId each = chains_.next(value); each != Tape::kNone; each = chains_.next(each)) {
      if (actions_.is_copied[each] || actions_.runs[chains_.writer(each)]) {
        return true;
      }
    }
    return false;
  }

  const Tape& tape_;
  const TapeValueSet& needed_;
  const IsAvailable is_saved_;
  const Chains chains_;
  ReplayActions actions_;
  TapeValueSet is_supplied_early_;  // as the result of the operator that made their memory
};

}  // namespace

TapeOperatorSet supplied_operators(const Tape& tape, IsAvailable is_supplied) {
  const Chains chains(tape);
  const auto is_supplied_later = [&](TapeValueId value) {
    while (value != Tape::kNone && !is_supplied(value)) {
      value = chains.next(value);
    }
    return value != Tape::kNone;
  };
  TapeOperatorSet supplied(tape.operators.size());
  for (const TapeOperatorId index : tape.operators.ids()) {
    const Tape::Operator& op = tape.operators[index];
    bool is_any = false;
    bool are_all = true;
    if (op.is_required) {
      tape.for_each_outcome(op, [&](TapeValueId value) {
        is_any = true;
        are_all = are_all && is_supplied_later(value);
      });
    }
    supplied[index] = is_any && are_all;
  }
  return supplied;
}

ReplayActions find_actions(const Tape& tape, const TapeValueSet& needed, TapeOperatorSet runs,
                           IsAvailable is_saved) {
  return ActionFinder(tape, needed, std::move(runs), is_saved).find();
}

}  // namespace reprise::engine_internal
