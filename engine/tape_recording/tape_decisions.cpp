// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The decisions of a policy, and of the region's code, applied to a tape.
#include "reprise/engine/operators/operator_traits.h"
#include "reprise/engine/tape_recording/tape_recorder.h"

namespace reprise::engine_internal {
namespace {

using Why = Tape::Given::Why;

}  // namespace

Decision TapeRecorder::decision_of(std::uint32_t index) {
  Tape::Operator& op = tape_.operators[index];
  return {&op.op.operator_name(), op.ordinal, &op.decision, &op.is_forced};
}

std::optional<Decision> TapeRecorder::decision_of_creator(const at::Tensor& tensor) {
  const auto found = storages_.find(key_of(tensor));
  if (found == storages_.end() || found->second.is_outside) {
    return std::nullopt;
  }
  return decision_of(tape_.values[found->second.current].op);
}

Decision TapeRecorder::last_decision() {
  return decision_of(static_cast<std::uint32_t>(tape_.operators.size() - 1));
}

bool TapeRecorder::has_last_written() const {
  const Tape::Operator& op = tape_.operators.back();
  return op.end_write > op.first_write;
}

void TapeRecorder::decide_last(const PolicyAnswer& answer, c10::ArrayRef<c10::IValue> results) {
  Tape::Operator& op = tape_.operators.back();
  op.decision = answer.policy;
  op.is_asked = true;
  for (std::uint32_t i = op.first_write; i < op.end_write; ++i) {
    if (answer.policy == CheckpointPolicy::MUST_RECOMPUTE && tape_.writes[i].after != Tape::kNone) {
      forget(tape_.writes[i].after);
    }
  }
  for (std::uint32_t i = op.first_made; i < op.end_made; ++i) {
    forget(tape_.made[i].value);
  }
  if (!keeps(answer.policy)) {
    return;
  }
  for (const c10::IValue& result : results) {
    for_each_tensor(result, [&](const at::Tensor& tensor) {
      const auto found = storages_.find(key_of(tensor));
      if (found != storages_.end() && !found->second.is_outside) {
        const TapeValueId value = found->second.current;
        keep(value, whole(value, tensor), store_of(answer, tensor));
        if (has_last_written()) {
          written_now_.push_back(value);
        } else {
          put_away(value);
        }
      }
    });
  }
}

bool TapeRecorder::keep_value(const at::Tensor& tensor, const PolicyAnswer& answer) {
  if (const auto creator = decision_of_creator(tensor)) {
    const TapeValueId value = storages_.at(key_of(tensor)).current;
    if (given(value) == nullptr) {
      keep(value, whole(value, tensor), store_of(answer, tensor));
      put_away(value);
    }
    *creator->decision = answer.policy;
  }
  return true;
}

bool TapeRecorder::recompute_value(const at::Tensor& tensor, CheckpointPolicy decision) {
  if (const auto creator = decision_of_creator(tensor)) {
    forget(storages_.at(key_of(tensor)).current);
    *creator->decision = decision;
  }
  return true;
}

// Returns the whole value, from a tensor in its memory.
at::Tensor TapeRecorder::whole(TapeValueId value, const at::Tensor& tensor) const {
  return tape_.geometries[info_[value].geometry].look_at(tensor, 0);
}

void TapeRecorder::keep(TapeValueId value, const at::Tensor& tensor,
                        std::shared_ptr<ActivationStore> store) {
  Tape::Given kept;
  kept.why = Why::kPolicy;
  kept.kept = KeptResult(tensor, std::move(store));
  kept.kept.is_in_flight = is_in_flight(value) || arrives_later_now_;
  kept.geometry = info_[value].geometry;
  tape_.given.insert_or_assign(value, std::move(kept));
}

// Except for memory that is still to be filled. An operator may fill it without counting a write
// (the noise of rrelu), and a store that has seen the memory before would not look again.
void TapeRecorder::put_away(TapeValueId value) {
  if (info_[value].unfilled_bytes == 0) {
    given(value)->kept.put_away();
  }
}

bool TapeRecorder::is_in_flight(TapeValueId value) const {
  const std::uint32_t op = tape_.values[value].op;
  return has_transfers_ && op < tape_.operators.size() &&
         OperatorTraits::of(tape_.operators[op].op).gives_in_flight;
}

void TapeRecorder::forget(TapeValueId value) { tape_.given.erase(value); }

}  // namespace reprise::engine_internal
