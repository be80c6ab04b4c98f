// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/policies/budget/known_runs.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <iterator>
#include <utility>

namespace reprise::policies_internal {
namespace {

constexpr std::ptrdiff_t kRunsOfRegion = 16;
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

bool are_same(const std::vector<RecordedCall>& calls, const std::vector<RecordedCall>& others) {
  return std::equal(
      calls.begin(), calls.end(), others.begin(), others.end(),
      [](const RecordedCall& a, const RecordedCall& b) { return a.is_same_operator(b); });
}

void take_shorter_times(std::vector<RecordedCall>& calls, const std::vector<RecordedCall>& others) {
  for (std::size_t i = 0; i < calls.size(); ++i) {
    calls[i].seconds = std::min(calls[i].seconds, others[i].seconds);
  }
}

}  // namespace

KnownRunList KnownRuns::runs_of(std::string_view region) const {
  const std::string_view name = without_number(region);
  KnownRunList runs;
  const std::scoped_lock lock(mutex_);
  for (const Entry& entry : entries_) {
    if (entry.region == name) {
      runs.push_back(entry.run);
    }
  }
  return runs;
}

void KnownRuns::learn(std::string_view region, std::vector<RecordedCall> calls,
                      const std::function<RegionTrace()>& trace) {
  const std::string_view name = without_number(region);
  auto learnt = std::make_shared<KnownRun>();
  bool was_known = false;
  {
    const std::scoped_lock lock(mutex_);
    if (Entry* const entry = find(name, calls)) {
      was_known = true;
      ++entry->runs;
      if (entry->run->is_settled()) {
        return;
      }
      take_shorter_times(calls, entry->run->calls);
      learnt->observations = entry->run->observations;
    }
  }
  ++learnt->observations;
  learnt->plan = plan_run(calls, trace(), options_);
  learnt->calls = std::move(calls);
  const std::scoped_lock lock(mutex_);
  Entry* const entry = find(name, learnt->calls);
  if (entry == nullptr) {
    add(name, std::move(learnt));
    return;
  }
  entry->runs += was_known ? 0 : 1;  // another thread has learnt it since
  if (entry->run->observations < learnt->observations) {
    entry->run = std::move(learnt);
  }
}

KnownRuns::Entry* KnownRuns::find(std::string_view region, const std::vector<RecordedCall>& calls) {
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return entry.region == region && are_same(entry.run->calls, calls);
  });
  if (found == entries_.end()) {
    return nullptr;
  }
  std::rotate(entries_.begin(), found, std::next(found));
  return &entries_.front();
}

void KnownRuns::add(std::string_view region, std::shared_ptr<const KnownRun> run) {
  entries_.insert(entries_.begin(), {std::string(region), std::move(run), added_++, 1});
  const auto is_of_region = [&](const Entry& entry) { return entry.region == region; };
  if (!region.empty() &&
      std::count_if(entries_.begin(), entries_.end(), is_of_region) > kRunsOfRegion) {
    const auto last = std::find_if(entries_.rbegin(), entries_.rend(), is_of_region);
    entries_.erase(std::next(last).base());
  }
  if (entries_.size() > kRunsOfPolicy) {
    entries_.pop_back();
  }
}

std::vector<BudgetedRun> KnownRuns::report() const {
  std::vector<Entry> entries;
  {
    const std::scoped_lock lock(mutex_);
    entries = entries_;
  }
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.number < b.number; });
  std::vector<BudgetedRun> runs;
  for (const Entry& entry : entries) {
    runs.push_back(entry.run->plan.figures);
    runs.back().region = entry.region;
    runs.back().runs = entry.runs;
  }
  return runs;
}

}  // namespace reprise::policies_internal
