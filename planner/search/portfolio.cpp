// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/planner/search/portfolio.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <random>
#include <string_view>
#include <utility>
#include <vector>

#include "reprise/planner/cut/lower_bound.h"
#include "reprise/planner/planner.h"
#include "reprise/planner/search/local_search.h"

namespace reprise::planner_internal {

namespace {

constexpr std::string_view kEviction = "eviction at the peak";
constexpr int kPrices = 32;
constexpr std::size_t kStarts = 4;  // of local search
// Between two simulations of an eviction at most this part of what is retained goes.
constexpr int kBatches = 200;
// So that planning takes seconds at most: a simulation takes time with the operators.
constexpr std::int64_t kMostOperatorRuns = 4'000'000;

int simulations_for(const Trace& trace, int max_simulations) {
  const auto operators = static_cast<std::int64_t>(trace.operators.size()) + 1;
  const std::int64_t most = std::max<std::int64_t>(kMostOperatorRuns / operators, 1);
  return static_cast<int>(std::min<std::int64_t>(max_simulations, most));
}

}  // namespace

Portfolio::Portfolio(const planner::Simulator& simulator, int max_simulations)
    : problem_(simulator),
      menu_(problem_),
      trials_(simulator, archive_),
      prices_(problem_, menu_, trials_),
      eviction_(problem_, menu_, trials_),
      is_quick_(max_simulations < planner::PlannerOptions().max_simulations),
      max_simulations_(simulations_for(problem_.trace, max_simulations)) {}

// What does not depend on the budget.
void Portfolio::try_starts() {
  if (has_starts_) {
    return;
  }
  has_starts_ = true;
  trials_.allow(max_simulations_);
  trials_.run(problem_.largest_plan(), "retain all");
  trials_.run(problem_.smallest_plan(), "recompute all");
  prices_.sweep(kPrices);
  std::int64_t bytes = 0;
  for (const ValueId value : problem_.candidates) {
    bytes += problem_.trace.values[value].bytes;
  }
  Plan plan = problem_.largest_plan();
  trials_.allow(max_simulations_);
  eviction_.evict(plan, 0, bytes / kBatches, false, kEviction);
  for (const ValueId value : problem_.candidates) {
    plan.choices[value] = planner::Choice::retain();
  }
  trials_.allow(max_simulations_ / 2);
  eviction_.evict(plan, 0, bytes / kBatches, false, kEviction);
}

void Portfolio::try_chains(std::int64_t peak_bytes) {
  if (!chains_.has_value()) {
    chains_.emplace(problem_.simulator, problem_.facts, is_quick_);
  }
  // Of a long chain, the programme sees groups, and takes as long as so many simulations.
  constexpr int kManySimulations = 2000;
  if (chains_->long_chain() != nullptr && max_simulations_ < kManySimulations) {
    return;
  }
  trials_.spend(max_simulations_ / 16);
  for (Plan& plan : chains_->plans(peak_bytes)) {
    problem_.make_legal(plan);
    trials_.run(plan, "dynamic programme");
  }
}

// Returns the simulations that it took.
int Portfolio::try_long_chain(std::int64_t peak_bytes) {
  if (chains_->long_chain() == nullptr) {
    return 0;
  }
  const int left = trials_.left();
  chains_->try_scaled_plans(peak_bytes, [&](Plan plan) {
    problem_.make_legal(plan);
    const planner::Simulation simulation = trials_.run(plan, "dynamic programme at scales");
    return simulation.is_valid && simulation.peak_bytes <= peak_bytes;
  });
  try_binomial(peak_bytes);
  return left - trials_.left();
}

// In memory alone, then with each store.
void Portfolio::try_binomial(std::int64_t peak_bytes) {
  const LongChain& chain = *chains_->long_chain();
  const std::int64_t most = chain.most_checkpoints(peak_bytes);
  const auto excess_of = [&](Plan plan, std::string_view method) {
    problem_.make_legal(plan);
    const planner::Simulation simulation = trials_.run(plan, method);
    return simulation.is_valid ? simulation.peak_bytes - peak_bytes : 1;
  };
  find_most_checkpoints(chain.least_checkpoints(most), most, [&](std::int64_t checkpoints) {
    return excess_of(chain.plan(checkpoints), "binomial checkpoints");
  });
  for (int store = 0; store < static_cast<int>(problem_.simulator.stores().size()); ++store) {
    find_most_checkpoints(1, most, [&](std::int64_t checkpoints) {
      std::optional<Plan> plan = chain.plan_with_store(checkpoints, store);
      return plan ? excess_of(*std::move(plan), "binomial checkpoints and a store") : 1;
    });
  }
}

// Looks for the most checkpoints that fit: down from the most that may, by what the last peak is
// too high, then between. With fewer a simulation takes longer. `excess_with` returns the bytes
// above the budget.
void Portfolio::find_most_checkpoints(
    std::int64_t least, std::int64_t most,
    const std::function<std::int64_t(std::int64_t checkpoints)>& excess_with) const {
  const std::int64_t bytes = chains_->long_chain()->checkpoint_bytes();
  std::int64_t fits = least - 1;
  std::int64_t exceeds = most + 1;
  std::int64_t step = 1;
  for (std::int64_t next = most; fits < next && next < exceeds;) {
    const std::int64_t excess = excess_with(next);
    (excess <= 0 ? fits : exceeds) = next;
    if (fits < least) {
      next = std::max(least, next - std::max(step, (excess + bytes - 1) / bytes));
      step *= 2;
    } else {
      next = fits + (exceeds - fits) / 2;
    }
  }
}

// Evicts until the plan fits, first without and then with peaks that rise on the way.
void Portfolio::improve(const Plan& start, std::int64_t peak_bytes, int simulations) {
  trials_.allow(simulations);
  Plan plan = start;
  if (eviction_.evict(plan, peak_bytes, 0, false, kEviction).peak_bytes > peak_bytes) {
    Plan bold = start;
    if (eviction_.evict(bold, peak_bytes, 0, true, kEviction).peak_bytes <= peak_bytes) {
      plan = bold;
    }
  }
  LocalSearch(problem_, menu_, trials_, plan, peak_bytes).run();
}

// Retains a few values more, drops others for them, and so on: always from the best plan so far.
void Portfolio::shake(std::int64_t peak_bytes, int simulations) {
  std::mt19937_64 random(static_cast<std::uint64_t>(peak_bytes));
  int left = simulations;
  while (left > 0) {
    const Found* best = archive_.fastest_within(peak_bytes);
    if (best == nullptr || problem_.candidates.empty()) {
      return;
    }
    Plan plan = best->plan;
    const int changes = 1 + static_cast<int>(random() % 4);
    for (int i = 0; i < changes; ++i) {
      const ValueId value = problem_.candidates[random() % problem_.candidates.size()];
      plan.choices[value] = plan.choices[value].is_retained() ? planner::Choice::recompute()
                                                              : planner::Choice::retain();
    }
    const int allowed = std::min(left, std::max(simulations / 8, 40));
    improve(plan, peak_bytes, allowed);
    left -= allowed - trials_.left();
  }
}

std::vector<Plan> Portfolio::starts(std::int64_t peak_bytes) const {
  std::vector<Plan> starts;
  if (const Found* best = archive_.fastest_within(peak_bytes); best != nullptr) {
    starts.push_back(best->plan);
  }
  std::int64_t peak = peak_bytes;
  while (starts.size() < kStarts) {
    const Found* above = archive_.next_above(peak);
    if (above == nullptr) {
      break;
    }
    starts.push_back(above->plan);
    peak = above->simulation.peak_bytes;
  }
  return starts;
}

void Portfolio::search(std::int64_t peak_bytes) {
  if (bounds_.contains(peak_bytes)) {
    return;
  }
  const double bound = bound_seconds(peak_bytes);
  bounds_[peak_bytes] = bound;
  try_starts();
  const auto is_done = [&] {
    const Found* found = archive_.fastest_within(peak_bytes);
    return bound == std::numeric_limits<double>::infinity() ||
           (found != nullptr && found->simulation.seconds <= bound);
  };
  if (is_done()) {
    return;
  }
  trials_.allow(max_simulations_ / 4);
  prices_.follow_memory(peak_bytes, max_simulations_ / 12);
  try_chains(peak_bytes);
  int left = max_simulations_ - max_simulations_ / 4 - try_long_chain(peak_bytes);
  for (const Plan& start : left > 0 ? starts(peak_bytes) : std::vector<Plan>()) {
    const int allowed = std::min(left, max_simulations_ / 8);
    improve(start, peak_bytes, allowed);
    left -= allowed - trials_.left();
  }
  if (const Found* best = archive_.fastest_within(peak_bytes); best != nullptr && left > 0) {
    const Plan start = best->plan;
    improve(start, peak_bytes, left);
    left = trials_.left();
  }
  if (archive_.fastest_within(peak_bytes) == nullptr) {
    search_smallest();
  } else if (!is_done()) {
    shake(peak_bytes, left);
  }
}

void Portfolio::search_smallest() {
  if (has_smallest_) {
    return;
  }
  has_smallest_ = true;
  try_starts();
  improve(problem_.smallest_plan(), 0, max_simulations_ / 4);
  int left = max_simulations_;
  while (left > 0 && archive_.smallest() != nullptr) {
    const std::int64_t before = archive_.smallest()->simulation.peak_bytes;
    trials_.allow(left);
    try_chains(before - 1);
    try_long_chain(before - 1);
    left = trials_.left();
    const Plan start = archive_.smallest()->plan;
    improve(start, archive_.smallest()->simulation.peak_bytes - 1, left);
    left = trials_.left();
    if (archive_.smallest()->simulation.peak_bytes == before) {
      return;
    }
  }
}

double Portfolio::bound_seconds(std::int64_t peak_bytes) {
  const auto known = bounds_.find(peak_bytes);
  if (known != bounds_.end()) {
    return known->second;
  }
  return problem_.trace.seconds() +
         lower_bound(problem_.trace, problem_.facts, problem_.simulator.stores(), peak_bytes);
}

}  // namespace reprise::planner_internal
