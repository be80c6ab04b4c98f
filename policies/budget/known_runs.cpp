// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/policies/budget/known_runs.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <utility>

namespace reprise::policies_internal {
namespace {

constexpr std::size_t kRunsOfRegion = 16;
constexpr std::size_t kRunsOfPolicy = 256;

// A region without a name has a number, another one in each run: all of them count as one region.
std::string_view without_number(std::string_view region) {
  constexpr std::string_view kUnnamed = "region #";
  const bool is_unnamed =
      region.starts_with(kUnnamed) &&
      std::all_of(region.begin() + kUnnamed.size(), region.end(),
                  [](unsigned char letter) { return std::isdigit(letter) != 0; });
  return is_unnamed ? std::string_view() : region;
}

void take_shorter_times(RunRecord& record, const RunRecord& other) {
  for (std::size_t i = 0; i < record.calls.size(); ++i) {
    record.calls[i].seconds = std::min(record.calls[i].seconds, other.calls[i].seconds);
  }
}

BudgetedRun describe(const std::string& region, const KnownRun& run, std::int64_t runs) {
  return {.region = region,
          .runs = runs,
          .operators = static_cast<std::int64_t>(run.record.calls.size()),
          .result_bytes = run.plan.result_bytes,
          .useful_bytes = run.plan.useful_bytes,
          .limit_bytes = run.plan.limit_bytes,
          .saved_bytes = run.plan.saved_bytes,
          .seconds = run.plan.seconds,
          .saved_seconds = run.plan.saved_seconds};
}

}  // namespace

KnownRunList KnownRuns::runs_of(std::string_view region) const {
  KnownRunList runs;
  const std::scoped_lock lock(mutex_);
  if (const auto entries = entries_.find(without_number(region)); entries != entries_.end()) {
    std::transform(entries->second.begin(), entries->second.end(), std::back_inserter(runs),
                   [](const Entry& entry) { return entry.run; });
  }
  return runs;
}

void KnownRuns::learn(std::string_view region, RunRecord record) {
  const std::string_view name = without_number(region);
  auto learnt = std::make_shared<KnownRun>();
  bool was_known = false;
  {
    const std::scoped_lock lock(mutex_);
    if (Entry* const entry = find(name, record)) {
      was_known = true;
      ++entry->runs;
      if (entry->run->is_settled()) {
        return;
      }
      take_shorter_times(record, entry->run->record);
      learnt->observations = entry->run->observations;
    }
  }
  ++learnt->observations;
  learnt->plan = plan_run(record, options_);
  learnt->record = std::move(record);
  const std::scoped_lock lock(mutex_);
  Entry* const entry = find(name, learnt->record);
  if (entry == nullptr) {
    add(name, std::move(learnt));
    return;
  }
  entry->runs += was_known ? 0 : 1;  // another thread has learnt it since
  if (entry->run->observations < learnt->observations) {
    entry->run = std::move(learnt);
  }
}

// Counts as a use.
KnownRuns::Entry* KnownRuns::find(std::string_view region, const RunRecord& record) {
  const auto entries = entries_.find(region);
  if (entries == entries_.end()) {
    return nullptr;
  }
  const auto found =
      std::find_if(entries->second.begin(), entries->second.end(),
                   [&](const Entry& entry) { return is_same_run(entry.run->record, record); });
  if (found == entries->second.end()) {
    return nullptr;
  }
  found->last_use = ++uses_;
  std::rotate(entries->second.begin(), found, std::next(found));
  return &entries->second.front();
}

void KnownRuns::add(std::string_view region, std::shared_ptr<const KnownRun> run) {
  Entries& entries = entries_[std::string(region)];
  const std::int64_t use = ++uses_;
  entries.insert(entries.begin(), {std::move(run), use, 1, use});
  ++size_;
  if (!region.empty() && entries.size() > kRunsOfRegion) {
    entries.pop_back();
    --size_;
  }
  if (size_ > kRunsOfPolicy) {
    drop_least_used();
  }
}

void KnownRuns::drop_least_used() {
  const auto least =
      std::min_element(entries_.begin(), entries_.end(), [](const auto& a, const auto& b) {
        return a.second.back().last_use < b.second.back().last_use;
      });
  least->second.pop_back();
  --size_;
  if (least->second.empty()) {
    entries_.erase(least);
  }
}

std::vector<BudgetedRun> KnownRuns::report() const {
  std::vector<std::pair<std::int64_t, BudgetedRun>> numbered;
  {
    const std::scoped_lock lock(mutex_);
    for (const auto& [region, entries] : entries_) {
      for (const Entry& entry : entries) {
        numbered.emplace_back(entry.number, describe(region, *entry.run, entry.runs));
      }
    }
  }
  std::sort(numbered.begin(), numbered.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<BudgetedRun> runs;
  std::transform(numbered.begin(), numbered.end(), std::back_inserter(runs),
                 [](auto& each) { return std::move(each.second); });
  return runs;
}

}  // namespace reprise::policies_internal
