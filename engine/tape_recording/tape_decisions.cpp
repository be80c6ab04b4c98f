// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The decisions of a policy, and of the region's code, applied to a tape.
#include <algorithm>

#include "absl/container/inlined_vector.h"
#include "reprise/engine/operators/operator_traits.h"
#include "reprise/engine/tape_recording/tape_recorder.h"

namespace reprise::engine_internal {
namespace {

using Why = Tape::Given::Why;

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
    return true;
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
  }
}

void TapeRecorder::retain_last(const OperatorCall& call, const std::vector<Written>& written) {
  Tape::Operator& op = tape_.operators.back();
  op.runs_once = lookup_.runs_once();
  const TapeOperatorId index = tape_.operators.last_id();
  absl::InlinedVector<TapeRetention::Result, 4> results;
  const auto add = [&](const at::Tensor& tensor) {
    const TapeValues::Memory* const memory = values_.find(TapeValues::key_of(tensor));
    const bool is_new = memory != nullptr && !memory->is_others_or_outside() &&
                        tape_.values[memory->current].op == index &&
                        std::none_of(results.begin(), results.end(), [&](const auto& other) {
                          return other.value == memory->current;
                        });
    if (is_new) {
      results.push_back({memory->current, tensor, values_[memory->current].bytes});
    }
  };
  for (const c10::IValue& result : call.results()) {
    for_each_tensor(result, add);
  }
  for (const Written& write : written) {
    add(write.tensor);
  }
  options_.retention->decide(op, {results.data(), results.size()});
  for (const TapeRetention::Result& result : results) {
    apply(result);
  }
}

void TapeRecorder::apply(const TapeRetention::Result& result) {
  values_.forget(result.value);
  if (result.retained_from > 0) {
    tape_.values[result.value].retained_from = result.retained_from;
    return;
  }
  tape_.operators.back().decision = CheckpointPolicy::MUST_SAVE;
  keep(result.value, result.tensor, result.store);
  if (has_last_written()) {
    pending_writes_.add_input(result.value);
  } else {
    values_.put_away(result.value);
  }
}

void TapeRecorder::retain_saved(const at::Tensor& tensor, TapeValueId value) {
  const TapeOperatorId op = tape_.values[value].op;
  const TapeValues::Memory* const memory = values_.find(TapeValues::key_of(tensor));
  if (op == Tape::kNone || memory->is_others || values_.input(value) != nullptr ||
      tape_.operators[op].is_forced) {
    return;
  }
  tape_.operators[op].decision = CheckpointPolicy::MUST_SAVE;
  keep(value, tensor, nullptr);
  pending_writes_.add_input(value);
}

}  // namespace reprise::engine_internal
