// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/policies/budget_policy.h"

#include <ATen/core/ivalue.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <iomanip>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "reprise/policies/budget/budget_plan.h"
#include "reprise/policies/budget/known_runs.h"
#include "reprise/policies/budget/saved_ledger.h"
#include "reprise/policies/region_trace.h"

namespace reprise {
namespace {

using policies_internal::KnownRun;
using policies_internal::KnownRunList;
using policies_internal::KnownRuns;
using policies_internal::RecordedCall;
using policies_internal::SavedLedger;

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

// The time of an operator ends when its kernels have.
void wait_for(const std::vector<at::Tensor>& results) {
  for (const at::Tensor& result : results) {
    if (!result.is_cpu()) {
      const c10::impl::VirtualGuardImpl guard(result.device().type());
      guard.synchronizeStream(guard.getStream(result.device()));
      return;
    }
  }
}

// Returns null for an operator that writes to an argument.
const void* memory_of(const std::vector<at::Tensor>& results, const PolicyContext& context) {
  if (results.empty() || !results[0].has_storage()) {
    return nullptr;
  }
  const c10::StorageImpl* const memory = results[0].storage().unsafeGetStorageImpl();
  const std::vector<at::Tensor> inputs = context.input_tensors();
  const bool is_written = std::any_of(inputs.begin(), inputs.end(), [&](const at::Tensor& input) {
    return input.has_storage() && input.storage().unsafeGetStorageImpl() == memory;
  });
  return is_written ? nullptr : memory;
}

// The policy of one run of a region: observes its operators, and follows the plan of a known run as
// long as they agree.
class RegionRun final : public Policy {
 public:
  explicit RegionRun(std::shared_ptr<KnownRuns> known) : known_(std::move(known)) {
    ledger_->set_limit(known_->options().saved_bytes.value_or(0));
  }

  PolicyAnswer decide(const PolicyContext& context) override;
  // The run becomes a known one.
  void end_region(const std::function<RegionTrace()>& trace) override;

 private:
  using Clock = std::chrono::steady_clock;

  void follow();

  const std::shared_ptr<KnownRuns> known_;
  const std::shared_ptr<SavedLedger> ledger_ = SavedLedger::open();
  std::string region_;
  std::vector<RecordedCall> calls_;
  KnownRunList followed_;  // those that agree with all calls so far; the first one's plan applies
  Clock::time_point resumed_ = Clock::now();
};

PolicyAnswer RegionRun::decide(const PolicyContext& context) {
  if (!context.name().empty()) {
    return CheckpointPolicy::PREFER_RECOMPUTE;
  }
  if (calls_.empty()) {
    region_ = context.region();
    followed_ = known_->runs_of(context.region());
  }
  const std::vector<at::Tensor> results = context.output_tensors();
  if (followed_.empty() || !followed_.front()->is_settled()) {
    wait_for(results);
  }
  const std::chrono::duration<double> time = Clock::now() - resumed_;
  const std::int64_t bytes = context.output_bytes();
  calls_.push_back({context.op_id(), context.ordinal(), bytes, time.count()});
  follow();
  const bool saves = !followed_.empty() && followed_.front()->plan.saves[calls_.size() - 1];
  const bool is_saved = ledger_->enter(memory_of(results, context), bytes, saves);
  resumed_ = Clock::now();
  return is_saved ? CheckpointPolicy::PREFER_SAVE : CheckpointPolicy::PREFER_RECOMPUTE;
}

void RegionRun::end_region(const std::function<RegionTrace()>& trace) {
  if (!calls_.empty()) {
    known_->learn(region_, std::move(calls_), trace);
  }
}

void RegionRun::follow() {
  RecordedCall& last = calls_.back();
  const std::size_t index = calls_.size() - 1;
  std::erase_if(followed_, [&](const std::shared_ptr<const KnownRun>& run) {
    return index >= run->calls.size() || !run->calls[index].is_same_operator(last);
  });
  if (followed_.empty()) {
    return;
  }
  const KnownRun& run = *followed_.front();
  ledger_->set_limit(run.plan.figures.limit_bytes);
  if (run.is_settled()) {
    last.seconds = run.calls[index].seconds;  // nobody has waited for the device
  }
}

}  // namespace

BudgetPolicy::BudgetPolicy(const BudgetPolicyOptions& options)
    : known_(std::make_shared<policies_internal::KnownRuns>(checked(options))) {}

BudgetPolicy::~BudgetPolicy() = default;

std::shared_ptr<Policy> BudgetPolicy::begin_region() { return std::make_shared<RegionRun>(known_); }

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
