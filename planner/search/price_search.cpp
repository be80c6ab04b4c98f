// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/planner/search/price_search.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>

namespace reprise::planner_internal {

using planner::ScheduledRun;

namespace {

constexpr int kMostStretches = 64;
// Prices of a second of a link, in seconds: of what is copied beside the computation only what is
// late costs time.
constexpr std::array<double, 3> kLinkPrices = {0.02, 0.3, 1.0};

}  // namespace

struct PriceSearch::Stretches {
  // The price of a byte from the first to the last stretch of `interval`.
  double price(Interval interval) const { return until[interval.last + 1] - until[interval.first]; }
  void sum_up() {
    for (std::size_t i = 0; i < prices.size(); ++i) {
      until[i + 1] = until[i] + prices[i];
    }
  }

  std::vector<double> prices;
  std::vector<double> until;     // sums of the prices before a stretch
  std::vector<Interval> in_use;  // by value: from its first use in backward to its last
};

PriceSearch::PriceSearch(const Problem& problem, const RetainMenu& menu, Trials& trials)
    : problem_(problem),
      menu_(menu),
      trials_(trials),
      cut_(problem.trace, problem.facts),
      stretches_(std::clamp(
          static_cast<int>(problem.trace.operators.size()) - problem.trace.backward_begin, 1,
          kMostStretches)) {}

int PriceSearch::stretch_of(OperatorId op) const {
  const OperatorId begin = problem_.trace.backward_begin;
  const std::int64_t size = static_cast<std::int64_t>(problem_.trace.operators.size()) - begin;
  return op < begin ? 0 : static_cast<int>((op - begin) * std::int64_t{stretches_} / size);
}

// The first stretch stands for forward too: what is retained is there when it ends.
Plan PriceSearch::cheapest_plan(const Stretches& stretches, double link_price) const {
  const Trace& trace = problem_.trace;
  Prices prices{.retain = std::vector<double>(trace.values.size(), 0.0),
                .rerun = std::vector<double>(trace.operators.size(), 0.0)};
  std::vector<PricedWay> ways(trace.values.size());
  for (std::size_t op = 0; op < trace.operators.size(); ++op) {
    prices.rerun[op] = trace.operators[op].seconds;
  }
  for (std::size_t value = 0; value < trace.values.size(); ++value) {
    if (problem_.facts.overwriter[value] != kNone) {
      prices.retain[value] = std::numeric_limits<double>::infinity();
    }
  }
  for (const ValueId value : problem_.candidates) {
    const Interval use = stretches.in_use[value];
    const auto bytes = static_cast<double>(trace.values[value].bytes);
    const double back = bytes * stretches.price(use);
    const double away = bytes * stretches.until[use.first];
    ways[value] = menu_.cheapest(value, {.away = away, .back = back}, link_price);
    prices.retain[value] = ways[value].price;
    prices.rerun[problem_.facts.producer[value]] += back;
  }
  return menu_.plan_of(cut_.solve(prices), ways);
}

void PriceSearch::set_intervals(Stretches& stretches, const Plan& plan) const {
  const Execution execution(problem_.trace, problem_.facts, plan);
  if (!execution.is_valid()) {
    return;
  }
  const auto stretch_at = [&](RunId run) {
    const Run& each = execution.runs()[run];
    return stretch_of(each.requested_by == kNone ? each.op : each.requested_by);
  };
  for (const Copy& copy : execution.copies()) {
    if (copy.made != kNone && copy.first_use_in_backward != kNone &&
        problem_.is_candidate[copy.value]) {
      stretches.in_use[copy.value] = {stretch_at(copy.first_use_in_backward),
                                      stretch_at(copy.last)};
    }
  }
}

void PriceSearch::sweep(int count) {
  double total_seconds = 0;
  double smallest = std::numeric_limits<double>::infinity();
  double total_bytes = 1;
  for (const ValueId value : problem_.candidates) {
    const double seconds = problem_.trace.operators[problem_.facts.producer[value]].seconds;
    const auto bytes = static_cast<double>(problem_.trace.values[value].bytes);
    total_bytes += bytes;
    smallest = seconds > 0 ? std::min(smallest, seconds / bytes) : smallest;
  }
  for (OperatorId op = 0; op < problem_.trace.backward_begin; ++op) {
    total_seconds += problem_.trace.operators[op].seconds;
  }
  if (problem_.candidates.empty() || !(smallest < std::numeric_limits<double>::infinity())) {
    return;
  }
  Stretches stretches{.prices = std::vector<double>(2),
                      .until = std::vector<double>(3),
                      .in_use = std::vector<Interval>(problem_.trace.values.size(), {1, 1})};
  // At the largest price it pays to make everything again rather than to retain an average value.
  const double values = static_cast<double>(problem_.candidates.size());
  const double first = smallest / 4;
  const double last = std::max(first * 16, 4 * total_seconds / total_bytes * values);
  const bool has_links =
      std::any_of(problem_.simulator.stores().begin(), problem_.simulator.stores().end(),
                  [](const auto& store) { return store.is_overlapped; });
  for (int i = 0; i < count && !trials_.is_over(); ++i) {
    stretches.prices[0] = first * std::pow(last / first, static_cast<double>(i) / (count - 1));
    stretches.sum_up();
    for (const double link_price : kLinkPrices) {
      const Plan plan = cheapest_plan(stretches, link_price);
      const planner::Simulation simulation = trials_.run(plan, "price per byte");
      if (simulation.is_valid &&
          (steps_.empty() || simulation.peak_bytes < steps_.back().peak_bytes)) {
        steps_.push_back({simulation.peak_bytes, stretches.prices[0]});
      }
      if (!has_links) {
        break;
      }
    }
  }
}

double PriceSearch::starting_price(std::int64_t peak_bytes) const {
  for (const Step& step : steps_) {
    if (step.peak_bytes <= peak_bytes) {
      return step.price;
    }
  }
  return steps_.empty() ? 0 : steps_.back().price;
}

void PriceSearch::follow_memory(std::int64_t peak_bytes, int rounds) {
  const double start = starting_price(peak_bytes);
  if (start <= 0) {
    return;
  }
  Stretches stretches{.prices = std::vector<double>(stretches_, start / (2 * stretches_)),
                      .until = std::vector<double>(stretches_ + 1),
                      .in_use = std::vector<Interval>(problem_.trace.values.size())};
  stretches.prices[0] = start / 2;
  for (const ValueId value : problem_.candidates) {
    const int first = stretch_of(std::max(problem_.first_need[value], 0));
    const OperatorId last_use = std::max(problem_.last_use[value], problem_.first_need[value]);
    stretches.in_use[value] = {first, std::max(first, stretch_of(last_use))};
  }
  const auto room =
      static_cast<double>(std::max(peak_bytes - problem_.fixed_bytes, peak_bytes / 16 + 1));
  for (int round = 0; round < rounds && !trials_.is_over(); ++round) {
    stretches.sum_up();
    const Plan plan = cheapest_plan(stretches, kLinkPrices[round % kLinkPrices.size()]);
    if (!trials_.run(plan, "prices that follow the memory").is_valid) {
      continue;
    }
    trials_.spend(2);  // for the two below
    std::vector<std::int64_t> most(stretches_, 0);
    for (const ScheduledRun& run : problem_.simulator.schedule(plan)) {
      std::int64_t& bytes = most[stretch_of(run.requested_by == kNone ? run.op : run.requested_by)];
      bytes = std::max(bytes, run.live_bytes);
    }
    set_intervals(stretches, plan);
    const double eta = 6.0 / (1.0 + 0.05 * round);
    for (int i = 0; i < stretches_; ++i) {
      const double excess = static_cast<double>(most[i] - peak_bytes) / room;
      stretches.prices[i] =
          std::clamp(stretches.prices[i] * std::exp(eta * std::clamp(excess, -0.2, 0.2)),
                     start * 1e-5, start * 1e5);
    }
  }
}

}  // namespace reprise::planner_internal
