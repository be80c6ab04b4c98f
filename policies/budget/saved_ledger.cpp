// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/policies/budget/saved_ledger.h"

#include <vector>

namespace reprise::policies_internal {

std::shared_ptr<SavedLedger> SavedLedger::open() {
  thread_local std::vector<std::weak_ptr<SavedLedger>> t_open;  // the outermost first
  std::erase_if(t_open, [](const auto& ledger) { return ledger.expired(); });
  auto ledger = std::make_shared<SavedLedger>(t_open.empty() ? nullptr : t_open.back().lock());
  t_open.push_back(ledger);
  return ledger;
}

bool SavedLedger::enter(const void* results, std::int64_t bytes, bool wants_to_save) noexcept {
  bool saves = wants_to_save && fits(bytes);
  for (SavedLedger* outer = enclosing_.get(); outer != nullptr; outer = outer->enclosing_.get()) {
    if (outer->has_answered_for(results)) {
      outer->withdraw_last();
      saves = saves && outer->fits(bytes);
    }
  }
  const std::int64_t saved_bytes = saves ? bytes : 0;
  for (SavedLedger* outer = enclosing_.get(); outer != nullptr; outer = outer->enclosing_.get()) {
    if (outer->has_answered_for(results)) {
      outer->enter_last(results, saved_bytes);
    }
  }
  enter_last(results, saved_bytes);
  return saves;
}

void SavedLedger::enter_last(const void* results, std::int64_t bytes) noexcept {
  last_results_ = results;
  last_bytes_ = bytes;
  saved_bytes_ += bytes;
}

void SavedLedger::withdraw_last() noexcept {
  saved_bytes_ -= last_bytes_;
  last_bytes_ = 0;
}

}  // namespace reprise::policies_internal
