// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The part of a trace that replays need, determined when forward has ended.
#include <algorithm>

#include <c10/util/StringUtil.h>

#include "reprise/engine/errors.h"
#include "reprise/engine/operators/operator_traits.h"
#include "reprise/engine/selective/trace_recorder.h"
#include "reprise/hooks/seam/forwarding_engine.h"

namespace reprise::engine_internal {
namespace {

using Plan = TracedOperator::Plan;

}  // namespace

bool TraceRecorder::is_any_needed(const auto& ids) const {
  return std::any_of(ids.begin(), ids.end(),
                     [this](TracedValueId id) { return values_[id].is_needed; });
}

// The region's code may have read, through a pointer, a value that no operator has used and that
// has been released since.
// Returns whether a result of the operator, or the outcome of its write in place, is needed.
// Operators that read the value before the write do not need the write.
bool TraceRecorder::is_needed_after(TracedOperatorId index) const {
  const TracedOperator& op = trace_.operators[index];
  return is_any_needed(op.made) ||
         std::any_of(op.written.begin(), op.written.end(), [this, index](TracedValueId id) {
           const Value& value = values_[id];
           return value.is_needed && (!value.last_reader || *value.last_reader > index);
         });
}

void TraceRecorder::need_dead_ends() {
  for (Value& value : values_) {
    const bool may_be_read = value.bytes > 0;  // batch-norm allocates nothing on the CPU
    if (!may_be_read || value.is_used) {
      continue;
    }
    const KeptResult* const result = kept(value);
    const std::size_t ours = result != nullptr && result->alias.defined() ? 1 : 0;
    // A store may hold the memory as well, or a region around this one.
    const bool may_be_dead =
        (result != nullptr && result->stored) || value.storage.use_count() <= ours ||
        (trace_.operators[value.creator].has_other_owners && value.result.expired());
    if (may_be_dead) {
      value.is_needed = true;
      if (enclosing_ != nullptr) {
        enclosing_->note_read_by_host(value.storage._unsafe_get_target());
      }
    }
  }
}

// From the last operator to the first: a needed value makes the inputs of its operator needed,
// unless that operator's results are retained.
void TraceRecorder::find_needed() {
  for (std::size_t i = trace_.operators.size(); i-- > 0;) {
    const TracedOperatorId index(i);
    TracedOperator& op = trace_.operators[index];
    if (op.plan == Plan::kServe &&
        std::any_of(op.made.begin(), op.made.end(), [this](TracedValueId id) {
          return values_[id].is_needed && kept(values_[id]) == nullptr;
        })) {
      op.plan = Plan::kServePartly;
    }
    const bool is_run = op.plan == Plan::kRun || op.plan == Plan::kServePartly;
    // An operator that uses a view uses the value itself; making the view reads no element.
    const bool is_view_only = op.is_view && op.made.empty();
    if (is_run && !is_view_only && (op.is_root || !op.results || is_needed_after(index))) {
      for (const TracedValueId id : op.inputs) {
        Value& value = values_[id];
        if (!value.is_needed || (value.last_reader && *value.last_reader < index)) {
          value.is_needed = true;
          value.last_reader = index;
        }
      }
    }
  }
}

// A kernel that the code launches itself fills memory outside the dispatcher, from unknown inputs:
// then each result may be needed. So it may be as a part of a saved tensor, see Note [Parts].
bool TraceRecorder::has_hidden_writes() const {
  return has_unknown_parts_ ||
         std::any_of(values_.begin(), values_.end(), [this](const Value& value) {
           const auto is_unset = [&] {
             return value.writers.empty() &&
                    leaves_memory_as_it_is(trace_.operators[value.creator].name->name);
           };
           return value.is_needed && (is_unset() || is_written_through_pointer(value));
         });
}

// For a constant that still exists.
bool TraceRecorder::is_written_through_pointer(const Value& value) const {
  if (!value.is_constant || value.sample == 0) {
    return false;
  }
  const auto storage = value.storage.lock();
  return storage && sample_storage(*storage, false) != value.sample;
}

// A replay that received the contents written through a pointer would write them twice.
void TraceRecorder::unkeep_what_pointers_wrote() {
  if (!OperatorTrace::any_of(trace_.mutable_kept(), &KeptResult::is_written_through_pointer)) {
    return;
  }
  for (const Value& value : values_) {
    const KeptResult* const result = kept(value);
    if (result == nullptr || !result->is_written_through_pointer()) {
      continue;
    }
    const TracedOperator& creator = trace_.operators[value.creator];
    if (!unkeep(value.creator)) {
      throw CheckpointError(c10::str(
          "[checkpoint] the result of operator ", value.creator, ", ", *creator.name,
          ", is kept, and has been written through a pointer afterwards. Write to a clone, or "
          "answer MUST_RECOMPUTE for it"));
    }
    need_everything();
  }
}

void TraceRecorder::let_go(TracedOperatorId index) {
  TracedOperator& op = trace_.operators[index];
  // Later operators find the shape that the copy leaves.
  const bool is_resizing_copy = op.plan == Plan::kCopy && op.is_resizing;
  const bool is_needed = is_needed_after(index) || is_resizing_copy;
  const bool may_die = op.plan == Plan::kCopy || (!op.is_root && !op.is_wait && op.results);
  if (!is_needed && may_die && op.plan != Plan::kSkip) {
    op.plan = Plan::kDead;
  }
  const auto kept = trace_.mutable_kept().find(index);
  if (kept == trace_.mutable_kept().end()) {
    return;
  }
  if (!is_needed) {
    trace_.mutable_kept().erase(kept);
    return;
  }
  for (const TracedValueId id : op.made) {
    if (!values_[id].is_needed) {
      kept->second[values_[id].tensor] = {};
    }
  }
}

// The operator whose result the retained value is: a write in place may have made it the result of
// the value's creator.
TracedOperatorId TraceRecorder::keeper_of(const Value& value) const {
  const auto keeps_it = [this](TracedOperatorId index) {
    return keeps(trace_.operators[index].decision);
  };
  const auto writer = std::find_if(value.writers.rbegin(), value.writers.rend(), keeps_it);
  return keeps_it(value.creator) || writer == value.writers.rend() ? value.creator : *writer;
}

bool TraceRecorder::keeps_as(TracedOperatorId index, const Value& value) {
  return kept(value) != nullptr && keeper_of(value) == index;
}

void TraceRecorder::report(TracedOperatorId index, RegionStats& stats) {
  const TracedOperator& op = trace_.operators[index];
  std::int64_t kept_bytes = 0;
  std::int64_t dropped_bytes = 0;
  for (const TracedValueId id : op.made) {
    dropped_bytes += kept(values_[id]) == nullptr ? values_[id].bytes : 0;
    kept_bytes += keeps_as(index, values_[id]) ? values_[id].bytes : 0;
  }
  for (const TracedValueId id : op.written) {
    kept_bytes += keeps_as(index, values_[id]) ? values_[id].bytes : 0;
  }
  if (op.plan == Plan::kCopy) {
    kept_bytes += values_[op.written[0]].bytes;
  }
  stats.kept_bytes.fetch_add(kept_bytes);
  stats.add_call(*op.name, op.decision, kept_bytes, dropped_bytes);
}

void TraceRecorder::put_kept_away() {
  const at::NoGradGuard no_grad;
  auto& kept = trace_.mutable_kept();
  for (const TracedOperatorId index : sorted_keys(kept)) {
    for (KeptResult& result : kept.at(index)) {
      result.put_away();
      const bool may_go = trace_.through_hooks && result.alias.defined() && !result.is_in_flight &&
                          !result.alias.is_inference();
      if (auto hooks = may_go ? hooks_internal::make_ambient_hooks() : nullptr) {
        hooks->call_pack_hook(result.alias);
        result.packed = std::move(hooks);
        result.alias.reset();
      }
    }
  }
}

void TraceRecorder::need_everything() {
  for (Value& value : values_) {
    value.is_needed = true;
    value.last_reader.reset();
  }
  find_needed();
}

// No backward asks for values saved only in dropped graphs.
void TraceRecorder::need_saved(const absl::flat_hash_set<StorageId>& dropped) {
  for (const StorageId memory : dropped) {
    if (const auto id = value_in(memory)) {
      values_[*id].is_saved = false;
    }
  }
  for (Value& value : values_) {
    value.is_needed = value.is_needed || value.is_saved;
  }
}

void TraceRecorder::complete(const absl::flat_hash_set<StorageId>& dropped, bool may_pack,
                             RegionStats* stats) {
  need_saved(dropped);
  note_final_versions();
  unkeep_what_pointers_wrote();
  frontier_.advance(/*is_over=*/true);
  need_dead_ends();
  find_needed();
  if (has_hidden_writes()) {
    need_everything();
  } else {
    drop_excess();
  }
  for (const TracedOperatorId index : trace_.operators.ids()) {
    let_go(index);
    if (const TracedOperator& op = trace_.operators[index]; stats != nullptr && op.is_asked) {
      report(index, *stats);
    }
  }
  if (may_pack) {
    put_kept_away();
  }
  ResultList results;  // of the operators that replays skip
  for (TracedOperator& op : trace_.operators) {
    op.inputs = {};
    op.made = {};
    op.written = {};
    const bool is_left_out = op.plan == Plan::kDead || op.plan == Plan::kServe;
    op.results = is_left_out && op.results
                     ? std::optional(results.take(trace_.results, *op.results))
                     : std::nullopt;
  }
  trace_.results = std::move(results);
  trace_.operators.shrink_to_fit();
  trace_.is_complete = true;
}

}  // namespace reprise::engine_internal
