// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/planner/planner.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <stdexcept>
#include <utility>

#include "reprise/planner/search/archive.h"
#include "reprise/planner/search/portfolio.h"

namespace reprise::planner {

using planner_internal::Archive;
using planner_internal::Found;
using planner_internal::Portfolio;

class Planner::Impl {
 public:
  Impl(const Trace& trace, PlannerOptions options)
      : simulator_(trace, std::move(options.stores)),
        portfolio_(simulator_, std::max(options.max_simulations, 1)) {}

  const Simulator& simulator() const { return simulator_; }

  std::optional<Solution> plan(std::int64_t peak_bytes) {
    portfolio_.search(peak_bytes);
    const Found* found = archive().fastest_within(peak_bytes);
    return found == nullptr ? std::nullopt : std::optional(solution(*found, peak_bytes));
  }

  Solution smallest_peak() {
    portfolio_.search_smallest();
    const Found* found = archive().smallest();
    if (found == nullptr) {
      throw std::invalid_argument(
          "trace: backward needs a value that cannot be recomputed and whose memory is "
          "overwritten");
    }
    return solution(*found, found->simulation.peak_bytes);
  }

  std::int64_t least_peak_bytes();
  Solution plan_within_overhead(double max_overhead);
  std::vector<Solution> frontier(int points);
  void release_memory() { portfolio_.release_memory(); }

 private:
  const Archive& archive() const { return portfolio_.archive(); }
  Solution solution(const Found& found, std::int64_t peak_bytes);

  const Simulator simulator_;
  Portfolio portfolio_;
};

Solution Planner::Impl::solution(const Found& found, std::int64_t peak_bytes) {
  return {
      .plan = found.plan,
      .simulation = found.simulation,
      .method = std::string(found.method),
      .bound_seconds = std::min(portfolio_.bound_seconds(peak_bytes), found.simulation.seconds)};
}

// The bound on the time of a step within an impossible budget is infinite.
std::int64_t Planner::Impl::least_peak_bytes() {
  std::int64_t possible = smallest_peak().simulation.peak_bytes;
  std::int64_t impossible = -1;
  constexpr std::int64_t kPart = 1000;
  while (possible - impossible > std::max<std::int64_t>(possible / kPart, 1)) {
    const std::int64_t middle = impossible + (possible - impossible) / 2;
    const bool is_impossible = std::isinf(portfolio_.bound_seconds(middle));
    (is_impossible ? impossible : possible) = middle;
  }
  return impossible + 1;
}

// Halves the range of budgets between a plan that is fast enough and one that is too slow.
Solution Planner::Impl::plan_within_overhead(double max_overhead) {
  if (!(max_overhead >= 0)) {
    throw std::invalid_argument("plan_within_overhead: max_overhead is negative or not a number");
  }
  constexpr int kHalvings = 8;
  constexpr double kRounding = 1e-12;  // sums of the same times in another order
  const double most = simulator_.trace().seconds() * (1 + max_overhead) * (1 + kRounding);
  std::int64_t below = smallest_peak().simulation.peak_bytes;
  for (int i = 0; i < kHalvings; ++i) {
    const Found* fast_enough = archive().smallest_within(most);
    if (fast_enough == nullptr || fast_enough->simulation.peak_bytes <= below) {
      break;
    }
    const std::int64_t middle = below + (fast_enough->simulation.peak_bytes - below) / 2;
    const std::optional<Solution> found = plan(middle);
    if (!found.has_value() || found->simulation.seconds > most) {
      below = middle + 1;
    }
  }
  const Found* found = archive().smallest_within(most);
  if (found == nullptr) {
    found = archive().fastest_within(std::numeric_limits<std::int64_t>::max());
  }
  return solution(*found, found->simulation.peak_bytes);
}

std::vector<Solution> Planner::Impl::frontier(int points) {
  if (points < 2) {
    throw std::invalid_argument("frontier: " + std::to_string(points) + " points");
  }
  const std::int64_t smallest = smallest_peak().simulation.peak_bytes;
  const std::int64_t largest =
      archive().fastest_within(std::numeric_limits<std::int64_t>::max())->simulation.peak_bytes;
  std::vector<std::int64_t> budgets;
  for (int i = 0; i < points; ++i) {
    const double part = static_cast<double>(i) / (points - 1);
    budgets.push_back(smallest + static_cast<std::int64_t>(
                                     std::llround(part * static_cast<double>(largest - smallest))));
    portfolio_.search(budgets.back());
  }
  std::vector<Solution> solutions;
  for (const std::int64_t budget : budgets) {
    const Found* found = archive().fastest_within(budget);
    if (solutions.empty() ||
        solutions.back().simulation.peak_bytes != found->simulation.peak_bytes) {
      solutions.push_back(solution(*found, budget));
    }
  }
  return solutions;
}

Planner::Planner(const Trace& trace, PlannerOptions options)
    : impl_(std::make_unique<Impl>(trace, std::move(options))) {}
Planner::Planner(Planner&&) noexcept = default;
Planner& Planner::operator=(Planner&&) noexcept = default;
Planner::~Planner() = default;

void Planner::release_memory() { impl_->release_memory(); }

const Simulator& Planner::simulator() const { return impl_->simulator(); }

std::optional<Solution> Planner::plan(std::int64_t peak_bytes) { return impl_->plan(peak_bytes); }
Solution Planner::smallest_peak() { return impl_->smallest_peak(); }
std::int64_t Planner::least_peak_bytes() { return impl_->least_peak_bytes(); }
Solution Planner::plan_within_overhead(double max_overhead) {
  return impl_->plan_within_overhead(max_overhead);
}
std::vector<Solution> Planner::frontier(int points) { return impl_->frontier(points); }

Solution Planner::knee(int points) {
  const std::vector<Solution> solutions = impl_->frontier(points);
  const Simulation& first = solutions.front().simulation;
  const Simulation& last = solutions.back().simulation;
  const auto scaled = [](double value, double from, double to) {
    return to > from ? (value - from) / (to - from) : 0.0;
  };
  const auto distance = [&](const Solution& each) {
    return std::hypot(
        scaled(static_cast<double>(each.simulation.peak_bytes),
               static_cast<double>(first.peak_bytes), static_cast<double>(last.peak_bytes)),
        scaled(each.simulation.seconds, last.seconds, first.seconds));
  };
  return *std::min_element(
      solutions.begin(), solutions.end(),
      [&](const Solution& a, const Solution& b) { return distance(a) < distance(b); });
}

}  // namespace reprise::planner
