// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/function/trace_recorder.h"

#include <c10/util/StringUtil.h>

#include <algorithm>
#include <utility>

#include "reprise/engine/errors.h"

namespace reprise::engine_internal {
namespace {

using Plan = TracedOperator::Plan;

std::string words(const TracedOperator& op, std::uint32_t index) {
  return c10::str("operator ", index, ", ", *op.name);
}

}  // namespace

std::optional<ValueId> TraceRecorder::value_in(StorageId memory) const {
  const auto found = value_of_memory_.find(memory);
  return found == value_of_memory_.end() ? std::nullopt : std::optional(found->second);
}

TracedOperator* TraceRecorder::creator_of(const at::Tensor& tensor) {
  const auto id = value_in(storage_id_of(tensor));
  return id ? &trace_.operators[values_[*id].creator] : nullptr;
}

void TraceRecorder::need(StorageId memory) {
  if (const auto id = value_in(memory)) {
    values_[*id].is_needed = true;
  }
}

void TraceRecorder::add(TracedOperator op, c10::ArrayRef<c10::IValue> results,
                        const std::vector<std::optional<std::uint32_t>>& result_arguments,
                        const StorageIdList& arguments) {
  note_results(op, results, result_arguments, arguments);
  trace_.operators.push_back(std::move(op));
}

void TraceRecorder::note_results(TracedOperator& op, c10::ArrayRef<c10::IValue> results,
                                 const std::vector<std::optional<std::uint32_t>>& result_arguments,
                                 const StorageIdList& arguments) {
  const auto index = static_cast<std::uint32_t>(trace_.operators.size());
  op.results = trace_.results.append(results);
  std::uint32_t ordinal = 0;
  for (std::size_t i = 0; i < results.size(); ++i) {
    for_each_tensor(results[i], [&](const at::Tensor& tensor) {
      const std::uint32_t place = ordinal++;
      const StorageId memory = storage_id_of(tensor);
      if (std::find(arguments.begin(), arguments.end(), memory) != arguments.end()) {
        // A view that its schema does not declare, as of _unsafe_view.
        op.is_view = op.is_view || !result_arguments[i];
      } else if (tensor.has_storage()) {
        const auto id = static_cast<ValueId>(values_.size());
        values_.push_back({.creator = index,
                           .tensor = place,
                           .bytes = static_cast<std::int64_t>(tensor.storage().nbytes()),
                           .storage = tensor.storage().getWeakStorageImpl(),
                           .is_constant = op.is_constant,
                           .sample = op.is_constant ? sample_memory(tensor, false) : 0,
                           .writers = {}});
        value_of_memory_.insert_or_assign(memory, id);
        op.made.push_back(id);
      }
    });
  }
  op.is_root = op.is_root || op.is_view;
}

void TraceRecorder::decide_last(const PolicyAnswer& answer, c10::ArrayRef<c10::IValue> results) {
  const std::uint32_t index = last_index();
  TracedOperator& op = trace_.operators[index];
  op.decision = answer.policy;
  op.is_asked = true;
  if (!op.written.empty()) {
    decide_write(index, answer, results);
  } else if (keeps(answer.policy)) {
    keep_results(index, answer, results);
  } else {
    unkeep(index);  // an inner region's policy overrules
  }
}

void TraceRecorder::finish_last() {
  const TracedOperator& op = last();
  for (const ValueId id : op.written) {
    Value& value = values_[id];
    value.has_earlier_reader = value.has_earlier_reader || value.is_read;
    value.is_constant = value.is_constant && op.is_constant;
    value.may_follow = value.may_follow && op.is_lone_write && !op.is_resizing;
    value.writers.push_back(last_index());
  }
  if (op.is_view) {
    return;
  }
  for (const ValueId id : op.inputs) {
    values_[id].is_used = true;
  }
  if (op.plan == Plan::kRun) {
    run(last_index());
  }
}

// The operator is run by replays: what it reads is read.
void TraceRecorder::run(std::uint32_t index) {
  TracedOperator& op = trace_.operators[index];
  op.plan = Plan::kRun;
  for (const ValueId id : op.inputs) {
    const bool is_target = std::find(op.written.begin(), op.written.end(), id) != op.written.end();
    values_[id].is_read = values_[id].is_read || !is_target;
  }
}

void TraceRecorder::keep_results(std::uint32_t index, const PolicyAnswer& answer,
                                 c10::ArrayRef<c10::IValue> results) {
  TracedOperator& op = trace_.operators[index];
  if (!op.results) {
    if (is_must(op.decision)) {
      throw CheckpointError(c10::str(
          "[checkpoint] the policy's answer for ", words(op, index), " is ", to_string(op.decision),
          ", but its result is sparse, quantized, nested, or of lazy conjugation, and cannot be "
          "kept. Answer PREFER_RECOMPUTE for it"));
    }
    return;
  }
  if (op.is_constant) {
    return;  // see Note [Constants]
  }
  std::vector<KeptResult> kept;
  kept.reserve(op.results->tensor_count());
  for (const c10::IValue& result : results) {
    for_each_tensor(result, [&](const at::Tensor& tensor) {
      kept.emplace_back(tensor, store_of(answer, tensor));
      kept.back().is_in_flight = op.is_in_flight;
      kept.back().sample = sample_memory(tensor, false);
      kept.back().put_away();
    });
  }
  op.plan = Plan::kServe;
  trace_.mutable_kept()[index] = std::move(kept);
}

KeptResult* TraceRecorder::kept(const Value& value) {
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
  const std::uint32_t writer = value.writers.back();
  const auto found = trace_.mutable_kept().find(writer);
  const bool is_kept =
      found != trace_.mutable_kept().end() && trace_.operators[writer].plan == Plan::kCopy;
  return is_kept ? &found->second[0] : nullptr;
}

void TraceRecorder::prepare_write(ValueId id, const at::Tensor& tensor, bool may_follow) {
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
  result->version = version_of(result->alias);  // mark_dirty() counts one without a write
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

// What the last writer has left is kept as such.
void TraceRecorder::prepare_written_results(const Value& value, const at::Tensor& tensor) {
  KeptResult* const result = kept_write(value);
  if (result == nullptr) {
    return;
  }
  const std::uint32_t writer = value.writers.back();
  if (result->stored || is_must(trace_.operators[writer].decision) ||
      reads_what_is_lost(writer, value.creator)) {
    result->take_snapshot(result->stored ? tensor : result->alias);
  } else {
    trace_.mutable_kept().erase(writer);
    run(writer);
  }
}

void TraceRecorder::prepare_hidden_write(ValueId id, const at::Tensor& tensor) {
  prepare_write(id, tensor, /*may_follow=*/false);
  Value& value = values_[id];
  value.may_follow = false;
  value.is_constant = false;
}

void TraceRecorder::prepare_reshape(ValueId id, const at::Tensor& tensor) {
  Value& value = values_[id];
  if (KeptResult* const result = kept(value); result != nullptr && result->stored) {
    result->take_snapshot(whole(value, tensor));  // autograd counts it as a write
  }
}

at::Tensor TraceRecorder::whole(const Value& value, const at::Tensor& tensor) const {
  const TracedOperator& creator = trace_.operators[value.creator];
  return whole_result(tensor, trace_.results.tensors(*creator.results)[value.tensor]);
}

void TraceRecorder::decide_write(std::uint32_t index, const PolicyAnswer& answer,
                                 c10::ArrayRef<c10::IValue> results) {
  const TracedOperator& op = trace_.operators[index];
  Value& value = values_[op.written[0]];
  const bool is_alone = op.is_lone_write;
  if (is_alone && !op.is_resizing && op.decision != CheckpointPolicy::MUST_RECOMPUTE &&
      let_follow(index, value, results[0].toTensor())) {
    return;
  }
  for (const ValueId id : op.written) {
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
    throw CheckpointError(c10::str("[checkpoint] the policy's answer for ", words(op, index),
                                   " is ", to_string(op.decision),
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

// The trace has seen each write of the region's, so a version that it does not know of has been
// counted without one, as by mark_dirty().
void TraceRecorder::note_final_versions() {
  for (auto& [index, results] : trace_.mutable_kept()) {
    for (KeptResult& result : results) {
      if (result.alias.defined()) {
        result.version = version_of(result.alias);
      }
    }
  }
}

// The value is kept: it goes on as it is after the write, with the version counter of what was
// written (that of _unsafe_view's result is not that of its argument).
bool TraceRecorder::let_follow(std::uint32_t index, Value& value, const at::Tensor& written) {
  KeptResult* const result = kept(value);
  if (result == nullptr || !result->alias.defined() || result->is_mutated() ||
      result->is_snapshot || value.is_read || !value.may_follow || !is_keepable(written)) {
    return false;
  }
  result->alias = whole(value, written);
  result->sample = sample_memory(written, false);
  result->is_in_flight = trace_.operators[index].is_in_flight;
  note_version_later(value);
  trace_.operators[index].plan = Plan::kSkip;
  return true;
}

bool TraceRecorder::keep_as_result(Value& value, const at::Tensor& tensor,
                                   const PolicyAnswer& answer, Moment moment) {
  TracedOperator& creator = trace_.operators[value.creator];
  const bool is_in_write = moment == Moment::kInWrite;
  const bool is_lost =
      !value.may_follow || (is_in_write ? value.is_read : value.has_earlier_reader);
  if (is_lost || !creator.results || creator.is_view || !is_keepable(tensor)) {
    return false;
  }
  std::vector<KeptResult>& all = trace_.mutable_kept()[value.creator];
  all.resize(creator.results->tensor_count());
  KeptResult& result = all[value.tensor];
  result = KeptResult(whole(value, tensor), store_of(answer, tensor));
  result.is_in_flight = is_in_write ? last().is_in_flight : is_in_flight(value);
  result.sample = sample_memory(tensor, false);
  if (is_in_write) {
    note_version_later(value);
  } else {
    result.put_away();
  }
  creator.plan = Plan::kServe;
  for (const std::uint32_t writer : value.writers) {
    trace_.operators[writer].plan = Plan::kSkip;
    trace_.mutable_kept().erase(writer);
  }
  return true;
}

bool TraceRecorder::is_in_flight(const Value& value) const {
  return trace_.operators[value.writers.empty() ? value.creator : value.writers.back()]
      .is_in_flight;
}

bool TraceRecorder::reads_what_is_lost(std::uint32_t index, std::uint32_t creator) const {
  const auto& inputs = trace_.operators[index].inputs;
  return std::any_of(inputs.begin(), inputs.end(), [&](ValueId id) {
    const Value& value = values_[id];
    return value.creator != creator &&
           std::any_of(value.writers.begin(), value.writers.end(), [&](std::uint32_t writer) {
             return writer > index && trace_.operators[writer].plan == Plan::kSkip;
           });
  });
}

// The operators that replays run if the results of one are not kept.
std::vector<std::uint32_t> TraceRecorder::runs_without(std::uint32_t index) const {
  std::vector<std::uint32_t> runs = {index};
  for (const ValueId id : trace_.operators[index].made) {
    for (const std::uint32_t writer : values_[id].writers) {
      if (trace_.operators[writer].plan == Plan::kSkip) {
        runs.push_back(writer);
      }
    }
  }
  return runs;
}

// False if one of those reads what a kept result was before a write.
bool TraceRecorder::can_unkeep(std::uint32_t index) const {
  const std::vector<std::uint32_t> runs = runs_without(index);
  return std::none_of(runs.begin(), runs.end(),
                      [&](std::uint32_t each) { return reads_what_is_lost(each, index); });
}

bool TraceRecorder::unkeep(std::uint32_t index) {
  if (!trace_.mutable_kept().contains(index)) {
    return true;
  }
  if (!can_unkeep(index)) {
    return false;
  }
  trace_.mutable_kept().erase(index);
  for (const std::uint32_t each : runs_without(index)) {
    run(each);
  }
  return true;
}

bool TraceRecorder::keep_value(const at::Tensor& tensor, const PolicyAnswer& answer) {
  const auto id = value_in(storage_id_of(tensor));
  if (!id) {
    return true;
  }
  Value& value = values_[*id];
  if (kept(value) == nullptr && !value.is_constant &&
      !keep_as_result(value, tensor, answer, Moment::kAfterwards)) {
    return false;
  }
  trace_.operators[value.creator].decision = answer.policy;
  return true;
}

bool TraceRecorder::recompute_value(const at::Tensor& tensor, CheckpointPolicy decision) {
  TracedOperator* const creator = creator_of(tensor);
  if (creator == nullptr) {
    return true;
  }
  if (!unkeep(index_of(*creator))) {
    return false;
  }
  creator->decision = decision;
  return true;
}

}  // namespace reprise::engine_internal
