// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/tape_recording/saved_frontier.h"

#include <algorithm>
#include <utility>

#include "reprise/engine/tape_recording/tape_values.h"
#include "reprise/hooks/seam/owner_count.h"
#include "reprise/policies/checkpoint_policy.h"

namespace reprise::engine_internal {
namespace {

using Why = Tape::Given::Why;

// The results of an operator have taken the place of one with this decision.
void inherit_decision(CheckpointPolicy& decision, CheckpointPolicy replaced) {
  if (!keeps(decision) || (is_must(replaced) && !is_must(decision))) {
    decision = replaced;
  }
}

}  // namespace

void SavedFrontier::note_last(bool is_run, c10::ArrayRef<c10::IValue> results) {
  const TapeOperatorId index = tape_.operators.last_id();
  const Tape::Operator& op = tape_.operators[index];
  bool reads_kept = false;
  tape_.for_each_use(op, [&](TapeValueId value) {
    const Tape::Given* const given = values_.input(value);
    const bool gives_way =
        given != nullptr && given->why == Why::kPolicy && values_[value].saved_at_version < 0;
    if (!gives_way) {
      return;
    }
    add(value);
    if (const auto found = readers_.find(value); found != readers_.end()) {
      found->second.push_back({index, !is_run});
    }
    reads_kept = true;
  });
  if (!reads_kept || !is_run || op.first_write != op.end_write) {
    return;
  }
  Results made;
  for (const c10::IValue& result : results) {
    for_each_tensor(result, [&](const at::Tensor& tensor) {
      const TapeValues::Memory* const memory = values_.find(TapeValues::key_of(tensor));
      if (memory != nullptr && tape_.values[memory->current].op == index) {
        made.push_back({memory->current, c10::weak_intrusive_ptr(tensor.getIntrusivePtr())});
      }
    });
  }
  results_.emplace(index, std::move(made));
}

void SavedFrontier::advance(bool is_over) {
  const std::size_t known_stuck = stuck_.size();
  std::size_t remaining = 0;
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    const TapeValueId value = candidates_[i];
    if (is_settled(value, is_over)) {
      readers_.erase(value);
    } else {
      candidates_[remaining++] = value;
    }
  }
  candidates_.resize(remaining);
  if (stuck_.size() > known_stuck) {
    drop_excess(std::exchange(stuck_, {}));
  }
}

bool SavedFrontier::drop_excess(std::vector<TapeValueId> extra) {
  std::erase_if(extra, [this](TapeValueId value) { return !may_drop(value); });
  std::int64_t excess = -dropped_bytes();
  for (const TapeValueId value : extra) {
    excess += values_[value].bytes;
  }
  const bool is_excessive = excess > 0;
  if (is_excessive) {
    std::stable_partition(extra.begin(), extra.end(),
                          [this](TapeValueId value) { return !creator_of(value).is_cheap; });
  }
  for (; excess > 0 && !extra.empty(); extra.pop_back()) {
    excess -= values_[extra.back()].bytes;
    release(extra.back(), {});
  }
  stuck_ = std::move(extra);
  return is_excessive;
}

at::Tensor SavedFrontier::replaceable(TapeValueId value) const {
  const auto found = tape_.given.find(value);
  if (found == tape_.given.end() || found->second.why != Why::kPolicy) {
    return {};
  }
  const KeptResult& kept = found->second.kept;
  const TapeValues::Info& info = values_[value];
  const bool is_fixed = kept.is_in_flight || kept.is_snapshot || info.saved_at_version >= 0 ||
                        info.is_needed || has_unknown_readers_ || creator_of(value).is_forced;
  return is_fixed ? at::Tensor() : kept.alias;
}

bool SavedFrontier::is_settled(TapeValueId value, bool is_over) {
  if (const at::Tensor retained = replaceable(value); !retained.defined()) {
    return true;
  } else if (!is_over && hooks_internal::storage_owner_count(retained) > 1) {
    return false;
  }
  const Readers readers = std::move(readers_.at(value));
  if (const auto replacements = find_replacements(value, readers)) {
    std::for_each(replacements->begin(), replacements->end(),
                  [this](const Replacement& each) { keep(each); });
    release(value, readers);
  } else {
    stuck_.push_back(value);
  }
  return true;
}

std::optional<std::vector<SavedFrontier::Replacement>> SavedFrontier::find_replacements(
    TapeValueId value, const Readers& readers) const {
  std::vector<Replacement> replacements;
  std::int64_t bytes = 0;
  for (const auto& [op, was_served] : readers) {
    if (was_served || values_.is_served(op)) {
      continue;
    }
    const auto results = results_.find(op);
    if (results == results_.end()) {
      return std::nullopt;
    }
    for (const Result& result : results->second) {
      const bool is_among =
          std::any_of(replacements.begin(), replacements.end(),
                      [&](const Replacement& other) { return other.value == result.value; });
      if (values_[result.value].bytes == 0 || is_kept(result.value) || is_among) {
        continue;
      }
      auto alive = result.tensor.lock();
      at::Tensor tensor = alive ? at::Tensor(std::move(alive)) : at::Tensor();
      if (!tensor.defined() || !may_keep(op, result.value, tensor)) {
        return std::nullopt;
      }
      bytes += values_[result.value].bytes;
      replacements.push_back({op, result.value, std::move(tensor)});
    }
  }
  return bytes <= values_[value].bytes ? std::optional(std::move(replacements)) : std::nullopt;
}

bool SavedFrontier::may_keep(TapeOperatorId index, TapeValueId value,
                             const at::Tensor& tensor) const {
  const Tape::Operator& op = tape_.operators[index];
  const TapeValues::Info& info = values_[value];
  const TapeValues::Memory* const memory = values_.find(TapeValues::key_of(tensor));
  const bool is_unchanged = memory != nullptr && memory->current == value && !memory->is_others;
  return is_unchanged && op.decision != CheckpointPolicy::MUST_RECOMPUTE && !op.is_forced &&
         op.transfer == Transfer::kNone && !op.is_required && info.unfilled_bytes == 0 &&
         !info.is_factorys && info.may_keep && is_keepable(tensor);
}

void SavedFrontier::keep(const Replacement& replacement) {
  if (values_[replacement.value].is_read) {
    fixed_.insert(replacement.value);  // its readers so far are unknown
  }
  values_.keep(replacement.value, values_.whole(replacement.value, replacement.tensor), nullptr,
               /*is_in_flight=*/false);
}

void SavedFrontier::release(TapeValueId value, const Readers& readers) {
  const CheckpointPolicy decision = creator_of(value).decision;
  for (const Reader& reader : readers) {
    inherit_decision(tape_.operators[reader.op].decision, decision);
  }
  values_[value].is_released = true;
  values_.forget(value);
}

bool SavedFrontier::may_drop(TapeValueId value) const {
  return replaceable(value).defined() && !is_must(creator_of(value).decision);
}

std::int64_t SavedFrontier::dropped_bytes() const {
  std::int64_t bytes = 0;
  for (const TapeValueId value : tape_.values.ids()) {
    const bool is_saved = tape_.values[value].op != Tape::kNone &&
                          values_[value].saved_at_version >= 0 && !is_kept(value);
    bytes += is_saved ? values_[value].bytes : 0;
  }
  return bytes;
}

}  // namespace reprise::engine_internal
