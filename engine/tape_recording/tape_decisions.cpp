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

Decision TapeRecorder::decision_of(TapeOperatorId index) {
  Tape::Operator& op = tape_.operators[index];
  return {&op.op.operator_name(), op.ordinal, &op.decision, &op.is_forced};
}

std::optional<Decision> TapeRecorder::decision_of_creator(const at::Tensor& tensor) {
  const TapeValues::Memory* const found = values_.find(TapeValues::key_of(tensor));
  if (found == nullptr || found->is_outside) {
    return std::nullopt;
  }
  return decision_of(tape_.values[found->current].op);
}

Decision TapeRecorder::last_decision() { return decision_of(tape_.operators.last_id()); }

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
      values_.forget(tape_.writes[i].after);
    }
  }
  for (std::uint32_t i = op.first_made; i < op.end_made; ++i) {
    values_.forget(tape_.made[i].value);
  }
  if (!keeps(answer.policy)) {
    return;
  }
  for (const c10::IValue& result : results) {
    for_each_tensor(result, [&](const at::Tensor& tensor) {
      const TapeValues::Memory* const found = values_.find(TapeValues::key_of(tensor));
      if (found != nullptr && !found->is_outside) {
        const TapeValueId value = found->current;
        keep(value, tensor, store_of(answer, tensor));
        if (has_last_written()) {
          pending_writes_.add_input(value);
        } else {
          values_.put_away(value);
        }
      }
    });
  }
}

bool TapeRecorder::keep_value(const at::Tensor& tensor, const PolicyAnswer& answer) {
  if (const auto creator = decision_of_creator(tensor)) {
    const TapeValueId value = values_.current(TapeValues::key_of(tensor));
    if (values_.input(value) == nullptr) {
      keep(value, tensor, store_of(answer, tensor));
      values_.put_away(value);
    }
    *creator->decision = answer.policy;
  }
  return true;
}

bool TapeRecorder::recompute_value(const at::Tensor& tensor, CheckpointPolicy decision) {
  if (const auto creator = decision_of_creator(tensor)) {
    values_.forget(values_.current(TapeValues::key_of(tensor)));
    *creator->decision = decision;
  }
  return true;
}

void TapeRecorder::keep(TapeValueId value, const at::Tensor& tensor,
                        std::shared_ptr<ActivationStore> store) {
  values_.keep(value, values_.whole(value, tensor), std::move(store),
               is_in_flight(value) || arrives_later_now_);
}

bool TapeRecorder::is_in_flight(TapeValueId value) const {
  const TapeOperatorId op = tape_.values[value].op;
  return has_transfers_ && tape_.operators.contains(op) &&
         OperatorTraits::of(tape_.operators[op].op).gives_in_flight;
}

}  // namespace reprise::engine_internal
