// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/planner/command/findings.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace reprise::planner_internal {
namespace {

using planner::OperatorId;
using planner::Planner;
using planner::Solution;
using planner::Trace;

void find_frontier(Planner& planner, int points, Findings& findings) {
  findings.frontier = planner.frontier(points);
  const Solution knee = planner.knee(points);
  const auto nearest =
      std::min_element(findings.frontier.begin(), findings.frontier.end(),
                       [&](const Solution& a, const Solution& b) {
                         return std::abs(a.simulation.peak_bytes - knee.simulation.peak_bytes) <
                                std::abs(b.simulation.peak_bytes - knee.simulation.peak_bytes);
                       });
  findings.knee = static_cast<std::size_t>(nearest - findings.frontier.begin());
}

// Its bound is that of any plan with the same peak.
void take_followed(Planner& planner, const planner::StepReport& report, Findings& findings) {
  Solution followed{.plan = report.plan,
                    .simulation = planner.simulator().run(report.plan),
                    .method = "followed by the budget",
                    .bound_seconds = findings.seconds};
  if (const auto found = planner.plan(followed.simulation.peak_bytes)) {
    followed.bound_seconds = std::min(found->bound_seconds, followed.simulation.seconds);
  }
  findings.is_followed = true;
  findings.budget_bytes = report.budget_bytes;
  findings.plan = std::move(followed);
}

double share_of(double part, double whole) { return whole > 0 ? part / whole : 0; }

}  // namespace

const Solution* Findings::subject() const {
  if (is_impossible()) {
    return nullptr;
  }
  return plan ? &*plan : &frontier[knee];
}

double Findings::extra_time(const Solution& solution) const {
  return share_of(solution.simulation.seconds - seconds, seconds);
}
double Findings::bound(const Solution& solution) const {
  return share_of(solution.bound_seconds - seconds, seconds);
}
double Findings::gap(const Solution& solution) const {
  return share_of(solution.gap_seconds(), seconds);
}
double Findings::share(std::int64_t bytes) const {
  return share_of(static_cast<double>(bytes - base_bytes),
                  static_cast<double>(peak_bytes - base_bytes));
}

std::int64_t stored_bytes(const Solution& solution) {
  const std::vector<std::int64_t>& stored = solution.simulation.stored_bytes;
  return std::accumulate(stored.begin(), stored.end(), std::int64_t{0});
}

Findings find_plans(Planner& planner, const Arguments& arguments,
                    const planner::StepReport* report) {
  const Trace& trace = planner.simulator().trace();
  Findings findings;
  findings.base_bytes = trace.bytes_before_step();
  findings.peak_bytes = planner.simulator().run(retain_all(trace)).peak_bytes;
  findings.seconds = trace.seconds();
  if (report != nullptr && arguments.asks_for_no_plan()) {
    take_followed(planner, *report, findings);
  } else if (arguments.budget) {
    findings.budget_bytes = arguments.budget->resolve(findings.base_bytes, findings.peak_bytes);
    findings.plan = planner.plan(*findings.budget_bytes);
    if (!findings.plan) {
      findings.smallest = planner.smallest_peak();
      return findings;
    }
  } else if (arguments.max_overhead) {
    findings.plan = planner.plan_within_overhead(*arguments.max_overhead);
  }
  if (!findings.plan || !arguments.plot_file.empty()) {
    find_frontier(planner, arguments.points, findings);
  }
  return findings;
}

}  // namespace reprise::planner_internal
