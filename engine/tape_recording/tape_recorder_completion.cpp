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

void TapeRecorder::complete(const SlotSet& alive, bool may_pack, RegionStats* stats) {
  tape_.recomputes_kept = false;
  end_recording();
  if (may_pack) {
    end_policy(alive);
  }
  note_final_versions();
  forget_lost(/*with_stored=*/false);
  values_.advance_frontier(/*is_over=*/true);
  if (has_transfers_) {
    // A plan, and an eviction, leave nothing to compute that depends on a transfer.
    require_transfers(tape_, /*all=*/options_.needs_transfers, [this](TapeValueId value) {
      return is_planned_ ? tape_.given.contains(value) : is_always_available(tape_, value);
    });
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
  if (may_pack) {
    TapeWriter::give_kept(options_.through_hooks);
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
  report_operators(needed, stats);
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
