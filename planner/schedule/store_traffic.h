// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// When values leave for stores and come back, and how long the computation waits for them.
#ifndef REPRISE_PLANNER_SCHEDULE_STORE_TRAFFIC_H_
#define REPRISE_PLANNER_SCHEDULE_STORE_TRAFFIC_H_

#include <cstdint>
#include <vector>

#include "reprise/planner/plan.h"
#include "reprise/planner/schedule/execution.h"
#include "reprise/planner/trace.h"

namespace reprise::planner_internal {

// Note [Copies beside the computation]: per store there is a link in each direction, which copies
// one value at a time: outwards in the order in which forward makes them, from the end of that run
// on; inwards in the order in which backward first uses them, as late as possible, but not before
// the copy outwards has ended. The computation waits for a value that is late. A value whose copy
// outwards has not ended when it is used does not leave.

// A value that is whole in the step's own memory, except after `away_after` and before `back_at`.
struct Absence {
  CopyId copy = kNone;
  RunId away_after = kNone;
  RunId back_at = kNone;
  std::int64_t bytes = 0;  // that are not in the step's memory meanwhile
};

class StoreTraffic {
 public:
  StoreTraffic(const Trace& trace, const std::vector<planner::StoreOption>& stores,
               const Plan& plan, const Execution& execution);

  // False if a store is beyond its capacity, or is given a value that it does not take.
  bool is_valid() const { return is_valid_; }

  const std::vector<Absence>& absences() const { return absences_; }
  const std::vector<std::int64_t>& stored_bytes() const { return stored_bytes_; }  // by store
  double seconds() const { return seconds_; }  // that the computation waits

 private:
  struct Transfer {
    CopyId copy = kNone;
    int store = kNone;
    double outside_at = 0;  // the time at which the copy outwards has ended
  };

  void find_transfers(const Plan& plan, const std::vector<Copy>& copies);
  void set_times(const std::vector<Run>& runs, const std::vector<Copy>& copies);
  void send(const std::vector<Copy>& copies);
  void bring_back(const std::vector<Copy>& copies);
  void add_absence(const Transfer& transfer, const Copy& copy, RunId away_after, RunId back_at);
  double put_seconds(const Transfer& transfer, std::int64_t bytes) const;
  double get_seconds(const Transfer& transfer, std::int64_t bytes) const;
  std::int64_t bytes_of(const Copy& copy) const { return trace_.values[copy.value].bytes; }
  RunId run_at(double time) const;  // the run during which it is this time

  const Trace& trace_;
  const std::vector<planner::StoreOption>& stores_;
  std::vector<Transfer> transfers_;  // by copy, thus in the order of forward
  std::vector<double> starts_;       // by run, and the end of the last one: without waits for links
  std::vector<Absence> absences_;
  std::vector<std::int64_t> stored_bytes_;
  double seconds_ = 0;
  bool is_valid_ = true;
};

}  // namespace reprise::planner_internal

#endif  // REPRISE_PLANNER_SCHEDULE_STORE_TRAFFIC_H_
