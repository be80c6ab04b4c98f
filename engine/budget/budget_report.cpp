// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/budget/budget_report.h"

#include <algorithm>
#include <cstdint>
#include <iomanip>
#include <optional>
#include <sstream>
#include <string>

#include "reprise/engine/budget/kept_values.h"
#include "reprise/engine/budget/mebibytes.h"

namespace reprise::engine_internal {
namespace {

std::string in_milliseconds(double seconds) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(2) << seconds * 1e3 << " ms";
  return text.str();
}

std::string in_percent(double part) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(2) << part * 100 << " %";
  return text.str();
}

void describe_measured(const BudgetedStep& step, std::ostream& text) {
  text << "last step: peak " << in_mebibytes(step.peak_bytes);
  if (step.predicted_peak_bytes) {
    text << " (predicted " << in_mebibytes(*step.predicted_peak_bytes) << ")";
  }
  text << ", " << in_milliseconds(step.seconds);
  if (step.is_planned()) {
    text << " (predicted " << in_milliseconds(step.predicted_seconds) << ")";
  }
  text << (step.is_recorded ? ", recorded" : "") << "\n";
  if (step.evicted_bytes > 0) {
    text << "evicted to stay within the budget: " << in_mebibytes(step.evicted_bytes) << "\n";
  }
}

void describe_plan(const BudgetedStep& step, const KnownStep::Summary& plan, std::ostream& text) {
  text << "plan: retains " << plan.retained << " values of " << in_mebibytes(plan.retained_bytes);
  if (plan.stored > 0) {
    text << ", of which " << plan.stored << " of " << in_mebibytes(plan.stored_bytes)
         << " in stores";
  }
  text << ", runs " << plan.repeated << " operators again\n"
       << "recomputation: "
       << in_percent((step.predicted_seconds - step.plain_seconds) / step.plain_seconds)
       << " of a plain step (" << in_milliseconds(step.plain_seconds)
       << "); no plan within this peak is faster by more than "
       << in_percent((step.predicted_seconds - step.bound_seconds) / step.plain_seconds) << "\n"
       << "peak: while " << plan.peak_operator << " runs\n";
  if (plan.is_backward_estimated) {
    text << "backward is an estimate: it does not run on forward's thread, or not through "
            "LibTorch's "
            "default engine\n";
  }
  if (plan.seconds_with_more) {
    text << "with a tenth more for activations (" << in_mebibytes(plan.more_bytes)
         << "): " << in_percent((*plan.seconds_with_more - step.plain_seconds) / step.plain_seconds)
         << " of recomputation\n";
  }
}

void describe_aim(const BudgetAim& aim, const StepLimit& limit, std::ostream& text) {
  text << "memory budget: ";
  if (aim.max_overhead) {
    text << "at most " << in_percent(*aim.max_overhead) << " of recomputation\n";
  } else if (limit.is_share()) {
    text << in_mebibytes(limit.bytes) << " at the peak of the last step, of "
         << in_mebibytes(limit.offered_bytes) << " that the device has to give, less "
         << in_mebibytes(limit.reserve_bytes) << " in reserve: " << limit.source << "\n";
  } else if (aim.varies) {
    text << "a part of all that the device has to give when a step begins\n";
  } else {
    text << in_mebibytes(aim.peak_bytes) << " at the peak of a step\n";
  }
}

}  // namespace

std::string describe_budget(const BudgetAim& aim, const StepLimit& limit, const BudgetedStep* step,
                            KnownStep* known) {
  std::ostringstream text;
  describe_aim(aim, limit, text);
  if (step == nullptr) {
    text << "no step has ended\n";
    return text.str();
  }
  describe_measured(*step, text);
  if (known != nullptr && step->is_planned()) {
    describe_plan(*step, known->summarize(aim), text);
  } else {
    text << (step->has_other_sizes
                 ? "plan: that of a step with the same operators and other sizes\n"
                 : "no plan: the step was new to the budget\n");
  }
  if (known != nullptr && known->plan_for_trace() != nullptr) {
    text << describe_kept(known->trace(), *known->plan_for_trace());
  }
  return text.str();
}

std::optional<planner::StepReport> report_of(const BudgetAim& aim, const BudgetedStep* step,
                                             std::int64_t bytes_before, const KnownStep& known) {
  if (known.plan_for_trace() == nullptr) {
    return std::nullopt;
  }
  planner::StepReport report{.trace = known.trace(), .plan = *known.plan_for_trace()};
  // The last value of a recorded trace is the memory from before the step that no operator reads.
  if (step != nullptr) {
    std::int64_t& other = report.trace.values.back().bytes;
    other = std::max<std::int64_t>(0, other + bytes_before - report.trace.bytes_before_step());
    report.measured_peak_bytes = step->peak_bytes;
  }
  report.stores = known.stores();
  report.max_overhead = aim.max_overhead;
  if (!aim.max_overhead) {
    report.budget_bytes = aim.peak_bytes;
  }
  return report;
}

}  // namespace reprise::engine_internal
