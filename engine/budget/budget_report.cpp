// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/budget/budget_report.h"

#include <cstdint>
#include <iomanip>
#include <optional>
#include <sstream>
#include <string>

namespace reprise::engine_internal {
namespace {

std::string in_mebibytes(std::int64_t bytes) {
  constexpr double kMebibyte = 1 << 20;
  std::ostringstream text;
  text << std::fixed << std::setprecision(2) << static_cast<double>(bytes) / kMebibyte << " MiB";
  return text.str();
}

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

}  // namespace

std::string describe_budget(const BudgetAim& aim, const BudgetedStep* step, KnownStep* known) {
  std::ostringstream text;
  text << "memory budget: ";
  if (aim.max_overhead) {
    text << "at most " << in_percent(*aim.max_overhead) << " of recomputation\n";
  } else {
    text << in_mebibytes(aim.peak_bytes) << " at the peak of a step\n";
  }
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
  return text.str();
}

}  // namespace reprise::engine_internal
