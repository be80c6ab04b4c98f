// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The decisions of a TapeRetention, applied to a tape.
#include <algorithm>

#include "absl/container/inlined_vector.h"
#include "reprise/engine/operators/operator_traits.h"
#include "reprise/engine/tape_recording/tape_recorder.h"

namespace reprise::engine_internal {

void TapeRecorder::retain_last(const OperatorCall& call, const std::vector<Written>& written) {
  Tape::Operator& op = tape_.operators.back();
  op.runs_once = lookup_.once() != RunsOnce::kNo;
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
    refilled_.note_made(result.value);
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

// A value that is written in place is the next value's matter, where that is used.
void TapeRecorder::note_refillable(const TapeLookup::Found& found, Use use,
                                   const at::Tensor& tensor) {
  const TapeValueId value = found.tensor.value;
  if (found.is_refillable) {
    refilled_.note_memory(tensor);
    return;
  }
  const bool is_only_read = TapeLookup::is_read(use) && use != Use::kCopiedWithin;
  if (!is_only_read || refilled_.is_within_reach(value)) {
    refilled_.note_used(value);
    return;
  }
  refilled_.forget(value);
  tape_.values[value].is_made_once = true;
  if (options_.retention->note_made_once(value, tensor)) {
    retain_saved(tensor, value);
  }
}

}  // namespace reprise::engine_internal
