// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The frontier of a trace: see Note [Frontier].
#include <algorithm>
#include <utility>

#include "reprise/engine/operators/operator_traits.h"
#include "reprise/engine/selective/trace_recorder.h"

namespace reprise::engine_internal {
namespace {

using Plan = TracedOperator::Plan;
using Frontier = KeptFrontier<TracedValueId, TracedOperatorId>;

}  // namespace

void TraceRecorder::note_frontier(TracedOperatorId index, c10::ArrayRef<c10::IValue> results) {
  const TracedOperator& op = trace_.operators[index];
  bool reads_kept = false;
  for (const TracedValueId id : op.inputs) {
    if (is_kept(id)) {
      frontier_.add_reader(id, index);
      reads_kept = true;
    }
  }
  if (!reads_kept || is_served(index) || op.made.empty()) {
    return;
  }
  Frontier::Results made;
  for (const c10::IValue& result : results) {
    for_each_tensor(result, [&](const at::Tensor& tensor) {
      const auto id = value_in(storage_id_of(tensor));
      if (id && values_[*id].creator == index) {
        made.push_back({*id, c10::weak_intrusive_ptr(tensor.getIntrusivePtr())});
      }
    });
  }
  frontier_.add_results(index, std::move(made));
}

at::Tensor TraceRecorder::replaceable(TracedValueId id) const {
  const Value& value = values_[id];
  const bool may_be_needed = value.is_needed || value.is_saved || has_unknown_parts_;
  return may_be_needed || !may_release(value) ? at::Tensor() : kept(value)->alias;
}

// Its contents are those that its creator, and the writers that follow it, have left.
bool TraceRecorder::may_release(const Value& value) const {
  const KeptResult* const result = kept(value);
  const auto follows = [this](TracedOperatorId writer) {
    return trace_.operators[writer].plan == Plan::kSkip;
  };
  const bool is_fixed = result == nullptr || !result->alias.defined() || result->is_snapshot ||
                        result->is_in_flight || !value.may_follow ||
                        trace_.operators[value.creator].is_forced;
  return !is_fixed && std::all_of(value.writers.begin(), value.writers.end(), follows) &&
         can_unkeep(value.creator);
}

bool TraceRecorder::is_served(TracedOperatorId index) const {
  return trace_.operators[index].plan != Plan::kRun;
}

bool TraceRecorder::may_keep(TracedOperatorId index, TracedValueId id,
                             const at::Tensor& tensor) const {
  const TracedOperator& op = trace_.operators[index];
  const Value& value = values_[id];
  const bool is_free = op.decision != CheckpointPolicy::MUST_RECOMPUTE && !op.is_forced &&
                       !op.is_root && !op.is_wait && !op.is_in_flight && op.results.has_value();
  return is_free && value.writers.empty() && value.may_follow && !value.is_constant &&
         is_keepable(tensor);
}

void TraceRecorder::keep_instead(TracedOperatorId index, TracedValueId id,
                                 const at::Tensor& tensor) {
  Value& value = values_[id];
  std::vector<KeptResult>& all = trace_.mutable_kept()[index];
  all.resize(trace_.operators[index].results->tensor_count());
  all[value.tensor] = KeptResult(whole(value, tensor));
  all[value.tensor].sample = sample_memory(tensor, false);
  trace_.operators[index].plan = Plan::kServe;
}

std::int64_t TraceRecorder::dropped_bytes() const {
  std::int64_t bytes = 0;
  for (const Value& value : values_) {
    bytes += value.is_saved && kept(value) == nullptr ? value.bytes : 0;
  }
  return bytes;
}

bool TraceRecorder::may_drop(TracedValueId id) const {
  return may_release(values_[id]) && !is_must(trace_.operators[values_[id].creator].decision);
}

bool TraceRecorder::is_cheap(TracedValueId id) const {
  const c10::OperatorName& name = *trace_.operators[values_[id].creator].name;
  const auto op = c10::Dispatcher::singleton().findSchema(name);
  return op && OperatorTraits::of(*op).is_cheap;
}

// With what autograd would not retain, such as results that the region's code may have read through
// a pointer, the retained results may exceed the saved tensors that the region drops. A replay may
// compute a released result from other retained results, so all of these stay until their turn.
void TraceRecorder::drop_excess() {
  while (frontier_.drop_excess(beyond_saved())) {
    find_needed();
  }
}

// Returns retained values needed by a replay, and not saved by autograd.
std::vector<TracedValueId> TraceRecorder::beyond_saved() const {
  std::vector<TracedValueId> beyond;
  for (const TracedValueId id : values_.ids()) {
    const Value& value = values_[id];
    if (value.is_needed && !value.is_saved && kept(value) != nullptr) {
      beyond.push_back(id);
    }
  }
  return beyond;
}

// If the value is needed after all, replays run its creator and its writers.
void TraceRecorder::release(TracedValueId id, const std::vector<TracedOperatorId>& readers) {
  const Value& value = values_[id];
  *kept(value) = {};
  const CheckpointPolicy decision = trace_.operators[value.creator].decision;
  for (const TracedOperatorId reader : readers) {
    inherit_decision(trace_.operators[reader].decision, decision);
  }
  for (const TracedValueId input : trace_.operators[value.creator].inputs) {
    values_[input].is_read = true;
  }
  for (const TracedOperatorId writer : value.writers) {
    run(writer);
  }
}

}  // namespace reprise::engine_internal
