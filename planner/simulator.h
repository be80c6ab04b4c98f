// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: simulator.h
//
// The memory and the time of a step under a plan. Planners propose; this alone says whether a plan
// fits.
//
//   const Simulator simulator(trace);
//   const Simulation result = simulator.run(plan);
//   if (result.peak_bytes <= budget) ...
//
// The rules are those of a tape: before an operator of backward runs, each value that it reads and
// that is not there is recomputed by the operators that it depends on, in the order of forward, and
// none else. A value that is retained stays until the last operator that reads it.
//
// Not a model of fragmentation, and of no cost of dispatch but the operators' own times.
//
// Thread-safety: const member functions may be called concurrently.
#ifndef REPRISE_PLANNER_SIMULATOR_H_
#define REPRISE_PLANNER_SIMULATOR_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "reprise/base/export.h"
#include "reprise/planner/plan.h"
#include "reprise/planner/trace.h"

namespace reprise::planner {

struct Simulation {
  std::int64_t peak_bytes = 0;
  double seconds = 0;            // of the step
  double recompute_seconds = 0;  // of operators that run again
  double store_seconds = 0;      // that the computation waits for stores

  // The operator that runs at the peak (the first, of several), and the one of backward that it is
  // recomputed for; the same if it is not recomputed.
  OperatorId peak_operator = kNone;
  OperatorId peak_during = kNone;

  std::vector<std::int64_t> stored_bytes;  // by store, of the values in it

  // False: a value of an operator that cannot be recomputed is needed and not there, or a store is
  // beyond its capacity, or is given a value that it does not take. Then the other members say
  // nothing.
  bool is_valid = true;
};

// One run of an operator.
struct ScheduledRun {
  OperatorId op = kNone;
  OperatorId requested_by = kNone;  // the operator of backward that it is recomputed for; or none
  std::int64_t live_bytes = 0;      // the most while it runs
  std::int64_t retained_bytes = 0;  // of these, values of forward that backward needs
  std::int64_t recomputed_bytes = 0;
  std::int64_t workspace_bytes = 0;
};

// What memory is for, in the order in which pictures stack it, from below.
enum class MemoryClass : std::uint8_t {
  kBeforeStep,  // exists before the step: parameters, the batch
  kGradients,   // what backward makes
  kRetained,    // values of forward that backward needs
  kRecomputed,
  kOther,  // values of forward that the program alone needs
  kWorkspace,
};
inline constexpr std::size_t kMemoryClasses = 6;

// A value, or as much of it as a store leaves there, in the step's memory.
struct Residence {
  ValueId value = kNone;
  MemoryClass memory_class = MemoryClass::kOther;
  std::int32_t first_run = 0;  // positions in the schedule, both included
  std::int32_t last_run = 0;
  std::int64_t bytes = 0;
};

// A value's way back from a store, beside the computation.
struct Fetch {
  ValueId value = kNone;
  OperatorId before = kNone;  // the operator of backward before which it begins
};

class REPRISE_API Simulator {
 public:
  // Throws std::invalid_argument if the trace is not valid. `trace` must outlive the simulator, and
  // not change.
  explicit Simulator(const Trace& trace, std::vector<StoreOption> stores = {});
  Simulator(Simulator&&) noexcept;
  Simulator& operator=(Simulator&&) noexcept;
  ~Simulator();

  // Time: linear in the runs of operators. Throws std::invalid_argument if the plan has not as many
  // choices as the trace has values.
  Simulation run(const Plan& plan) const;

  // Returns each run of an operator, in order, with the memory at that time. Empty for a plan that
  // is not valid.
  std::vector<ScheduledRun> schedule(const Plan& plan) const;

  // Returns when each value is in memory, in the order in which they are made; one that is
  // recomputed, or comes back from a store, several times. Those that are there during a run, and
  // its workspace, are its live bytes. Without values of no bytes; empty for a plan that is not
  // valid.
  std::vector<Residence> residences(const Plan& plan) const;

  // Returns the values in memory at the peak, by descending bytes. Empty for a plan that is not
  // valid.
  std::vector<ValueId> live_at_peak(const Plan& plan) const;

  // Returns when to begin to bring values back, in order, from stores that copy beside the
  // computation. Empty for a plan that is not valid.
  std::vector<Fetch> fetches(const Plan& plan) const;

  // Returns the plan without what has no effect: a value that backward does not use is not
  // retained. The same step, and the plan to carry out. The plan itself if it is not valid.
  Plan reduced(const Plan& plan) const;

  const Trace& trace() const;
  const std::vector<StoreOption>& stores() const;

 private:
  struct REPRISE_LOCAL Impl;
  std::unique_ptr<const Impl> impl_;
};

}  // namespace reprise::planner

#endif  // REPRISE_PLANNER_SIMULATOR_H_
