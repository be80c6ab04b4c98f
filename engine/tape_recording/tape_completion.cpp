// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The part of a tape that replays can ask for, determined when forward has ended.
#include <algorithm>

#include "reprise/engine/kept/input_group.h"
#include "reprise/engine/operators/refillable_memory.h"
#include "reprise/engine/tape/tape_needs.h"
#include "reprise/engine/tape_recording/tape_recorder.h"
#include "reprise/hooks/seam/forwarding_engine.h"
#include "reprise/hooks/seam/unseen_scope.h"

namespace reprise::engine_internal {
namespace {

using Why = Tape::Given::Why;

}  // namespace

// The tape has seen each write of the region, so an unknown version has been counted without a
// write, as by mark_dirty().
void TapeRecorder::note_final_versions() {
  for (auto& [value, given] : tape_.given) {
    if (given.why == Why::kPolicy && given.kept.alias.defined()) {
      given.kept.version = version_of(given.kept.alias);
    }
  }
}

// What the policy retains in memory that its owner has since freed, or written through a pointer,
// is computed again.
void TapeRecorder::forget_lost() {
  const auto is_freed = [this](TapeValueId value, const at::Tensor& kept) {
    return kept.has_storage() &&
           static_cast<std::int64_t>(kept.storage().nbytes()) < values_[value].bytes;
  };
  absl::erase_if(tape_.given, [&](const auto& entry) {
    const Tape::Given& given = entry.second;
    return given.why == Why::kPolicy && given.kept.alias.defined() &&
           (is_freed(entry.first, given.kept.alias) || given.kept.is_written_through_pointer());
  });
}

void TapeRecorder::complete(const SlotSet& alive, bool may_pack, RegionStats* stats) {
  tape_.recomputes_kept = false;
  note_versions();
  note_final_versions();
  forget_lost();
  values_.advance_frontier(/*is_over=*/true);
  if (has_transfers_) {
    require_transfers(tape_, /*all=*/options_.needs_transfers);
  }
  TapeOperatorSet operators;
  const TapeValueSet needed = needed_values(tape_, alive, operators, [this](TapeValueId value) {
    return is_always_available(tape_, value);
  });
  if (stats != nullptr) {
    report(needed, *stats);
  }
  // The results that a policy saves, and other owners of tensors, differ between forward and a
  // replay of an enclosing region, which has to save the same tensors.
  TapeValueSet otherwise;
  if (options_.is_nested) {
    otherwise = looked_at_otherwise(tape_, SlotSet(tape_.slots.size(), true));
  }
  drop_operators_but(tape_, operators);
  if (!options_.is_nested) {
    otherwise = looked_at_otherwise(tape_, alive);
  }
  give_inputs(needed, otherwise, may_pack);
  give_kept(needed, may_pack);
  complete_refilled(needed);
  if (stats != nullptr) {
    stats->tape_bytes.fetch_add(static_cast<std::int64_t>(tape_.bytes()));
    stats->tape_operators.fetch_add(static_cast<std::int64_t>(tape_.operators.size()));
  }
}

// Each tensor from outside goes to the surrounding hooks, needed or not: an enclosing region counts
// the tensors that its code saves, and its replay must count the same. A store receives only needed
// ones.
void TapeRecorder::give_inputs(const TapeValueSet& needed, const TapeValueSet& otherwise,
                               bool may_pack) {
  std::vector<TapeValueId> to_pack;
  std::vector<at::Tensor> tensors;
  for (const TapeValueId value : values_.outside()) {
    Tape::Given& input = tape_.given.at(value);
    if (input.why == Why::kOutside && input.kept.is_mutated() && !input.lost) {
      input.lost = describe_loss(input);
    }
    if (otherwise[value] && !input.parameter.defined()) {
      input.kept.alias = flat(input.kept.alias, values_[value].bytes);  // it may be freed now
      input.geometry = tables_.geometry_of(input.kept.alias);
    }
    // The statistics that batch-norm has saved are not used: an enclosing region that saved them
    // would compare them.
    const bool is_packed = (options_.input_store == nullptr || needed[value]) &&
                           !input.is_parameter && !values_[value].is_statistics &&
                           !is_refillable(input.kept.alias);
    if (may_pack && is_packed && input.why == Why::kOutside && !input.lost) {
      to_pack.push_back(value);
      tensors.push_back(input.kept.alias);
    }
  }
  const InputGroup given_away;
  std::vector<RegionInput> inputs = RegionInput::keep_all(tensors, options_.input_store, region_);
  for (std::size_t i = 0; i < to_pack.size(); ++i) {
    Tape::Given& input = tape_.given.at(to_pack[i]);
    input.input.emplace(std::move(inputs[i]));
    // Later writes of this kind do not reach a packed tensor.
    if (input.input->is_packed() && input.sample != 0 &&
        input.sample != sample_memory(tensors[i], input.is_whole_sample)) {
      input.lost = TensorMetadata(tensors[i]).to_string() + kWrittenThroughPointer;
    }
    input.kept.alias.reset();
  }
  for (const TapeValueId value : values_.outside()) {
    if (!needed[value]) {
      tape_.given.erase(value);
    }
  }
}

void TapeRecorder::give_kept(const TapeValueSet& needed, bool may_pack) {
  absl::erase_if(tape_.given, [&](const auto& entry) {
    const bool is_input = entry.second.why != Why::kPolicy && entry.second.why != Why::kUnset;
    return !is_input && !needed[entry.first];
  });
  if (!may_pack) {
    return;
  }
  const hooks_internal::UnseenScope unseen;
  for (const TapeValueId value : sorted_keys(tape_.given)) {
    Tape::Given& given = tape_.given.at(value);
    KeptResult& kept = given.kept;
    kept.put_away();
    if (!options_.through_hooks || given.why != Why::kPolicy || !kept.alias.defined() ||
        kept.is_in_flight || kept.alias.is_inference()) {
      continue;
    }
    if (auto hooks = hooks_internal::make_ambient_hooks()) {
      hooks->call_pack_hook(kept.alias);
      kept.packed = std::move(hooks);
      kept.alias.reset();
    }
  }
}

// Leaves what others own and will use again.
void TapeRecorder::complete_refilled(const TapeValueSet& needed) {
  absl::erase_if(tape_.refilled, [&](auto& entry) {
    auto& [value, refilled] = entry;
    const TapeValues::Memory* const memory = values_.find(refilled.whole.memory());
    const TapeOperatorId op = tape_.values[value].op;
    const bool is_managed = op != Tape::kNone && tape_.operators[op].is_hidden;
    const bool is_to_stay = needed[value] && refilled.whole.exists() && memory != nullptr &&
                            (memory->is_others || refilled.whole.is_freed() || is_managed);
    if (is_to_stay) {
      refilled.complete(/*is_current=*/memory->current == value, is_managed);
    }
    return !is_to_stay;
  });
}

void TapeRecorder::report(const TapeValueSet& needed, RegionStats& stats) const {
  for (const Tape::Operator& op : tape_.operators) {
    std::int64_t kept_bytes = 0;
    std::int64_t dropped_bytes = 0;
    const auto count = [&](TapeValueId value) {
      const bool is_kept = needed[value] && tape_.given.contains(value);
      kept_bytes += is_kept ? values_[value].bytes : 0;
      return is_kept;
    };
    for (std::uint32_t i = op.first_made; i < op.end_made; ++i) {
      dropped_bytes += count(tape_.made[i].value) ? 0 : values_[tape_.made[i].value].bytes;
    }
    for (std::uint32_t i = op.first_write; i < op.end_write; ++i) {
      if (tape_.writes[i].after != Tape::kNone) {
        count(tape_.writes[i].after);
      }
    }
    stats.kept_bytes.fetch_add(kept_bytes);
    if (op.is_asked) {
      stats.add_call(op.op.operator_name(), op.decision, kept_bytes, dropped_bytes);
    }
  }
  for (const TapeValueId value : values_.outside()) {
    const Tape::Given& given = tape_.given.at(value);
    if (needed[value] && !given.is_parameter && given.why != Why::kScratch) {
      stats.kept_bytes.fetch_add(values_[value].bytes);
    }
    if (needed[value] && given.why == Why::kOutOfSight) {
      stats.untracked_bytes.fetch_add(values_[value].bytes);
    }
  }
}

}  // namespace reprise::engine_internal
