// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/selective/trace_recorder.h"

#include <c10/util/StringUtil.h>

#include <algorithm>
#include <utility>

#include "reprise/engine/embedding/embedding_language.h"
#include "reprise/engine/errors.h"
#include "reprise/engine/recomputing.h"

namespace reprise::engine_internal {
namespace {

using Plan = TracedOperator::Plan;

}  // namespace

void TraceRecorder::begin(PolicyRegion* enclosing) {
  enclosing_ = enclosing;
  is_nested_ = enclosing != nullptr || is_recomputing();
}

std::string TraceRecorder::describe_operator(TracedOperatorId index) const {
  return c10::str("operator ", index, ", ", *trace_.operators[index].name);
}

std::optional<TracedValueId> TraceRecorder::value_in(StorageId memory) const {
  const auto found = value_of_memory_.find(memory);
  return found == value_of_memory_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<TracedOperatorId> TraceRecorder::creator_of(const at::Tensor& tensor) const {
  const auto id = value_in(storage_id_of(tensor));
  return id ? std::optional(values_[*id].creator) : std::nullopt;
}

void TraceRecorder::need(StorageId memory) {
  if (const auto id = value_in(memory)) {
    values_[*id].is_needed = true;
  }
}

void TraceRecorder::note_saved(const at::Tensor& tensor) {
  note_saved_memory(storage_id_of(tensor));
  if (is_of_language(tensor)) {
    std::vector<at::Tensor> parts;
    if (append_parts(tensor, parts)) {
      for (const at::Tensor& part : parts) {
        need(storage_id_of(part));
        note_saved_memory(storage_id_of(part));
      }
    } else if (!value_in(storage_id_of(tensor))) {
      has_unknown_parts_ = true;
    }
  }
}

void TraceRecorder::note_saved_memory(StorageId memory) {
  if (const auto id = value_in(memory)) {
    values_[*id].is_saved = true;
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
  const TracedOperatorId index = trace_.operators.next_id();
  op.results = trace_.results.append(results);
  op.has_other_owners = op.has_other_owners || is_nested_;
  bool shares_memory = false;  // then a retained one would be separated from the other
  std::uint32_t ordinal = 0;
  for (std::size_t i = 0; i < results.size(); ++i) {
    for_each_tensor(results[i], [&](const at::Tensor& tensor) {
      const std::uint32_t place = ordinal++;
      const StorageId memory = storage_id_of(tensor);
      if (std::find(arguments.begin(), arguments.end(), memory) != arguments.end()) {
        // A view that its schema does not declare, as of _unsafe_view.
        op.is_view = op.is_view || !result_arguments[i];
      } else if (const c10::StorageImpl* const storage = storage_of(tensor)) {
        const auto known = ordinal > 1 ? value_in(memory) : std::nullopt;
        shares_memory = shares_memory || (known && values_[*known].creator == index);
        const TracedValueId id = values_.next_id();
        values_.push_back(
            {.creator = index,
             .tensor = place,
             .bytes = static_cast<std::int64_t>(storage->nbytes()),
             .storage = weak_storage_of(tensor),
             .is_needed = is_of_language(tensor),
             .last_reader = {},
             .is_constant = op.is_constant,
             .sample = op.is_constant ? sample_memory(tensor, false) : 0,
             .writers = {},
             .result = WeakTensor(
                 op.has_other_owners
                     ? tensor.getIntrusivePtr()
                     : c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>())});
        value_of_memory_.insert_or_assign(memory, id);
        op.made.push_back(id);
      }
    });
  }
  op.is_root = op.is_root || op.is_view;
  if (shares_memory) {
    op.results.reset();
  }
}

void TraceRecorder::decide_last(const PolicyAnswer& answer, c10::ArrayRef<c10::IValue> results) {
  const TracedOperatorId index = last_index();
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

void TraceRecorder::finish_last(c10::ArrayRef<c10::IValue> results) {
  const TracedOperator& op = last();
  for (const TracedValueId id : op.written) {
    Value& value = values_[id];
    value.has_earlier_reader = value.has_earlier_reader || value.is_read;
    value.is_constant = value.is_constant && op.is_constant;
    value.may_follow = value.may_follow && op.is_lone_write && !op.is_resizing;
    value.writers.push_back(last_index());
  }
  if (op.is_view) {
    return;
  }
  for (const TracedValueId id : op.inputs) {
    values_[id].is_used = true;
  }
  if (op.plan == Plan::kRun) {
    run(last_index());
  }
  note_frontier(last_index(), results);
}

// Replays run the operator: its inputs are read.
void TraceRecorder::run(TracedOperatorId index) {
  TracedOperator& op = trace_.operators[index];
  op.plan = Plan::kRun;
  for (const TracedValueId id : op.inputs) {
    const bool is_target = std::find(op.written.begin(), op.written.end(), id) != op.written.end();
    values_[id].is_read = values_[id].is_read || !is_target;
  }
}

void TraceRecorder::keep_results(TracedOperatorId index, const PolicyAnswer& answer,
                                 c10::ArrayRef<c10::IValue> results) {
  TracedOperator& op = trace_.operators[index];
  if (!op.results) {
    return;  // sparse, quantized, nested, or of lazy conjugation: replays run it
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

}  // namespace reprise::engine_internal
