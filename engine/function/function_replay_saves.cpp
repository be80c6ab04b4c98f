// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The tensors that autograd saves in a replay, and where the replay may stop.
#include <c10/util/StringUtil.h>

#include <algorithm>
#include <exception>
#include <iterator>
#include <optional>
#include <utility>

#include "reprise/engine/errors.h"
#include "reprise/engine/function/changed_state.h"
#include "reprise/engine/function/early_stop.h"
#include "reprise/engine/function/function_replay.h"
#include "reprise/engine/function/replay_hooks.h"
#include "reprise/engine/operators/storage_id.h"

namespace reprise::engine_internal {

FunctionReplay::Saved FunctionReplay::on_save(const at::Tensor& tensor, const at::Tensor& alias) {
  if (std::this_thread::get_id() == thread_ && memory_.hides(tensor)) {
    const at::Tensor seen = memory_.seen(tensor);
    return note_save(tensor, seen, {seen, version_of(seen), /*is_moved=*/true});
  }
  return note_save(tensor, tensor, {may_be_returned(tensor) ? tensor : alias, version_of(alias)});
}

FunctionReplay::Saved FunctionReplay::note_save(const at::Tensor& tensor, const at::Tensor& seen,
                                                RecomputedTensor&& value) {
  const std::optional<SlotId> next = next_slot(tensor);
  if (!next) {
    return {.is_last = false, .may_be_read = true};
  }
  const SlotId slot = *next;
  const bool is_own_thread = std::this_thread::get_id() == thread_;
  saving_.fetch_add(1);
  const bool is_wanted = wanted_.contains(slot) && wanted_[slot];
  if (is_own_thread) {
    graph_.note_save(slot, tensor);
  }
  if (wanted_.contains(slot)) {
    checks_.compare(slot, tensor, seen);
  }
  if (is_wanted && is_own_thread) {
    effects_.note_save(tensor);
    if (watch_) {
      watch_->note_save(slot, tensor);
    }
  }
  if (!keep(slot, is_wanted ? &value : nullptr)) {
    saving_.fetch_sub(1);
    return {.is_last = false, .may_be_read = is_wanted || may_be_read(slot)};
  }
  const bool may_be_last = may_stop(slot, tensor);
  if (before_operator_ && is_own_thread) {
    before_operator_->arm();
  }
  const MutexLock lock(mutex_);
  const bool stops = saving_.fetch_sub(1) == 1 && may_be_last;
  stopped_ = stopped_ || stops;
  if (stops && follower_ && is_own_thread) {
    follower_->stop();
  }
  return {.is_last = stops, .may_be_read = is_wanted || may_be_read(slot)};
}

bool FunctionReplay::may_be_read(SlotId slot) const {
  return !record_.forward_completed || record_.is_read_in_forward || !wanted_.contains(slot) ||
         record_.slots[slot].outlives_forward;
}

bool FunctionReplay::keep(SlotId slot, RecomputedTensor* value) {
  const MutexLock lock(mutex_);
  if (value != nullptr) {
    values_[slot] = std::move(*value);
  }
  return record_.early_stop && (has_enough(slot) || has_lost_tape());
}

std::optional<SlotId> FunctionReplay::next_slot(const at::Tensor& tensor) {
  if (const std::uint32_t group = InputGroup::current(); group != 0) {
    const bool is_watched = watch_ && std::this_thread::get_id() == thread_;
    const Provenance provenance = is_watched ? watch_->provenance_of(tensor) : 0;
    const MutexLock lock(mutex_);
    return inputs_inside_.take(group, tensor,
                               ProvenanceMap::is_opaque(provenance) ? 0 : provenance);
  }
  SlotId slot(count_.fetch_add(1));
  while (inputs_inside_.contains(slot)) {
    slot = SlotId(count_.fetch_add(1));
  }
  return slot;
}

bool FunctionReplay::has_enough(SlotId slot) {
  if (!inputs_inside_.contains(slot)) {
    return slot >= last_needed_;
  }
  if (record_.slots[slot].input_group != record_.slots[last_needed_].input_group) {
    return false;
  }
  return std::all_of(inputs_inside_.all().begin(), inputs_inside_.all().end(), [this](SlotId each) {
    return !wanted_[each] || values_[each].tensor.defined();
  });
}

void FunctionReplay::fill_inputs_inside() {
  std::vector<SlotId> missing;
  {
    const MutexLock lock(mutex_);
    std::copy_if(inputs_inside_.all().begin(), inputs_inside_.all().end(),
                 std::back_inserter(missing), [this](SlotId slot) {
                   return wanted_[slot] && !values_[slot].tensor.defined() &&
                          !checks_.is_withheld(slot);
                 });
  }
  for (const SlotId slot : missing) {
    const SavedTensorRecord& saved = record_.slots[slot].saved;
    const auto& input = record_.slots[slot].input;
    const at::Tensor now =
        input && input->version() == saved.version() ? input->lock() : at::Tensor();
    if (!now.defined() || saved.metadata().requires_grad) {
      throw DeterminismError(c10::str("[checkpoint] region '", record_.name,
                                      "': a region inside read ", saved.metadata().to_string(),
                                      " in forward, and does not read it in the recomputation. ",
                                      kChangedState));
    }
    const MutexLock lock(mutex_);
    values_[slot] = {now, version_of(now)};
  }
}

bool FunctionReplay::on_operator() {
  if (effects_.awaits_write() || is_unwinding() || saving_.load() != 0) {
    return false;
  }
  {
    const MutexLock lock(mutex_);
    stopped_ = true;
  }
  if (follower_) {
    follower_->stop();
  }
  return true;
}

bool FunctionReplay::may_stop(SlotId slot, const at::Tensor& tensor) const {
  const bool is_uninterruptible = uninterruptible_.contains(slot)
                                      ? bool{uninterruptible_[slot]}
                                      : is_saved_by_its_custom_function(tensor);
  const bool awaits_write = std::this_thread::get_id() == thread_ && effects_.awaits_write();
  return !is_uninterruptible && !awaits_write && !is_unwinding() && !EarlyStopDeferral::is_active();
}

// True in a destructor that runs operators while an exception, such as an early stop, leaves the
// region.
bool FunctionReplay::is_unwinding() const {
  const int at_start = std::this_thread::get_id() == thread_ ? exceptions_at_start_ : 0;
  return std::uncaught_exceptions() > at_start;
}

bool FunctionReplay::is_stopped() {
  const MutexLock lock(mutex_);
  return stopped_;
}

FilledSlots FunctionReplay::take_values() {
  FilledSlots filled;
  {
    const MutexLock lock(mutex_);
    filled.reserve(values_.size());
    for (const SlotId slot : values_.ids()) {
      if (values_[slot].tensor.defined()) {
        filled.emplace_back(slot, std::move(values_[slot]));
      }
    }
  }
  for (auto& [slot, value] : filled) {
    if (!may_be_returned(value.tensor)) {  // it has got a graph since
      value.tensor = hooks_internal::detached_alias(value.tensor);
    }
  }
  return filled;
}

}  // namespace reprise::engine_internal
