// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/planner/chain/long_chain.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "reprise/planner/chain/ambient_memory.h"
#include "reprise/planner/chain/plan_builder.h"

namespace reprise::planner_internal {

namespace {

constexpr std::int64_t kMostSweptRegions = 20'000'000;
// That a plan can have a value made before it is retained.
constexpr std::int64_t kMostTimes = planner::Choice::kNever - 1;

}  // namespace

LongChain::LongChain(const planner::Simulator& simulator, const TraceFacts& facts,
                     RegionChain chain)
    : simulator_(simulator), facts_(facts), chain_(std::move(chain)) {
  const Trace& trace = simulator.trace();
  for (const Region& region : chain_.regions) {
    double seconds = 0;
    for (OperatorId op = region.begin; op < region.end; ++op) {
      const planner::Operator& again = trace.operators[op];
      seconds += again.can_recompute ? again.seconds : 0.0;
    }
    binomial_.seconds.push_back(seconds);
    binomial_.may_be_kept.push_back(
        std::none_of(region.inputs.begin(), region.inputs.end(),
                     [&](ValueId value) { return trace.values[value].is_evicted; }));
    for (const ValueId value : region.inputs) {
      input_bytes_ += trace.values[value].bytes;
    }
  }
  input_bytes_ = std::max<std::int64_t>(1, input_bytes_ / regions());
  base_bytes_ = AmbientMemory(trace, facts, chain_).base;
  for (int store = 0; store < static_cast<int>(simulator.stores().size()); ++store) {
    copies_.emplace_back(simulator, chain_, store);
  }
}

std::int64_t LongChain::most_checkpoints(std::int64_t peak_bytes) const {
  const std::int64_t room = std::max<std::int64_t>(0, peak_bytes - base_bytes_);
  return std::min(room / input_bytes_, regions() - 1);
}

std::int64_t LongChain::least_checkpoints(std::int64_t most) const {
  const std::int64_t most_sweeps = std::min(kMostTimes, kMostSweptRegions / regions());
  std::int64_t least = most;
  while (least > 0 && sweeps_of_chain(regions(), least - 1) <= most_sweeps) {
    --least;
  }
  return least;
}

Plan LongChain::plan_of(const std::vector<RegionId>& kept_since) const {
  std::vector<RegionId> since = chain_.region_of;
  for (std::size_t region = 0; region < chain_.regions.size(); ++region) {
    for (const ValueId value : chain_.regions[region].inputs) {
      since[value] = std::max(since[value], kept_since[region]);
    }
  }
  return build_plan(simulator_.trace(), facts_, chain_, std::move(since));
}

Plan LongChain::plan(std::int64_t checkpoints) const {
  return plan_of(binomial_schedule(binomial_, checkpoints));
}

// If the store has not room for all of it, its bytes get a price: about the least that has the rest
// fit.
StoredCheckpoints LongChain::stored_within_capacity(std::int64_t checkpoints, int store) const {
  constexpr int kDoublings = 40;
  constexpr int kHalvings = 5;
  const auto capacity = static_cast<double>(simulator_.stores()[store].capacity_bytes);
  const auto with_price = [&](double price) {
    return find_stored_checkpoints(binomial_, copies_[store], checkpoints, price, kMostTimes);
  };
  StoredCheckpoints found = with_price(0);
  if (found.stored_bytes <= capacity) {
    return found;
  }
  double exceeds = 0;
  double fits = *std::max_element(binomial_.seconds.begin(), binomial_.seconds.end()) /
                static_cast<double>(input_bytes_);
  found = with_price(fits);
  for (int i = 0; i < kDoublings && found.stored_bytes > capacity; ++i) {
    exceeds = fits;
    fits *= 2;
    found = with_price(fits);
  }
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = (exceeds + fits) / 2;
    StoredCheckpoints more = with_price(middle);
    if (more.stored_bytes <= capacity) {
      fits = middle;
      found = std::move(more);
    } else {
      exceeds = middle;
    }
  }
  return found;
}

std::optional<Plan> LongChain::plan_with_store(std::int64_t checkpoints, int store) const {
  const StoredCheckpoints found = stored_within_capacity(checkpoints, store);
  if (found.stored.empty() || found.swept_regions > static_cast<double>(kMostSweptRegions)) {
    return std::nullopt;
  }
  Plan plan = plan_of(binomial_schedule(binomial_, found.stretches));
  for (const RegionId region : found.stored) {
    put_inputs(plan, simulator_.trace(), chain_.regions[region], store);
  }
  return plan;
}

}  // namespace reprise::planner_internal
