// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The part of a function region's tape that replays need, determined when forward has ended.

#include "reprise/engine/tape/tape_needs.h"
#include "reprise/engine/tape_recording/function_recorder.h"

namespace reprise::engine_internal {

void FunctionRecorder::complete(const SlotSet& wanted, bool may_pack, RegionStats* stats) {
  end_recording();
  if (may_pack) {
    end_policy(wanted);
  }
  note_final_versions();
  // A replay that received contents written through a pointer would write them twice.
  const bool is_filled_by_pointers = forget_lost(/*with_stored=*/true);
  values_.set_unknown_readers(has_unknown_parts_);
  values_.advance_frontier(/*is_over=*/true);
  TapeValueSet needed = needed_at_end(wanted);
  need_dead_ends(needed);
  TapeOperatorSet runs = find_needed(needed);
  if (is_filled_by_pointers || has_unknown_parts_ || has_hidden_writes(needed)) {
    needed = TapeValueSet(tape_.values.size(), true);
    runs = find_needed(needed);
  } else {
    drop_excess(needed, runs);
  }
  ReplayActions actions = find_actions(tape_, needed, std::move(runs),
                                       [this](TapeValueId value) { return is_kept(value); });
  if (stats != nullptr) {
    report_operators(needed, *stats);
  }
  release_unused(actions, needed);
  if (may_pack) {
    give_kept(function_.through_hooks);
  }
  for (Tape::Operator& op : tape_.operators) {
    op.first_argument = op.end_argument = 0;
  }
  tape_.arguments = {};
  function_.complete(std::move(actions));
}

TapeValueSet FunctionRecorder::needed_at_end(const SlotSet& wanted) const {
  TapeValueSet needed(tape_.values.size());
  for (const SlotId slot : wanted.ids()) {
    if (wanted[slot] && tape_.slots[slot].value != Tape::kNone) {
      needed[tape_.slots[slot].value] = true;
    }
  }
  for (const TapeValueId value : tape_.values.ids()) {
    needed[value] = needed[value] || values_[value].is_needed;
  }
  return needed;
}

// The region's code may have read, through a pointer, a value that no operator has used and that
// has been released since.
void FunctionRecorder::need_dead_ends(TapeValueSet& needed) {
  values_.for_each_memory([&](const MemoryTable::Memory& memory, TapeValueId value) {
    const bool may_be_read = values_[value].bytes > 0;  // batch-norm allocates nothing on the CPU
    if (!may_be_read || values_[value].is_read) {
      return;
    }
    const Tape::Given* const kept = values_.input(value);
    const std::size_t ours = kept != nullptr && kept->kept.alias.defined() ? 1 : 0;
    // A store may hold the memory as well, or a region around this one.
    const auto owned = owned_by_others_.find(value);
    if ((kept != nullptr && kept->kept.stored) || memory.storage.use_count() <= ours ||
        (owned != owned_by_others_.end() && owned->second.expired())) {
      needed[value] = true;
      if (enclosing_ != nullptr) {
        enclosing_->note_read_by_host(memory.id);
      }
    }
  });
}

// A kernel that the code launches itself fills memory outside the dispatcher, from unknown inputs:
// then each result may be needed. So it may be as a part of a saved tensor, see Note [Parts].
bool FunctionRecorder::has_hidden_writes(const TapeValueSet& needed) const {
  bool is_any = false;
  values_.for_each_memory([&](const MemoryTable::Memory& memory, TapeValueId value) {
    const TapeValues::Info& info = values_[value];
    const TapeOperatorId op = tape_.values[value].op;
    if (is_any || !needed[value] || op == Tape::kNone) {
      return;
    }
    const bool is_unset =
        !has_writes(op) && OperatorTraits::of(tape_.operators[op].op).leaves_memory_as_it_is;
    const auto is_filled = [&] {
      const auto storage = memory.storage.lock();
      return storage && sample_storage(*storage, /*of_all_bytes=*/false) != info.sample;
    };
    is_any = is_unset || (info.is_constant && info.sample != 0 && is_filled());
  });
  return is_any;
}

// With what autograd would not retain, such as results that the region's code may have read through
// a pointer, the retained results may exceed the saved tensors that the region drops. A replay may
// compute a released result from other retained results, so all of these stay until their turn.
void FunctionRecorder::drop_excess(TapeValueSet& needed, TapeOperatorSet& runs) {
  const auto beyond_saved = [&] {
    std::vector<TapeValueId> beyond;
    for (const auto& [value, given] : tape_.given) {
      if (needed[value] && values_[value].saved_at_version < 0) {
        beyond.push_back(value);
      }
    }
    std::sort(beyond.begin(), beyond.end());
    return beyond;
  };
  while (values_.drop_excess(beyond_saved())) {
    runs = find_needed(needed);
  }
}

TapeOperatorSet FunctionRecorder::find_needed(TapeValueSet& needed) const {
  const auto is_saved = [this](TapeValueId value) { return is_kept(value); };
  const TapeOperatorSet supplied = supplied_operators(
      tape_, [&](TapeValueId value) { return is_kept(value) || values_[value].is_released; });
  return needed_operators(tape_, needed, is_saved, &supplied);
}

// A retained outcome of a write that replays run is of no use either.
void FunctionRecorder::release_unused(const ReplayActions& actions, const TapeValueSet& needed) {
  absl::erase_if(tape_.given, [&](const auto& entry) { return !needed[entry.first]; });
  for (const Tape::Write& write : tape_.writes) {
    if (write.after != Tape::kNone && actions.runs[tape_.values[write.after].op]) {
      tape_.given.erase(write.after);
    }
  }
}

}  // namespace reprise::engine_internal
