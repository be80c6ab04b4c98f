// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The decisions of a policy, and of the region's code, applied to a tape.
#include <vector>

#include "reprise/engine/embedding/embedding_language.h"
#include "reprise/engine/operators/operator_traits.h"
#include "reprise/engine/tape_recording/tape_writer.h"

namespace reprise::engine_internal {
namespace {

using Why = Tape::Given::Why;

// Of a class of the embedding language: see Note [Assembled tensors].
std::vector<at::Tensor> parts_of(const at::Tensor& tensor) {
  std::vector<at::Tensor> parts;
  if (is_of_language(tensor) && !append_parts(tensor, parts)) {
    parts.clear();
  }
  return parts;
}

}  // namespace

Decision TapeWriter::decision_of(TapeOperatorId index) {
  Tape::Operator& op = tape_.operators[index];
  return {&op.op.operator_name(), op.ordinal, &op.decision, &op.is_forced};
}

std::optional<Decision> TapeWriter::decision_of_creator(const at::Tensor& tensor) {
  const TapeValues::Memory* const found = values_.find(TapeValues::key_of(tensor));
  if (found == nullptr || found->is_outside) {
    return std::nullopt;
  }
  return decision_of(tape_.values[found->current].op);
}

Decision TapeWriter::last_decision() { return decision_of(tape_.operators.last_id()); }

bool TapeWriter::has_last_written() const {
  const Tape::Operator& op = tape_.operators.back();
  return op.end_write > op.first_write;
}

void TapeWriter::decide_last(const PolicyAnswer& answer, c10::ArrayRef<c10::IValue> results) {
  Tape::Operator& op = tape_.operators.back();
  op.decision = answer.policy;
  op.is_asked = true;
  for (const Tape::Write& write : tape_.writes_of(op)) {
    if (answer.policy == CheckpointPolicy::MUST_RECOMPUTE && write.after != Tape::kNone) {
      values_.forget(write.after);
    }
  }
  for (const Tape::Made& made : tape_.made_by(op)) {
    values_.forget(made.value);
  }
  if (!keeps(answer.policy)) {
    return;
  }
  for (const c10::IValue& result : results) {
    for_each_tensor(result, [&](const at::Tensor& tensor) {
      const TapeValues::Memory* const found = values_.find(TapeValues::key_of(tensor));
      if (found != nullptr && !found->is_others_or_outside() && values_[found->current].may_keep) {
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

bool TapeWriter::keep_value(const at::Tensor& tensor, const PolicyAnswer& answer) {
  const auto creator = decision_of_creator(tensor);
  if (!creator) {
    bool is_kept = true;
    for (const at::Tensor& part : parts_of(tensor)) {
      is_kept = keep_value(part, answer) && is_kept;
    }
    return is_kept;
  }
  const TapeValues::Memory& memory = *values_.find(TapeValues::key_of(tensor));
  const TapeValueId value = memory.current;
  const TapeValues::Info& info = values_[value];
  if (!info.may_keep && !info.is_constant) {
    return false;
  }
  if (values_.input(value) == nullptr && !memory.is_others && info.may_keep) {
    keep(value, tensor, store_of(answer, tensor));
    values_.put_away(value);
  }
  *creator->decision = answer.policy;
  return true;
}

void TapeWriter::recompute_value(const at::Tensor& tensor, CheckpointPolicy decision) {
  if (const auto creator = decision_of_creator(tensor)) {
    values_.forget(values_.current(TapeValues::key_of(tensor)));
    *creator->decision = decision;
    return;
  }
  for (const at::Tensor& part : parts_of(tensor)) {
    recompute_value(part, decision);
  }
}

}  // namespace reprise::engine_internal
