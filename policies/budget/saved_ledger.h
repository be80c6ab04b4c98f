// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The bytes that a policy has saved in a running region, within its budget.
//
// Note [Nested budgets]: the engine asks the policies of nested regions for an operator one after
// the other, the outermost first, and the answer of the innermost holds for all. So an inner region
// corrects what the regions around it have entered for the same operator, and saves only what fits
// into each of their budgets. Writes in place are decided by each region for itself.
#ifndef REPRISE_POLICIES_BUDGET_SAVED_LEDGER_H_
#define REPRISE_POLICIES_BUDGET_SAVED_LEDGER_H_

#include <cstdint>
#include <memory>
#include <utility>

namespace reprise::policies_internal {

// Used on the thread of its region.
class SavedLedger {
 public:
  // Returns the ledger of a region that begins now on this thread, in those that are open there.
  // It is open until it is destroyed, which may be on another thread.
  static std::shared_ptr<SavedLedger> open();

  // See open().
  explicit SavedLedger(std::shared_ptr<SavedLedger> enclosing) : enclosing_(std::move(enclosing)) {}

  void set_limit(std::int64_t bytes) noexcept { limit_bytes_ = bytes; }

  // Enters the answer for an operator, and returns it: whether to save its results, as the region
  // wants to. results: identifies their memory, as long as it exists; null for a write in place.
  bool enter(const void* results, std::int64_t bytes, bool wants_to_save) noexcept;

 private:
  [[nodiscard]] bool fits(std::int64_t bytes) const noexcept {
    return bytes <= limit_bytes_ - saved_bytes_;
  }
  // The region was asked for the same operator just now.
  [[nodiscard]] bool has_answered_for(const void* results) const noexcept {
    return results != nullptr && results == last_results_;
  }
  void enter_last(const void* results, std::int64_t bytes) noexcept;
  void withdraw_last() noexcept;

  const std::shared_ptr<SavedLedger> enclosing_;
  std::int64_t limit_bytes_ = 0;
  std::int64_t saved_bytes_ = 0;
  const void* last_results_ = nullptr;
  std::int64_t last_bytes_ = 0;
};

}  // namespace reprise::policies_internal

#endif  // REPRISE_POLICIES_BUDGET_SAVED_LEDGER_H_
