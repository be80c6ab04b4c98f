// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The results that a trace retains: as the result of a value's creator, or not at all.
#include <algorithm>
#include <utility>

#include "reprise/engine/selective/trace_recorder.h"

namespace reprise::engine_internal {
namespace {

using Plan = TracedOperator::Plan;

}  // namespace

// The value is retained as of after the write, with the version counter of the written tensor (that
// of _unsafe_view's result differs from its argument's).
bool TraceRecorder::let_follow(TracedOperatorId index, Value& value, const at::Tensor& written) {
  KeptResult* const result = kept(value);
  if (result == nullptr || !result->alias.defined() || result->is_snapshot || !value.may_follow ||
      !is_keepable(written)) {
    return false;
  }
  // Readers of a value in flight mean the arrived value.
  const bool is_arrival = trace_.operators[index].is_wait && result->is_in_flight;
  if (!is_arrival && (result->is_mutated() || value.is_read)) {
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
  for (const TracedOperatorId writer : value.writers) {
    trace_.operators[writer].plan = Plan::kSkip;
    trace_.mutable_kept().erase(writer);
  }
  return true;
}

bool TraceRecorder::is_in_flight(const Value& value) const {
  return trace_.operators[value.writers.empty() ? value.creator : value.writers.back()]
      .is_in_flight;
}

bool TraceRecorder::reads_what_is_lost(TracedOperatorId index, TracedOperatorId creator) const {
  const auto& inputs = trace_.operators[index].inputs;
  return std::any_of(inputs.begin(), inputs.end(), [&](TracedValueId id) {
    const Value& value = values_[id];
    return value.creator != creator &&
           std::any_of(value.writers.begin(), value.writers.end(), [&](TracedOperatorId writer) {
             return writer > index && trace_.operators[writer].plan == Plan::kSkip;
           });
  });
}

// Returns the operators that replays run if the results of one are not retained.
std::vector<TracedOperatorId> TraceRecorder::runs_without(TracedOperatorId index) const {
  std::vector<TracedOperatorId> runs = {index};
  for (const TracedValueId id : trace_.operators[index].made) {
    for (const TracedOperatorId writer : values_[id].writers) {
      if (trace_.operators[writer].plan == Plan::kSkip) {
        runs.push_back(writer);
      }
    }
  }
  return runs;
}

// Returns false if one of them reads a retained result as of before a write.
bool TraceRecorder::can_unkeep(TracedOperatorId index) const {
  const std::vector<TracedOperatorId> runs = runs_without(index);
  return std::none_of(runs.begin(), runs.end(),
                      [&](TracedOperatorId each) { return reads_what_is_lost(each, index); });
}

// Returns false if that is impossible.
bool TraceRecorder::unkeep(TracedOperatorId index) {
  if (!trace_.mutable_kept().contains(index)) {
    return true;
  }
  if (!can_unkeep(index)) {
    return false;
  }
  trace_.mutable_kept().erase(index);
  for (const TracedOperatorId each : runs_without(index)) {
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
  const auto creator = creator_of(tensor);
  if (!creator) {
    return true;
  }
  if (!unkeep(*creator)) {
    return false;
  }
  trace_.operators[*creator].decision = decision;
  return true;
}

}  // namespace reprise::engine_internal
