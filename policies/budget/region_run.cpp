// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/policies/budget/region_run.h"

#include <ATen/core/ivalue.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <exception>
#include <utility>
#include <vector>

namespace reprise::policies_internal {
namespace {

// The time of an operator ends when its kernels have.
void wait_for_results(const PolicyContext& context) {
  for (const c10::IValue& output : context.outputs()) {
    if (output.isTensor() && output.toTensor().defined() && !output.toTensor().is_cpu()) {
      const at::Device device = output.toTensor().device();
      const c10::impl::VirtualGuardImpl guard(device.type());
      guard.synchronizeStream(guard.getStream(device));
      return;
    }
  }
}

const void* memory_of_results(const PolicyContext& context) {
  for (const c10::IValue& output : context.outputs()) {
    if (output.isTensor() && output.toTensor().defined() && output.toTensor().has_storage()) {
      return output.toTensor().storage().unsafeGetStorageImpl();
    }
  }
  return nullptr;
}

}  // namespace

RegionRun::RegionRun(std::shared_ptr<KnownRuns> known)
    : known_(std::move(known)),
      exceptions_at_start_(std::uncaught_exceptions()),
      resumed_(Clock::now()) {
  ledger_->set_limit(known_->options().saved_bytes.value_or(0));
}

RegionRun::~RegionRun() {
  if (recorder_.record().calls.empty() || std::uncaught_exceptions() > exceptions_at_start_) {
    return;
  }
  try {
    known_->learn(region_, std::move(recorder_.record()));
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): without memory for it
  }
}

PolicyAnswer RegionRun::decide(const PolicyContext& context) {
  if (!context.name().empty()) {
    return CheckpointPolicy::PREFER_RECOMPUTE;
  }
  if (recorder_.record().calls.empty()) {
    begin(context);
  }
  if (!follows_settled()) {
    wait_for_results(context);
  }
  const std::chrono::duration<double> time = Clock::now() - resumed_;
  const std::size_t index = recorder_.record().calls.size();
  const std::int64_t bytes = recorder_.add(context, time.count()).bytes;
  follow();
  const bool saves = !followed_.empty() && followed_.front()->plan.saves[index];
  const void* const results = recorder_.has_written() ? nullptr : memory_of_results(context);
  const bool is_saved = ledger_->enter(results, bytes, saves);
  resumed_ = Clock::now();
  return is_saved ? CheckpointPolicy::PREFER_SAVE : CheckpointPolicy::PREFER_RECOMPUTE;
}

void RegionRun::begin(const PolicyContext& context) {
  region_ = context.region();
  followed_ = known_->runs_of(context.region());
  if (!followed_.empty()) {
    recorder_.record().calls.reserve(followed_.front()->record.calls.size());
  }
}

void RegionRun::follow() {
  RecordedCall& last = recorder_.record().calls.back();
  const std::size_t index = recorder_.record().calls.size() - 1;
  std::erase_if(followed_, [&](const std::shared_ptr<const KnownRun>& run) {
    const std::vector<RecordedCall>& calls = run->record.calls;
    return index >= calls.size() || !calls[index].is_same_operator(last);
  });
  if (followed_.empty()) {
    return;
  }
  const KnownRun& run = *followed_.front();
  ledger_->set_limit(run.plan.limit_bytes);
  if (run.is_settled()) {
    last.seconds = run.record.calls[index].seconds;  // nobody has waited for the device
  }
}

}  // namespace reprise::policies_internal
