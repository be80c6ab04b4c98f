// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Note [Deferred recomputation]: a large value that a few elementwise operators and batch norms
// compute from tensors that are held anyway (slots filled in the same pass, parameters) is not
// materialised for its slot while other slots are filled. It is computed a second time when it is
// asked for. Attention weights after dropout are thus not held alongside the weights and the mask
// that they are the product of, nor the results of a batch norm and a relu alongside those of the
// convolution before them. Backward asks for slots in roughly the reverse of the order in which
// they were saved: only slots that were saved earlier count as held.
#include <algorithm>

#include "reprise/engine/tape_replay/tape_replay.h"

namespace reprise::engine_internal {

// Returns the result of the operator whose recomputation to defer, if any. Its operands are
// retained.
std::optional<TapeValueId> TapeReplay::deferred(const Tape::Operator& op, Wants wants) {
  if (!op.is_cheap || !liveness_->may_defer()) {
    return std::nullopt;
  }
  const TapeValueId value = op.first_made < op.end_made ? tape_.made[op.first_made].value
                                                        : tape_.writes[op.first_write].after;
  const SlotId slot = first_slot_of(value);
  if (value == Tape::kNone || slot == Tape::kNone || !wants(slot)) {
    return std::nullopt;
  }
  const Work& work = work_[value];
  if (work.asked_in == pass_ || work.uses != work.pass_uses ||
      work.base.tensor.storage().nbytes() < smallest_deferred_bytes.load()) {
    return std::nullopt;
  }
  std::vector<TapeValueId> held;
  std::vector<TapeOperatorId> chain = {tape_.values[value].op};
  if (!is_cheap_from_held(slot, chain, held)) {
    return std::nullopt;
  }
  for (const TapeValueId operand : held) {
    ++work_[operand].uses;
    if (Base& base = work_[operand].base; !base.tensor.defined() && !is_available(operand)) {
      const auto& [number, filled] = filled_[work_[operand].filled_at];
      base = {filled.tensor, shift_of(filled.tensor, tape_.slots[number].geometry), filled.version};
    }
  }
  return value;
}

// Returns whether the operators of `chain`, to which it adds the operators before them, are cheap
// and start from held values. Appends these to `held`, once per use.
bool TapeReplay::is_cheap_from_held(SlotId slot, std::vector<TapeOperatorId>& chain,
                                    std::vector<TapeValueId>& held) const {
  constexpr std::size_t kLongest = 3;
  for (std::size_t next = 0; next < chain.size(); ++next) {
    const Tape::Operator& op = tape_.operators[chain[next]];
    if (!op.is_cheap || chain.size() > kLongest) {
      return false;
    }
    tape_.for_each_use(op, [&](TapeValueId value) {
      if (is_held_beyond(slot, value)) {
        held.push_back(value);
      } else if (const TapeOperatorId maker = tape_.values[value].op;
                 std::find(chain.begin(), chain.end(), maker) == chain.end()) {
        chain.push_back(maker);
      }
    });
    if (std::find(chain.begin(), chain.end(), TapeOperatorId()) != chain.end()) {
      return false;  // a tape input that is not held
    }
  }
  return true;
}

bool TapeReplay::is_held_beyond(SlotId slot, TapeValueId value) const {
  if (is_available(value)) {
    const Tape::Given& given = tape_.given.at(value);
    const bool is_unpacked = given.input ? !given.input->is_packed() : given.kept.alias.defined();
    return given.is_parameter || is_unpacked;
  }
  return work_[value].filled_in == pass_ && first_slot_of(value) < slot;
}

SlotId TapeReplay::first_slot_of(TapeValueId value) const {
  const auto first = slots_from(value);
  return first != slots_.end() && first->first == value ? first->second : SlotId();
}

}  // namespace reprise::engine_internal
