// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/function/replay_checks.h"

#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>

#include <algorithm>
#include <string>
#include <utility>

#include "reprise/engine/errors.h"
#include "reprise/engine/function/changed_state.h"
#include "reprise/engine/operators/operator_facts.h"
#include "reprise/engine/operators/storage_id.h"

namespace reprise::engine_internal {
namespace {

std::string describe_slot(const RegionRecord& record, SlotId slot) {
  return c10::str("\n  slot ", slot, " (result of ", record.slots[slot].saved.producer(), "): ");
}

std::vector<std::int64_t> versions_of(std::span<const at::Tensor> tensors) {
  std::vector<std::int64_t> versions;
  versions.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) {
    versions.push_back(tensor.defined() ? version_of(tensor) : 0);
  }
  return versions;
}

}  // namespace

ReplayChecks::ReplayChecks(const RegionRecord& record, const FunctionRecord& function,
                           const SlotSet& wanted, std::optional<SlotId> asked, ReplayWatch* watch,
                           ReplayEffects& effects)
    : record_(record),
      function_(function),
      wanted_(wanted),
      asked_(asked),
      watch_(watch),
      effects_(effects) {}

void ReplayChecks::start(std::span<const at::Tensor> inputs) {
  check_inputs(inputs);
  versions_ = versions_of(inputs);
}

void ReplayChecks::finish(std::span<const at::Tensor> inputs, const ReplayGraph& graph,
                          Outcome outcome, const OperatorLog* operators,
                          absl::FunctionRef<void(SlotId)> withhold) {
  check_untouched(inputs);
  check_escaped(graph);
  check_modified(asked_);
  std::for_each(withheld_.begin(), withheld_.end(), withhold);
  try {
    check_saved(outcome, operators);
    check_accumulated();
  } catch (const CheckpointError&) {  // it may follow from what another slot's error says better
    check_modified(/*asked=*/std::nullopt);
    throw;
  }
}

void ReplayChecks::check_inputs(std::span<const at::Tensor> inputs) const {
  if (record_.allow_external_mutation) {
    return;
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (const auto change = function_.inputs[i].in_place_change(inputs[i])) {
      throw MutationError(c10::str(
          "[checkpoint] region '", record_.name, "': input tensor ", i,
          " has been modified in place since the region's forward: ", *change,
          ". The recomputation needs the values that forward got; change a clone instead, or set "
          "allow_external_mutation if the new values are as good"));
    }
  }
}

// check_inputs() has found that forward did not write to them. They may be copies made by
// surrounding hooks, which the next replay needs unchanged.
void ReplayChecks::check_untouched(std::span<const at::Tensor> inputs) const {
  if (record_.allow_external_mutation) {
    return;
  }
  const std::vector<std::int64_t> now = versions_of(inputs);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (now[i] != versions_[i] || (inputs[i].defined() && effects_.has_left_out(inputs[i]))) {
      throw MutationError(
          c10::str("[checkpoint] region '", record_.name, "': input tensor ", i,
                   " is modified in place by the recomputation itself. Change a clone instead"));
    }
  }
}

bool ReplayChecks::is_adopted(const at::Tensor& tensor) const {
  return std::this_thread::get_id() == thread_ && effects_.has_adopted(tensor);
}

bool ReplayChecks::is_inside(const at::Tensor& tensor) const {
  return std::this_thread::get_id() != thread_ || effects_.has_made(tensor);
}

// Compares without the lock: a check may run operators, or the user's function.
void ReplayChecks::compare(SlotId slot, const at::Tensor& tensor, const at::Tensor& seen) {
  const SavedTensorRecord& saved = record_.slots[slot].saved;
  if (record_.allow_external_mutation && saved.is_freed_in_one(tensor)) {
    return;
  }
  // Values of slots that are not wanted reach no caller: they may be from after a later write, or
  // statistics.
  const bool has_values = wanted_[slot] || record_.check != DeterminismCheck::kValues;
  auto difference =
      saved.difference(tensor, seen, has_values ? record_.check_options() : RecordOptions{});
  auto other = difference ? std::nullopt : difference_of_provenance(saved, tensor);
  auto mutation = mutation_of(saved, tensor);
  if (!difference && !other && !mutation) {
    return;
  }
  const MutexLock lock(mutex_);
  if (difference) {
    mismatches_.push_back({slot, std::move(*difference) + torchscript_hint()});
  }
  if (other) {
    others_.push_back({slot, std::move(*other)});
  }
  if (mutation) {
    mutations_.push_back({slot, std::move(*mutation)});
  }
}

std::optional<std::string> ReplayChecks::mutation_of(const SavedTensorRecord& saved,
                                                     const at::Tensor& tensor) const {
  if (record_.allow_external_mutation || saved.died_in_forward()) {
    return std::nullopt;
  }
  if (!saved.shares_memory_with(tensor)) {
    return saved.is_captured() && !is_inside(tensor)
               ? std::optional(
                     c10::str(saved.metadata().to_string(),
                              ", lies in other memory than the tensor that forward saved"))
               : std::nullopt;
  }
  return saved.version() == version_of(tensor) || is_adopted(tensor)
             ? std::nullopt
             : std::optional(c10::str(saved.metadata().to_string(), ", saved at version ",
                                      saved.version(), ", now at version ", version_of(tensor)));
}

std::optional<std::string> ReplayChecks::difference_of_provenance(const SavedTensorRecord& saved,
                                                                  const at::Tensor& tensor) {
  const bool is_checked =
      record_.check == DeterminismCheck::kMetadata || record_.check == DeterminismCheck::kValues;
  if (!is_checked || !watch_ || saved.provenance() == 0 || std::this_thread::get_id() != thread_) {
    return std::nullopt;
  }
  const Provenance now = watch_->provenance_of(tensor);
  if (now == 0 || now == saved.provenance()) {
    return std::nullopt;
  }
  return c10::str(saved.metadata().to_string(), ": ", watch_->origin_of(tensor));
}

void ReplayChecks::check_escaped(const ReplayGraph& graph) const {
  if (const auto slot = graph.escaped_that_retains_grad()) {
    throw CheckpointError(c10::str(
        "[checkpoint] region '", record_.name,
        "': its code keeps a tensor that retains its gradient (",
        record_.slots.contains(*slot) ? record_.slots[*slot].saved.metadata().to_string()
                                      : std::string(),
        ") outside of the region, in a member or a captured variable. The recomputation has put a "
        "tensor of its own there, whose grad() backward does not set. Use a CheckpointScope, which "
        "does not run the code again, or assign it only if !is_recomputing()"));
  }
}

void ReplayChecks::check_modified(std::optional<SlotId> asked) {
  const MutexLock lock(mutex_);
  const auto is_dead = [this](const auto& each) {
    return !wanted_.contains(each.slot) || !wanted_[each.slot];
  };
  std::vector<StaleSlots::Slot> stale;
  std::uint32_t host_read = ProvenanceMap::kNone;
  if (watch_ != nullptr) {
    stale = watch_->stale_slots().all();
    host_read = watch_->stale_slots().host_read();
  }
  std::erase_if(stale, is_dead);
  std::erase_if(mutations_, is_dead);
  for (const StaleSlots::Slot& each : stale) {
    withheld_.push_back(each.slot);
  }
  for (const Mismatch& mutation : mutations_) {
    withheld_.push_back(mutation.slot);
  }
  const bool is_error =
      host_read != ProvenanceMap::kNone || (asked ? is_withheld(*asked) : !withheld_.empty());
  if (is_error && !mutations_.empty()) {
    fail_captured();
  }
  if (is_error) {
    fail_stale(watch_->describe(stale.empty() ? host_read : stale[0].origin));
  }
}

void ReplayChecks::fail_captured() const {
  std::string message = c10::str(
      "[checkpoint] region '", record_.name,
      "': tensors from outside the region, which it captured or reads, have been modified in "
      "place or replaced since forward saved them:");
  for (const Mismatch& mutation : mutations_) {
    message += describe_slot(record_, mutation.slot) + mutation.what;
  }
  throw MutationError(message +
                      "\nThe recomputation needs the values of forward; change a clone instead, "
                      "or set allow_external_mutation if the new values are as good");
}

void ReplayChecks::fail_stale(const std::string& what) const {
  throw MutationError(c10::str(
      "[checkpoint] region '", record_.name, "': ", what,
      ": it has been changed in place since, by the region itself or from outside, and saved "
      "tensors depend on it. Change a clone instead, or set allow_external_mutation if the new "
      "values are as good"));
}

// Without a saved tensor that depends on it, which would be an error of its own.
void ReplayChecks::check_accumulated() const {
  const bool is_checked =
      record_.check == DeterminismCheck::kMetadata || record_.check == DeterminismCheck::kValues;
  if (!watch_ || !is_checked || record_.allow_external_mutation) {
    return;
  }
  if (const auto kept = watch_->wrongly_kept()) {
    throw CheckpointError(c10::str(
        "[checkpoint] region '", record_.name,
        "': its code keeps a tensor outside of the region that it computes from the one before, "
        "like an average by assignment, and the recomputation has done so once more: ",
        *kept,
        ". Change the tensor in place, which happens once, assign it only if !is_recomputing(), or "
        "use a CheckpointScope"));
  }
}

void ReplayChecks::check_saved(Outcome outcome, const OperatorLog* operators) {
  const MutexLock lock(mutex_);
  const std::size_t saved = wanted_.size();
  const std::size_t count = outcome.count;
  // If a backward inside the region asks, forward may still be running: a recomputation up to the
  // region's end may then save more tensors.
  if (!outcome.is_stopped && (count < saved || (record_.forward_completed && count > saved))) {
    fail_determinism(
        c10::str("A different number of tensors was saved during the original forward and "
                 "recomputation: ",
                 saved, " in forward, ", count, " in the recomputation",
                 count > saved ? " (it was trying to save more tensors during recomputation)" : ""),
        operators);
  }
  const auto is_accepted = [this](const Mismatch& mismatch) {
    return is_withheld(mismatch.slot) ||
           (watch_ != nullptr && watch_->stale_slots().is_unused(mismatch.slot));
  };
  std::erase_if(mismatches_, is_accepted);
  std::erase_if(others_, is_accepted);
  if (mismatches_.empty() && !others_.empty()) {
    std::string message = "Tensors are recomputed otherwise than forward computed them:";
    for (const Mismatch& other : others_) {
      message += describe_slot(record_, other.slot) + other.what;
    }
    fail_determinism(message, operators);
  }
  if (!mismatches_.empty()) {
    const bool metadata = record_.check == DeterminismCheck::kMetadata;
    std::string message =
        c10::str("Recomputed values for the following tensors have different ",
                 metadata ? "metadata" : "contents", " than during the forward pass:");
    for (const Mismatch& mismatch : mismatches_) {
      message += describe_slot(record_, mismatch.slot) + mismatch.what;
    }
    fail_determinism(message, operators);
  }
}

void ReplayChecks::fail_determinism(const std::string& what, const OperatorLog* operators) const {
  std::string message = c10::str("[checkpoint] region '", record_.name, "': ", what);
  if (operators != nullptr) {
    message += c10::str("\n", describe_difference(*record_.operators, *operators));
  } else {
    message +=
        c10::str("\n", kChangedState, ". DebugModeGuard shows the first operator that differs");
  }
  throw DeterminismError(message);
}

}  // namespace reprise::engine_internal
