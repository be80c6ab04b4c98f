// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: memory_timeline.h
//
// The memory of a step under a plan, moment by moment: bytes by what they are for, the values that
// are there, and the peak.
//
//   const MemoryTimeline timeline = memory_timeline(planner.simulator(), found->plan);
//   const MemoryMoment& peak = timeline.moments[timeline.peak];
//   std::cout << peak.total_bytes() << " bytes while " << trace.operators[peak.op].name << " runs";
//
// Not for a search over plans: Simulator::run() tells the peak alone, much faster.
//
// Thread-safety: functions without state.
#ifndef REPRISE_PLANNER_MEMORY_TIMELINE_H_
#define REPRISE_PLANNER_MEMORY_TIMELINE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "reprise/base/export.h"
#include "reprise/planner/plan.h"
#include "reprise/planner/simulator.h"
#include "reprise/planner/trace.h"

namespace reprise::planner {

// One run of an operator. Waits for stores take no time in it.
struct MemoryMoment {
  OperatorId op = kNone;
  OperatorId requested_by = kNone;  // the operator of backward that it is recomputed for; or none
  double begin_seconds = 0;         // from the beginning of the step
  double end_seconds = 0;
  std::array<std::int64_t, kMemoryClasses> bytes{};  // by class

  std::int64_t total_bytes() const {
    return std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0});
  }
};

struct MemoryTimeline {
  std::vector<MemoryMoment> moments;
  std::vector<Residence> residences;  // of which moments are the runs
  std::size_t peak = 0;               // the first moment with the most bytes
};

// Returns the timeline; one without moments for a plan that is not valid. Time: linear in the runs
// of operators. Throws std::invalid_argument as Simulator::run() does.
REPRISE_API MemoryTimeline memory_timeline(const Simulator& simulator, const Plan& plan);

}  // namespace reprise::planner

#endif  // REPRISE_PLANNER_MEMORY_TIMELINE_H_
