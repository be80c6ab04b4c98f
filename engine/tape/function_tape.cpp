// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/tape/function_tape.h"

#include <utility>

namespace reprise::engine_internal {

void FunctionTape::complete(ReplayActions actions) {
  actions_ = std::move(actions);
  is_complete_ = true;
  const MutexLock lock(mutex_);
  saved_ = std::make_shared<Saved>(std::exchange(tape.given, {}));
}

ReplayActions FunctionTape::actions_now() const {
  const auto is_saved = [this](TapeValueId value) { return tape.given.contains(value); };
  TapeValueSet needed(tape.values.size(), true);
  const TapeOperatorSet supplied = supplied_operators(tape, is_saved);
  TapeOperatorSet runs = needed_operators(tape, needed, is_saved, &supplied);
  return find_actions(tape, needed, std::move(runs), is_saved);
}

bool FunctionTape::are_usable(const Saved& saved) const {
  return std::none_of(saved.begin(), saved.end(), [this](const auto& entry) {
    const KeptResult& result = entry.second.kept;
    return (allow_mutation_ && result.is_mutated()) ||
           (!is_complete_ && result.is_written_through_pointer());
  });
}

std::shared_ptr<const FunctionTape::Saved> FunctionTape::saved() const {
  std::shared_ptr<const Saved> saved;
  if (is_complete_) {
    const MutexLock lock(mutex_);
    saved = saved_;
  } else {
    saved = {std::shared_ptr<const Saved>(), &tape.given};
  }
  return saved && are_usable(*saved) ? saved : nullptr;
}

std::shared_ptr<FunctionTape::Saved> FunctionTape::take_saved() {
  std::shared_ptr<Saved> taken;
  {
    const MutexLock lock(mutex_);
    taken.swap(saved_);
  }
  return taken && are_usable(*taken) ? taken : nullptr;
}

void FunctionTape::run_everything() {
  runs_everything_ = true;
  take_saved();
}

}  // namespace reprise::engine_internal
