// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// What a replay checks, and the words of its errors.
#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>

#include <string>
#include <utility>

#include "reprise/engine/errors.h"
#include "reprise/engine/function/function_replay.h"

namespace reprise::engine_internal {
namespace {

std::string slot_words(const RegionRecord& record, std::size_t slot) {
  return c10::str("\n  slot ", slot, " (result of ", record.slots[slot].producer(), "): ");
}

}  // namespace

std::vector<std::int64_t> FunctionReplay::versions_of(std::span<const at::Tensor> tensors) {
  std::vector<std::int64_t> versions;
  versions.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) {
    versions.push_back(tensor.defined() && !tensor.is_inference() ? tensor._version() : 0);
  }
  return versions;
}

void FunctionReplay::check_inputs(std::span<const at::Tensor> inputs) const {
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

// Forward has not written to them, as check_inputs() has found. They may be copies that surrounding
// hooks have made, and that the next replay needs as they are.
void FunctionReplay::check_untouched(std::span<const at::Tensor> inputs,
                                     std::span<const std::int64_t> versions) const {
  if (record_.allow_external_mutation) {
    return;
  }
  const std::vector<std::int64_t> now = versions_of(inputs);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (now[i] != versions[i] || (inputs[i].defined() && effects_.has_left_out(inputs[i]))) {
      throw MutationError(
          c10::str("[checkpoint] region '", record_.name, "': input tensor ", i,
                   " is modified in place by the recomputation itself. Change a clone instead"));
    }
  }
}

void FunctionReplay::check_escaped() const {
  if (const auto slot = graph_.escaped_that_retains_grad()) {
    throw CheckpointError(c10::str(
        "[checkpoint] region '", record_.name,
        "': its code keeps a tensor that retains its gradient (",
        *slot < record_.slots.size() ? record_.slots[*slot].metadata().to_string() : std::string(),
        ") outside of the region, in a member or a captured variable. The recomputation has put a "
        "tensor of its own there, whose grad() backward does not set. Use a CheckpointScope, which "
        "does not run the code again, or assign it only if !is_recomputing()"));
  }
}

void FunctionReplay::check_captured() {
  const MutexLock lock(mutex_);
  if (!mutations_.empty()) {
    std::string message = c10::str(
        "[checkpoint] region '", record_.name,
        "': tensors from outside the region, which it captured or reads, have been modified in "
        "place since forward saved them:");
    for (const Mismatch& mutation : mutations_) {
      message += slot_words(record_, mutation.slot) + mutation.what;
    }
    throw MutationError(message +
                        "\nThe recomputation needs the values of forward; change a clone instead, "
                        "or set allow_external_mutation if the new values are as good");
  }
}

void FunctionReplay::check_reads() const {
  if (const auto conflict = effects_.reads().conflict()) {
    throw MutationError(c10::str(
        "[checkpoint] region '", record_.name, "': ", *conflict,
        ": it has been changed in place since, by the region itself or from outside, and saved "
        "tensors depend on it. Change a clone instead, or set allow_external_mutation if the new "
        "values are as good"));
  }
}

void FunctionReplay::check_saved() {
  const MutexLock lock(mutex_);
  const std::size_t saved = wanted_.size();
  const std::size_t count = count_.load();
  // Forward may still be running, when a backward inside the region asks: then more may be saved
  // in a recomputation that runs to the region's end.
  if (!stopped_ && (count < saved || (record_.forward_completed && count > saved))) {
    fail_determinism(c10::str(
        "A different number of tensors was saved during the original forward and recomputation: ",
        saved, " in forward, ", count, " in the recomputation",
        count > saved ? " (it was trying to save more tensors during recomputation)" : ""));
  }
  std::erase_if(mismatches_,
                [this](const Mismatch& m) { return effects_.reads().is_unused(m.slot); });
  std::erase_if(others_, [this](const Mismatch& m) { return effects_.reads().is_unused(m.slot); });
  if (mismatches_.empty() && !others_.empty()) {
    std::string message = "Tensors are recomputed otherwise than forward computed them:";
    for (const Mismatch& other : others_) {
      message += slot_words(record_, other.slot) + other.what;
    }
    fail_determinism(message);
  }
  if (!mismatches_.empty()) {
    const bool metadata = record_.check == DeterminismCheck::kMetadata;
    std::string message =
        c10::str("Recomputed values for the following tensors have different ",
                 metadata ? "metadata" : "contents", " than during the forward pass:");
    for (const Mismatch& mismatch : mismatches_) {
      message += slot_words(record_, mismatch.slot) + mismatch.what;
    }
    fail_determinism(message);
  }
}

void FunctionReplay::fail_determinism(const std::string& what) const {
  std::string message = c10::str("[checkpoint] region '", record_.name, "': ", what);
  if (operators_) {
    message += "\n" + describe_difference(*record_.operators, *operators_);
  } else {
    message +=
        "\nThe region's code must run the same operators each time; state that it changes and "
        "reads again can make it differ. DebugModeGuard shows the first operator that differs";
  }
  throw DeterminismError(message);
}

}  // namespace reprise::engine_internal
