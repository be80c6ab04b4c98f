// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/policies/budget_policy.h"

#include <iomanip>
#include <sstream>
#include <stdexcept>

#include "reprise/policies/budget/known_runs.h"
#include "reprise/policies/budget/region_run.h"

namespace reprise {
namespace {

const BudgetPolicyOptions& checked(const BudgetPolicyOptions& options) {
  const auto& [bytes, fraction] = options;
  if (bytes.has_value() == fraction.has_value()) {
    throw std::invalid_argument(
        std::string("[policies.BudgetPolicy] exactly one budget is needed; received ") +
        (bytes ? "both saved_bytes and saved_fraction" : "neither saved_bytes nor saved_fraction") +
        "; set one of them");
  }
  if (bytes && *bytes < 0) {
    throw std::invalid_argument(
        "[policies.BudgetPolicy] saved_bytes must not be negative; received " +
        std::to_string(*bytes) + "; 0 saves nothing");
  }
  const bool is_fraction = fraction && *fraction >= 0 && *fraction <= 1;  // not if it is NaN
  if (fraction && !is_fraction) {
    std::ostringstream message;
    message << "[policies.BudgetPolicy] saved_fraction must be from 0 to 1; received " << *fraction
            << "; 0.3 saves three tenths of the bytes";
    throw std::invalid_argument(message.str());
  }
  return options;
}

void print(std::ostream& out, const BudgetedRun& run) {
  const auto mebibytes = [](std::int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); };
  const double share = run.seconds > 0 ? run.saved_seconds / run.seconds : 0;
  out << (run.region.empty() ? "regions without a name" : "region '" + run.region + "'") << ", "
      << run.runs << " runs: " << run.operators << " operators, results " << std::fixed
      << std::setprecision(2) << mebibytes(run.result_bytes) << " MiB, worth saving "
      << mebibytes(run.useful_bytes) << " MiB, budget " << mebibytes(run.limit_bytes)
      << " MiB; saves " << mebibytes(run.saved_bytes) << " MiB and spares " << std::setprecision(0)
      << share * 100 << " % of " << std::setprecision(3) << run.seconds * 1e3 << " ms\n";
}

}  // namespace

BudgetPolicy::BudgetPolicy(const BudgetPolicyOptions& options)
    : known_(std::make_shared<policies_internal::KnownRuns>(checked(options))) {}

BudgetPolicy::~BudgetPolicy() = default;

std::shared_ptr<Policy> BudgetPolicy::begin_region() {
  return std::make_shared<policies_internal::RegionRun>(known_);
}

PolicyAnswer BudgetPolicy::decide(const PolicyContext& /*context*/) {
  throw std::logic_error(
      "[policies.BudgetPolicy] the policy was asked for an operator outside of a region's run; ask "
      "the one that its begin_region() returns for each run");
}

std::vector<BudgetedRun> BudgetPolicy::known_runs() const { return known_->report(); }

std::string BudgetPolicy::explain() const {
  std::ostringstream text;
  for (const BudgetedRun& run : known_runs()) {
    print(text, run);
  }
  return text.str();
}

}  // namespace reprise
