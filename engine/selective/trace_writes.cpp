// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Writes in place, as a trace records them: see Note [In place].
#include <c10/util/StringUtil.h>

#include <algorithm>
#include <utility>

#include "reprise/engine/errors.h"
#include "reprise/engine/selective/trace_recorder.h"

namespace reprise::engine_internal {
namespace {

using Plan = TracedOperator::Plan;

}  // namespace

const KeptResult* TraceRecorder::kept(const Value& value) const {
  const auto found = trace_.mutable_kept().find(value.creator);
  if (found == trace_.mutable_kept().end() || !found->second[value.tensor].is_defined()) {
    return nullptr;
  }
  return &found->second[value.tensor];
}

KeptResult* TraceRecorder::kept_write(const Value& value) {
  if (value.writers.empty()) {
    return nullptr;
  }
  const TracedOperatorId writer = value.writers.back();
  const auto found = trace_.mutable_kept().find(writer);
  const bool is_kept =
      found != trace_.mutable_kept().end() && trace_.operators[writer].plan == Plan::kCopy;
  return is_kept ? &found->second[0] : nullptr;
}

void TraceRecorder::prepare_write(TracedValueId id, const at::Tensor& tensor, bool may_follow) {
  const Value& value = values_[id];
  prepare_written_results(value, tensor);
  KeptResult* const result = kept(value);
  if (result == nullptr || result->is_snapshot || result->is_in_flight) {
    return;
  }
  if (result->stored) {
    result->take_snapshot(whole(value, tensor));
    return;
  }
  result->version = version_of(result->alias);  // mark_dirty() counts a version without a write
  const bool may_give_way = can_unkeep(value.creator);
  const bool is_lost = value.is_read || !may_follow || !value.may_follow;
  if (may_give_way && !is_lost) {
    return;
  }
  if (may_give_way && !is_must(trace_.operators[value.creator].decision)) {
    unkeep(value.creator);
  } else {
    result->take_snapshot(result->alias);
  }
}

// The value is retained as the last writer left it.
void TraceRecorder::prepare_written_results(const Value& value, const at::Tensor& tensor) {
  KeptResult* const result = kept_write(value);
  if (result == nullptr) {
    return;
  }
  const TracedOperatorId writer = value.writers.back();
  if (result->stored || is_must(trace_.operators[writer].decision) ||
      reads_what_is_lost(writer, value.creator)) {
    result->take_snapshot(result->stored ? tensor : result->alias);
  } else {
    trace_.mutable_kept().erase(writer);
    run(writer);
  }
}

void TraceRecorder::prepare_hidden_write(TracedValueId id, const at::Tensor& tensor) {
  prepare_write(id, tensor, /*may_follow=*/false);
  Value& value = values_[id];
  value.may_follow = false;
  value.is_constant = false;
}

void TraceRecorder::prepare_reshape(TracedValueId id, const at::Tensor& tensor) {
  Value& value = values_[id];
  if (KeptResult* const result = kept(value); result != nullptr && result->stored) {
    result->take_snapshot(whole(value, tensor));  // autograd counts it as a write
  }
}

at::Tensor TraceRecorder::whole(const Value& value, const at::Tensor& tensor) const {
  const TracedOperator& creator = trace_.operators[value.creator];
  return whole_result(tensor, trace_.results.tensors(*creator.results)[value.tensor]);
}

void TraceRecorder::decide_write(TracedOperatorId index, const PolicyAnswer& answer,
                                 c10::ArrayRef<c10::IValue> results) {
  const TracedOperator& op = trace_.operators[index];
  Value& value = values_[op.written[0]];
  const bool is_alone = op.is_lone_write;
  if (is_alone && !op.is_resizing && op.decision != CheckpointPolicy::MUST_RECOMPUTE &&
      let_follow(index, value, results[0].toTensor())) {
    return;
  }
  for (const TracedValueId id : op.written) {
    overwrite(values_[id]);
  }
  const bool is_constant = op.is_constant && value.is_constant;
  if (is_constant && results.size() == 1 && results[0].isTensor()) {
    value.sample = sample_memory(results[0].toTensor(), false);
  }
  if (!keeps(op.decision) || is_constant) {
    return;
  }
  const bool is_to_copy = is_alone && (!op.is_resizing || is_must(op.decision));
  if (is_alone && !op.is_resizing &&
      keep_as_result(value, results[0].toTensor(), answer, Moment::kInWrite)) {
    trace_.operators[index].plan = Plan::kSkip;
  } else if (is_to_copy && is_keepable(results[0].toTensor())) {
    const at::Tensor& written = results[0].toTensor();
    trace_.mutable_kept()[index].emplace_back(written, store_of(answer, written));
    written_now_.emplace_back(index, 0);
    trace_.operators[index].plan = Plan::kCopy;
  } else if (is_must(op.decision)) {
    throw CheckpointError(c10::str("[checkpoint] the policy's answer for ",
                                   describe_operator(index), " is ", to_string(op.decision),
                                   ", but what it has written in place cannot be kept: it has "
                                   "written to several tensors, or has further results",
                                   op.name->name.starts_with("c10d::")
                                       ? ". Of collectives, those of _c10d_functional can be kept"
                                       : ""));
  }
}

// Replays run the write again, on the result of the operator that made the value.
void TraceRecorder::overwrite(Value& value) {
  const KeptResult* const result = kept(value);
  if (result == nullptr || !result->alias.defined() || result->is_snapshot) {
    return;
  }
  if (!unkeep(value.creator)) {
    kept(value)->is_overwritten = true;
  }
}

// Autograd counts a write, if it does, when the operator has returned.
void TraceRecorder::note_versions() {
  for (const auto& [index, tensor] : written_now_) {
    const auto found = trace_.mutable_kept().find(index);
    if (found != trace_.mutable_kept().end() && found->second[tensor].alias.defined()) {
      found->second[tensor].version = version_of(found->second[tensor].alias);
    }
  }
  written_now_.clear();
  frontier_.advance(/*is_over=*/false);
}

void TraceRecorder::note_version_later(const Value& value) {
  if (kept(value) != nullptr) {
    written_now_.emplace_back(value.creator, value.tensor);
  }
}

void TraceRecorder::note_reshape(const at::Tensor& tensor) {
  if (const auto id = value_in(storage_id_of(tensor))) {
    Value& value = values_[*id];
    note_version_later(value);
    if (kept_write(value) != nullptr) {
      written_now_.emplace_back(value.writers.back(), 0);
    }
    value.may_follow =
        value.may_follow && static_cast<std::int64_t>(tensor.storage().nbytes()) == value.bytes;
  }
}

// The trace has seen each write of the region, so an unknown version has been counted without a
// write, as by mark_dirty().
void TraceRecorder::note_final_versions() {
  for (auto& [index, results] : trace_.mutable_kept()) {
    for (KeptResult& result : results) {
      if (result.alias.defined()) {
        result.version = version_of(result.alias);
      }
    }
  }
}

}  // namespace reprise::engine_internal
