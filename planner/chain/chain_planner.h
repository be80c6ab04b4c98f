// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Plans that recompute more than once, for budgets that are too small for the others: the trace is
// cut into a chain of regions, and a dynamic programme chooses where checkpoints are, nested to any
// depth, and how much each region retains. Of a long chain, the programme considers stretches at
// several scales; the binomial schedule chooses checkpoints as well, for any number of regions.
#ifndef REPRISE_PLANNER_CHAIN_CHAIN_PLANNER_H_
#define REPRISE_PLANNER_CHAIN_CHAIN_PLANNER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "reprise/planner/chain/ambient_memory.h"
#include "reprise/planner/chain/chain_program.h"
#include "reprise/planner/chain/long_chain.h"
#include "reprise/planner/chain/region_chain.h"
#include "reprise/planner/plan.h"
#include "reprise/planner/schedule/execution.h"
#include "reprise/planner/simulator.h"

namespace reprise::planner_internal {

// Not thread-safe.
class ChainPlanner {
 public:
  // Both must outlive the planner. is_quick: long chains in a quarter of the time, less exactly.
  ChainPlanner(const planner::Simulator& simulator, const TraceFacts& facts, bool is_quick = false);
  ChainPlanner(const ChainPlanner&) = delete;
  ChainPlanner& operator=(const ChainPlanner&) = delete;

  // Returns plans for budgets around `peak_bytes`, best first by the dynamic programme's own
  // figures; empty if the trace has no place to cut. The simulator decides whether they fit. What
  // one call has worked out serves later ones for budgets of about the same size.
  std::vector<Plan> plans(std::int64_t peak_bytes);

  // Returns the trace as a chain if it has too many regions for plans(), whose programme sees
  // groups of them; null otherwise.
  const LongChain* long_chain() const { return long_ ? &*long_ : nullptr; }
  // The trace has to be a long chain. Calls `fits` with plans of the programme at several scales
  // for ever less memory, until that returns true; without stores, then with them.
  void try_scaled_plans(std::int64_t peak_bytes, const std::function<bool(Plan)>& fits);

 private:
  // One way to cut the trace.
  struct Candidate {
    RegionChain chain;
    std::int64_t base_bytes = 0;
    std::vector<Stage> stages;
    std::int32_t slots = 0;
    std::int32_t reach = 0;
    std::map<std::int64_t, ChainProgram> programs;  // by the bytes of a slot

    std::int64_t slot_bytes(std::int64_t peak_bytes) const;
  };
  struct Proposal {
    double seconds = 0;  // by the programme
    Plan plan;
  };

  void add_candidates();
  void add_candidate(RegionChain chain);
  // Appends the chain to `candidates`, and once more with stores for inputs if there are any.
  void append(RegionChain chain, std::int32_t slots, std::int32_t reach,
              std::vector<Candidate>& candidates) const;
  void add_stores(Candidate& candidate) const;
  static const ChainProgram& program_for(Candidate& candidate, std::int64_t slot_bytes);
  // Returns the best for a part of what the budget leaves; none if that is too little.
  std::optional<Proposal> propose(Candidate& candidate, std::int64_t peak_bytes, int percent) const;
  Plan plan_of(const ChainSchedule& schedule, const Candidate& candidate) const;

  const planner::Simulator& simulator_;
  const Trace& trace_;
  const TraceFacts& facts_;
  const bool is_quick_;
  bool has_candidates_ = false;
  std::vector<Candidate> candidates_;
  std::optional<LongChain> long_;
  std::vector<Candidate> scaled_;  // of a long chain
};

}  // namespace reprise::planner_internal

#endif  // REPRISE_PLANNER_CHAIN_CHAIN_PLANNER_H_
