// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/planner/chain/chain_planner.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <utility>

#include "reprise/planner/chain/input_copies.h"
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
constexpr std::int32_t kMostLongRegions = 1 << 20;  // of binomial checkpoints

// Memory that plans are made for, in parts of what the budget leaves: the programme's figures are
// estimates, too high or too low.
constexpr int kMostPercent = 120;
constexpr int kLeastPercent = 50;
constexpr int kPercentStep = 5;

// Of a second of copies beside the computation, in seconds: what is late costs time, and no other.
constexpr double kOverlappedPrice = 0.3;

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
    : simulator_(simulator), trace_(simulator.trace()), facts_(facts), is_quick_(is_quick) {
  RegionChain chain = cut_finely(trace_, facts_, kMostLongRegions);
  if (chain.regions.size() > kMostRegions) {
    long_.emplace(simulator, facts, std::move(chain));
  }
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
  append(std::move(chain), kSlots, kMostRegions, candidates_);
}

void ChainPlanner::append(RegionChain chain, std::int32_t slots, std::int32_t reach,
                          std::vector<Candidate>& candidates) const {
  const AmbientMemory ambient(trace_, facts_, chain);
  std::vector<Stage> stages = make_stages(trace_, chain, ambient);
  candidates.push_back({.chain = std::move(chain),
                        .base_bytes = ambient.base,
                        .stages = std::move(stages),
                        .slots = slots,
                        .reach = reach,
                        .programs = {}});
  Candidate with_stores = candidates.back();
  add_stores(with_stores);
  if (std::any_of(with_stores.stages.begin(), with_stores.stages.end(),
                  [](const Stage& stage) { return stage.store != kNone; })) {
    candidates.push_back(std::move(with_stores));
  }
}

// By stage the fastest store that has room for the inputs of all stages.
void ChainPlanner::add_stores(Candidate& candidate) const {
  for (int store = 0; store < static_cast<int>(simulator_.stores().size()); ++store) {
    const InputCopies copies(simulator_, candidate.chain, store);
    const double all = std::accumulate(copies.bytes.begin(), copies.bytes.end(), 0.0);
    if (all > static_cast<double>(simulator_.stores()[store].capacity_bytes)) {
      continue;
    }
    for (std::size_t i = 1; i < candidate.stages.size(); ++i) {
      Stage& stage = candidate.stages[i];
      const double seconds = (copies.is_overlapped ? kOverlappedPrice : 1.0) *
                             (copies.put_seconds[i] + copies.get_seconds[i]);
      const bool is_faster = stage.store == kNone || seconds < stage.copy_seconds;
      if (is_faster && seconds < std::numeric_limits<double>::infinity() && copies.bytes[i] > 0) {
        stage.store = store;
        stage.copy_seconds = seconds;
        stage.stored_input_bytes = static_cast<std::int64_t>(std::ceil(copies.retained_bytes[i]));
      }
    }
  }
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
  if (scaled_.empty()) {
    RegionChain chain = cut_finely(trace_, facts_, kMostFineRegions);
    const auto [reach, slots] =
        effort_for(static_cast<std::int32_t>(chain.regions.size()), is_quick_);
    const bool has_groups = static_cast<std::int64_t>(chain.regions.size()) < long_->regions();
    append(std::move(chain), slots, reach, scaled_);
    if (has_groups) {  // which a store serves less well than single regions
      scaled_.erase(scaled_.begin() + 1, scaled_.end());
    }
  }
  for (Candidate& candidate : scaled_) {
    for (int percent = kMostPercent; percent >= kLeastPercent; percent -= kPercentStep) {
      std::optional<Proposal> proposal = propose(candidate, peak_bytes, percent);
      if (!proposal || fits(std::move(proposal->plan))) {
        break;
      }
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
  Plan plan = build_plan(trace_, facts_, candidate.chain, std::move(since));
  for (std::size_t i = 0; i < candidate.stages.size(); ++i) {
    if (schedule.is_input_stored[i]) {
      put_inputs(plan, trace_, candidate.chain.regions[i], candidate.stages[i].store);
    }
  }
  return plan;
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
