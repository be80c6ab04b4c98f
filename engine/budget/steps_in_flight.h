// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The steps of one budget whose backward has not ended.
//
// Note [Steps in flight]: pipelines run several forwards before the first backward. The tensors
// retained by each forward count for all steps, so a plan is made for a number of steps alike: at
// the peak, every step but one holds the values retained for backward. The number, and the bytes
// held by steps of other kinds, are learnt from recent steps. The first steps are kept within the
// budget by evictions. A step whose first backward keeps the graph, as one of inputs that one of
// weights will follow, stays in flight until the graph is freed, and its plan counts on all reads
// once more.
#ifndef REPRISE_ENGINE_BUDGET_STEPS_IN_FLIGHT_H_
#define REPRISE_ENGINE_BUDGET_STEPS_IN_FLIGHT_H_

#include <cstdint>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "reprise/base/threading/mutex.h"

namespace reprise::engine_internal {

class BudgetStep;

// Beside a step, the most at one time.
struct InFlight {
  int alike = 1;                 // steps of its kind, itself among them
  std::int64_t other_bytes = 0;  // that steps of other kinds hold
  friend bool operator==(const InFlight&, const InFlight&) = default;
};

// Not thread-safe.
class RecentlyInFlight {
 public:
  // Beside a step, and the bytes before the step that no step in flight held.
  void note(const InFlight& seen, std::int64_t base_bytes);

  // Return the most of the last 32 to 63 steps.
  const InFlight& most() const { return known_.most; }
  std::int64_t highest_base() const { return known_.highest_base; }
  bool is_alone() const { return known_.most == InFlight(); }

 private:
  struct Window {
    InFlight most;
    std::int64_t highest_base = 0;

    void raise(const InFlight& seen, std::int64_t base_bytes);
  };

  Window known_;
  Window next_;
  int steps_ = 0;  // of the next window
};

// Thread-safe.
class StepsInFlight {
 public:
  // A step begins. Returns the bytes that those before it hold.
  std::int64_t begin(const BudgetStep& step);
  // Returns the bytes that all but this one, which may be null, hold now.
  std::int64_t held_beside(const BudgetStep* step) const;
  // Its forward has ended. kind: the number of a known step; negative: unknown. held_bytes: that
  // have come into use since its beginning.
  void end_forward(const BudgetStep& step, int kind, std::int64_t held_bytes);
  // The step has been freed of so many bytes.
  void note_evicted(const BudgetStep& step, std::int64_t bytes);
  // Its first backward has ended and keeps the graph: the step stays in flight until that is freed.
  InFlight most(const BudgetStep& step);
  // Its backward has ended, or will never begin.
  InFlight end(const BudgetStep& step);

 private:
  struct Entry {
    const BudgetStep* step;  // to compare
    bool is_in_forward = true;
    int kind = -1;
    std::int64_t held_bytes = 0;
    InFlight most = {};
  };
  Entry* find(const BudgetStep& step) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::int64_t sum_beside(const BudgetStep* step) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void update() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  std::vector<Entry> entries_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_BUDGET_STEPS_IN_FLIGHT_H_
