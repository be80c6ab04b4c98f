// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The memory of a step under one plan.
#ifndef REPRISE_PLANNER_SCHEDULE_SIMULATED_STEP_H_
#define REPRISE_PLANNER_SCHEDULE_SIMULATED_STEP_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "reprise/planner/plan.h"
#include "reprise/planner/schedule/execution.h"
#include "reprise/planner/schedule/store_traffic.h"
#include "reprise/planner/simulator.h"
#include "reprise/planner/trace.h"

namespace reprise::planner_internal {

// Bytes that arrive at the beginning of each run, and that leave at its end.
class MemoryChanges {
 public:
  explicit MemoryChanges(std::size_t runs) : arrive_(runs), leave_(runs) {}

  void add(std::int32_t first, std::int32_t last, std::int64_t bytes) {
    arrive_[std::max(first, 0)] += bytes;
    leave_[last] += bytes;
  }
  // The memory of a value that ends in `run` serves one that is made by it.
  void take_over(std::int32_t run, std::int64_t bytes) {
    arrive_[run] -= bytes;
    leave_[run] -= bytes;
  }
  void remove(const Absence& absence) {
    leave_[absence.away_after] += absence.bytes;
    arrive_[absence.back_at] += absence.bytes;
  }

  // Calls `visitor(run, bytes)` with the bytes that are there during each run.
  void for_each_run(const auto& visitor) const {
    std::int64_t live = 0;
    for (std::size_t run = 0; run < arrive_.size(); ++run) {
      live += arrive_[run];
      visitor(run, live);
      live -= leave_[run];
    }
  }

 private:
  std::vector<std::int64_t> arrive_;
  std::vector<std::int64_t> leave_;
};

class SimulatedStep {
 public:
  // Throws std::invalid_argument if the plan is not one for this trace and these stores.
  SimulatedStep(const Trace& trace, const std::vector<planner::StoreOption>& stores,
                const TraceFacts& facts, const Plan& plan);

  bool is_valid() const { return execution_.is_valid() && traffic_.is_valid(); }
  const Execution& execution() const { return execution_; }
  const StoreTraffic& traffic() const { return traffic_; }

  // Of the copies that `counts(copy)` holds of.
  MemoryChanges changes(const auto& counts) const {
    MemoryChanges changes(execution_.runs().size());
    const std::vector<Copy>& copies = execution_.copies();
    for (const Copy& copy : copies) {
      if (!counts(copy)) {
        continue;
      }
      changes.add(copy.made, copy.last, bytes_of(copy));
      if (is_taken_over(copy) && counts(copies[copy.overwrites])) {
        changes.take_over(copy.made, bytes_of(copies[copy.overwrites]));
      }
    }
    for (const Absence& absence : traffic_.absences()) {
      if (counts(copies[absence.copy])) {
        changes.remove(absence);
      }
    }
    return changes;
  }

  std::int64_t bytes_of(const Copy& copy) const { return trace_.values[copy.value].bytes; }
  bool is_taken_over(const Copy& copy) const {
    return copy.overwrites != kNone && execution_.copies()[copy.overwrites].last == copy.made;
  }
  const planner::Operator& operator_of(std::size_t run) const {
    return trace_.operators[execution_.runs()[run].op];
  }

  planner::MemoryClass class_of(const Copy& copy) const;

  struct Peak {
    std::int64_t bytes = -1;
    std::size_t run = 0;
  };
  Peak peak() const;

  // See Simulator::residences().
  std::vector<planner::Residence> residences() const;

 private:
  const Trace& trace_;
  Execution execution_;
  StoreTraffic traffic_;
};

}  // namespace reprise::planner_internal

#endif  // REPRISE_PLANNER_SCHEDULE_SIMULATED_STEP_H_
