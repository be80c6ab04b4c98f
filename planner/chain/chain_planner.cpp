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
constexpr std::int32_t kMostRegions = 128;  // of the dynamic programme with all stretches
// Of a long chain, at several scales.
constexpr std::int32_t kMostFineRegions = 2048;
constexpr std::int32_t kReach = 32;
constexpr std::int32_t kMostTableEntries = 1 << 24;
constexpr std::int32_t kLeastQuickReach = 16;
constexpr std::int32_t kMostQuickStretches = 1 << 14;
constexpr std::int32_t kMostLongRegions = 1 << 20;      // of binomial checkpoints
constexpr std::int64_t kMostSweptRegions = 20'000'000;  // of a long chain

// Memory that plans are made for, in parts of what the budget leaves: the programme's figures are
// estimates, too high or too low.
constexpr int kMostPercent = 120;
constexpr int kLeastPercent = 50;
constexpr int kPercentStep = 5;

std::int64_t percent_of(std::int64_t bytes, int percent) {
  return bytes / 100 * percent + bytes % 100 * percent / 100;
}

// Of the programme at several scales.
struct Effort {
  std::int32_t reach;
  std::int32_t slots;
};

Effort effort_for(std::int32_t regions, bool is_quick) {
  const std::int32_t reach =
      is_quick ? std::clamp(kMostQuickStretches / (2 * regions), kLeastQuickReach, kReach) : kReach;
  const std::int32_t most = kMostTableEntries / (2 * reach * regions);
  return {.reach = reach, .slots = std::min(is_quick ? kSlots / 2 : kSlots, most)};
}

// Returns after how many operators a value that is read again is pinned.
std::int32_t long_span(const Trace& trace) { return std::max(8, trace.backward_begin / 8); }

// Returns each operator by itself where few values go from one to the next; elsewhere cuts are
// where fewer bytes cross than around them.
RegionChain cut_finely(const Trace& trace, const TraceFacts& facts, std::int32_t most_regions) {
  constexpr std::size_t kFewInputs = 2;  // of a region, on average
  const auto cut = [&](std::int32_t window) {
    return cut_into_regions(
        trace, facts,
        {.window = window, .longest_span = long_span(trace), .most_regions = most_regions});
  };
  RegionChain chain = cut(0);
  std::size_t inputs = 0;
  for (const Region& region : chain.regions) {
    inputs += region.inputs.size();
  }
  return inputs <= kFewInputs * chain.regions.size() ? std::move(chain) : cut(1);
}

}  // namespace

ChainPlanner::ChainPlanner(const planner::Simulator& simulator, const TraceFacts& facts,
                           bool is_quick)
    : trace_(simulator.trace()), facts_(facts), is_quick_(is_quick) {
  add_long_chain(cut_finely(trace_, facts_, kMostLongRegions));
}

// Many small regions and few large ones; values that cross many regions are pinned, or not.
void ChainPlanner::add_candidates() {
  if (std::exchange(has_candidates_, true)) {
    return;
  }
  const std::int32_t size = trace_.backward_begin;
  const std::int32_t wide = std::max(4, size / 24);
  // In a small trace, each operator by itself.
  const std::int32_t narrow = size <= kMostRegions ? 0 : 1;
  for (ChainShape shape : {ChainShape{.window = narrow, .longest_span = long_span(trace_)},
                           ChainShape{.window = 1, .longest_span = long_span(trace_)},
                           ChainShape{.window = 1, .longest_span = size},
                           ChainShape{.window = wide, .longest_span = long_span(trace_)}}) {
    shape.most_regions = kMostRegions;
    add_candidate(cut_into_regions(trace_, facts_, shape));
  }
}

void ChainPlanner::add_candidate(RegionChain chain) {
  const auto is_same = [&](const Candidate& other) {
    return other.chain.region_of == chain.region_of && other.chain.is_pinned == chain.is_pinned;
  };
  if (chain.regions.size() < 2 || std::any_of(candidates_.begin(), candidates_.end(), is_same)) {
    return;
  }
  candidates_.push_back(make_candidate(std::move(chain), kSlots, kMostRegions));
}

ChainPlanner::Candidate ChainPlanner::make_candidate(RegionChain chain, std::int32_t slots,
                                                     std::int32_t reach) const {
  const AmbientMemory ambient(trace_, facts_, chain);
  std::vector<Stage> stages = make_stages(trace_, chain, ambient);
  return {.chain = std::move(chain),
          .base_bytes = ambient.base,
          .stages = std::move(stages),
          .slots = slots,
          .reach = reach,
          .programs = {}};
}

void ChainPlanner::add_long_chain(RegionChain chain) {
  if (chain.regions.size() <= kMostRegions) {
    return;
  }
  LongChain added{.chain = std::move(chain), .regions = {}, .base_bytes = 0, .input_bytes = 0};
  for (const Region& region : added.chain.regions) {
    double seconds = 0;
    for (OperatorId op = region.begin; op < region.end; ++op) {
      const planner::Operator& again = trace_.operators[op];
      seconds += again.can_recompute ? again.seconds : 0.0;
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
  // A plan can have a value made a limited number of times before it is retained.
  const std::int64_t most_sweeps =
      std::min<std::int64_t>(planner::Choice::kNever - 1, kMostSweptRegions / regions);
  std::int64_t least = most;
  while (least > 0 && sweeps_of_chain(regions, least - 1) <= most_sweeps) {
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

// Returns a power of 2, so that nearby budgets share a programme.
std::int64_t ChainPlanner::Candidate::slot_bytes(std::int64_t peak_bytes) const {
  const std::int64_t bytes = percent_of(peak_bytes - base_bytes, kMostPercent);
  std::int64_t slot_bytes = 1;
  while (bytes / slot_bytes > slots) {
    slot_bytes *= 2;
  }
  return slot_bytes;
}

const ChainProgram& ChainPlanner::program_for(Candidate& candidate, std::int64_t slot_bytes) {
  return candidate.programs
      .try_emplace(slot_bytes, candidate.stages, slot_bytes, candidate.slots, candidate.reach)
      .first->second;
}

std::optional<ChainPlanner::Proposal> ChainPlanner::propose(Candidate& candidate,
                                                            std::int64_t peak_bytes,
                                                            int percent) const {
  const std::int64_t room = peak_bytes - candidate.base_bytes;
  if (room <= 0) {
    return std::nullopt;
  }
  const std::int64_t slot_bytes = candidate.slot_bytes(peak_bytes);
  const ChainProgram& program = program_for(candidate, slot_bytes);
  const auto slots = static_cast<std::int32_t>(percent_of(room, percent) / slot_bytes);
  const double seconds = program.seconds(slots);
  if (seconds == std::numeric_limits<double>::infinity()) {
    return std::nullopt;
  }
  return Proposal{seconds, plan_of(program.schedule(slots), candidate)};
}

void ChainPlanner::try_scaled_plans(std::int64_t peak_bytes,
                                    const std::function<bool(Plan)>& fits) {
  if (!scaled_) {
    RegionChain chain = cut_finely(trace_, facts_, kMostFineRegions);
    const auto [reach, slots] =
        effort_for(static_cast<std::int32_t>(chain.regions.size()), is_quick_);
    scaled_ = make_candidate(std::move(chain), slots, reach);
  }
  for (int percent = kMostPercent; percent >= kLeastPercent; percent -= kPercentStep) {
    std::optional<Proposal> proposal = propose(*scaled_, peak_bytes, percent);
    if (!proposal || fits(std::move(proposal->plan))) {
      return;
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
  add_candidates();
  std::vector<Proposal> proposals;
  for (Candidate& candidate : candidates_) {
    for (int percent = kMostPercent; percent >= kLeastPercent; percent -= kPercentStep) {
      std::optional<Proposal> proposal = propose(candidate, peak_bytes, percent);
      if (!proposal) {
        break;
      }
      const auto is_same = [&](const Proposal& other) { return other.plan == proposal->plan; };
      if (std::none_of(proposals.begin(), proposals.end(), is_same)) {
        proposals.push_back(*std::move(proposal));
      }
    }
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
