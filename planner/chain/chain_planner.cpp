// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/planner/chain/chain_planner.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>

#include "reprise/planner/chain/plan_builder.h"
#include "reprise/planner/chain/stages.h"

namespace reprise::planner_internal {
namespace {

constexpr std::int32_t kSlots = 400;
constexpr std::int32_t kMostRegions = 128;  // of the dynamic programme
constexpr std::int32_t kMostLongRegions = 1 << 20;
constexpr std::int64_t kMostSweptRegions = 20'000'000;  // of a long chain

// Memory that plans are made for, in parts of what the budget leaves: the programme's figures are
// estimates, too high or too low.
constexpr int kMostPercent = 120;
constexpr int kLeastPercent = 50;
constexpr int kPercentStep = 5;

std::int64_t percent_of(std::int64_t bytes, int percent) {
  return bytes / 100 * percent + bytes % 100 * percent / 100;
}

// Returns a power of 2, so that nearby budgets share a programme.
std::int64_t slot_bytes_for(std::int64_t bytes) {
  std::int64_t slot_bytes = 1;
  while (bytes / slot_bytes > kSlots) {
    slot_bytes *= 2;
  }
  return slot_bytes;
}

}  // namespace

// Many small regions and few large ones; values that cross many regions are pinned, or not.
ChainPlanner::ChainPlanner(const planner::Simulator& simulator, const TraceFacts& facts)
    : trace_(simulator.trace()), facts_(facts) {
  const std::int32_t size = trace_.backward_begin;
  const std::int32_t wide = std::max(4, size / 24);
  const std::int32_t long_span = std::max(8, size / 8);
  // In a small trace, each operator by itself.
  const std::int32_t narrow = size <= kMostRegions ? 0 : 1;
  for (ChainShape shape : {ChainShape{.window = narrow, .longest_span = long_span},
                           ChainShape{.window = 1, .longest_span = long_span},
                           ChainShape{.window = 1, .longest_span = size},
                           ChainShape{.window = wide, .longest_span = long_span}}) {
    shape.most_regions = kMostRegions;
    add_candidate(cut_into_regions(trace_, facts_, shape));
  }
  add_long_chain(cut_into_regions(
      trace_, facts_, {.window = 1, .longest_span = long_span, .most_regions = kMostLongRegions}));
}

void ChainPlanner::add_candidate(RegionChain chain) {
  const auto is_same = [&](const Candidate& other) {
    return other.chain.region_of == chain.region_of && other.chain.is_pinned == chain.is_pinned;
  };
  if (chain.regions.size() < 2 || std::any_of(candidates_.begin(), candidates_.end(), is_same)) {
    return;
  }
  const AmbientMemory ambient(trace_, facts_, chain);
  std::vector<Stage> stages = make_stages(trace_, chain, ambient);
  candidates_.push_back({.chain = std::move(chain),
                         .base_bytes = ambient.base,
                         .stages = std::move(stages),
                         .programs = {}});
}

void ChainPlanner::add_long_chain(RegionChain chain) {
  if (chain.regions.size() <= kMostRegions) {
    return;
  }
  LongChain added{.chain = std::move(chain), .regions = {}, .base_bytes = 0, .input_bytes = 0};
  for (const Region& region : added.chain.regions) {
    double seconds = 0;
    for (OperatorId op = region.begin; op < region.end; ++op) {
      seconds += trace_.operators[op].seconds;
    }
    added.regions.seconds.push_back(seconds);
    added.regions.may_be_kept.push_back(
        std::none_of(region.inputs.begin(), region.inputs.end(),
                     [&](ValueId value) { return trace_.values[value].is_evicted; }));
    for (const ValueId value : region.inputs) {
      added.input_bytes += trace_.values[value].bytes;
    }
  }
  const auto regions = static_cast<std::int64_t>(added.chain.regions.size());
  added.input_bytes = std::max<std::int64_t>(1, added.input_bytes / regions);
  added.base_bytes = AmbientMemory(trace_, facts_, added.chain).base;
  long_ = std::move(added);
}

std::pair<std::int64_t, std::int64_t> ChainPlanner::checkpoints_of_long_chain(
    std::int64_t peak_bytes) const {
  if (!long_) {
    return {0, -1};
  }
  const std::int64_t room = std::max<std::int64_t>(0, peak_bytes - long_->base_bytes);
  const auto regions = static_cast<std::int64_t>(long_->chain.regions.size());
  const std::int64_t most = std::min(room / long_->input_bytes, regions - 1);
  std::int64_t least = most;
  while (least > 0 && sweeps_of_chain(regions, least - 1) * regions <= kMostSweptRegions) {
    --least;
  }
  return {least, most};
}

Plan ChainPlanner::long_plan(std::int64_t checkpoints) const {
  const RegionChain& chain = long_->chain;
  const std::vector<RegionId> kept_since = binomial_schedule(long_->regions, checkpoints);
  std::vector<RegionId> since = chain.region_of;
  for (std::size_t region = 0; region < chain.regions.size(); ++region) {
    for (const ValueId value : chain.regions[region].inputs) {
      since[value] = std::max(since[value], kept_since[region]);
    }
  }
  return build_plan_with_pinned(std::move(since), chain);
}

const ChainProgram& ChainPlanner::program_for(Candidate& candidate, std::int64_t slot_bytes) {
  return candidate.programs.try_emplace(slot_bytes, candidate.stages, slot_bytes, kSlots)
      .first->second;
}

void ChainPlanner::propose(Candidate& candidate, std::int64_t peak_bytes,
                           std::vector<Proposal>& proposals) const {
  const std::int64_t room = peak_bytes - candidate.base_bytes;
  if (room <= 0) {
    return;
  }
  const std::int64_t slot_bytes = slot_bytes_for(percent_of(room, kMostPercent));
  const ChainProgram& program = program_for(candidate, slot_bytes);
  for (int percent = kMostPercent; percent >= kLeastPercent; percent -= kPercentStep) {
    const auto slots = static_cast<std::int32_t>(percent_of(room, percent) / slot_bytes);
    const double seconds = program.seconds(slots);
    if (seconds == std::numeric_limits<double>::infinity()) {
      return;
    }
    Plan plan = plan_of(program.schedule(slots), candidate);
    const auto is_same = [&](const Proposal& other) { return other.plan == plan; };
    if (std::none_of(proposals.begin(), proposals.end(), is_same)) {
      proposals.push_back({seconds, std::move(plan)});
    }
  }
}

Plan ChainPlanner::plan_of(const ChainSchedule& schedule, const Candidate& candidate) const {
  // What is not kept stays once backward has come to its own region.
  std::vector<RegionId> since = candidate.chain.region_of;
  const auto keep = [&](const std::vector<ValueId>& values, RegionId from) {
    for (const ValueId value : values) {
      since[value] = std::max(since[value], from);
    }
  };
  for (std::size_t i = 0; i < candidate.stages.size(); ++i) {
    keep(candidate.chain.regions[i].inputs, schedule.input_since[i]);
    keep(candidate.stages[i].options[schedule.option[i]].retained, schedule.option_since[i]);
  }
  return build_plan_with_pinned(std::move(since), candidate.chain);
}

Plan ChainPlanner::build_plan_with_pinned(std::vector<RegionId> since,
                                          const RegionChain& chain) const {
  for (std::size_t value = 0; value < since.size(); ++value) {
    if (chain.is_pinned[value]) {
      since[value] = static_cast<RegionId>(chain.regions.size());
    }
  }
  return build_plan(trace_, facts_, chain, since);
}

std::vector<Plan> ChainPlanner::plans(std::int64_t peak_bytes) {
  std::vector<Proposal> proposals;
  for (Candidate& candidate : candidates_) {
    propose(candidate, peak_bytes, proposals);
  }
  std::stable_sort(proposals.begin(), proposals.end(),
                   [](const Proposal& a, const Proposal& b) { return a.seconds < b.seconds; });
  std::vector<Plan> plans;
  plans.reserve(proposals.size());
  for (Proposal& proposal : proposals) {
    plans.push_back(std::move(proposal.plan));
  }
  return plans;
}

}  // namespace reprise::planner_internal
