// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/planner/schedule/store_traffic.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace reprise::planner_internal {

using planner::StoreOption;

StoreTraffic::StoreTraffic(const Trace& trace, const std::vector<StoreOption>& stores,
                           const Plan& plan, const Execution& execution)
    : trace_(trace), stores_(stores), stored_bytes_(stores.size()) {
  const std::vector<Copy>& copies = execution.copies();
  find_transfers(plan, copies);
  if (transfers_.empty() || !is_valid_) {
    return;
  }
  set_times(execution.runs(), copies);
  send(copies);
  bring_back(copies);
}

void StoreTraffic::find_transfers(const Plan& plan, const std::vector<Copy>& copies) {
  for (std::size_t i = 0; i < copies.size(); ++i) {
    const Copy& copy = copies[i];
    const planner::Choice choice = plan.choices[copy.value];
    const bool is_put = choice.store != kNone && choice.is_retained() && copy.made != kNone &&
                        copy.released != kNone && copy.first_use_in_backward > copy.released;
    if (!is_put) {
      continue;
    }
    const StoreOption& store = stores_[choice.store];
    stored_bytes_[choice.store] += bytes_of(copy);
    transfers_.push_back({.copy = static_cast<CopyId>(i), .store = choice.store});
    is_valid_ = is_valid_ && store.takes(copy.value, bytes_of(copy)) &&
                stored_bytes_[choice.store] <= store.capacity_bytes;
  }
}

double StoreTraffic::put_seconds(const Transfer& transfer, std::int64_t bytes) const {
  const StoreOption& store = stores_[transfer.store];
  return store.latency_seconds + store.put_seconds_per_byte * static_cast<double>(bytes);
}

double StoreTraffic::get_seconds(const Transfer& transfer, std::int64_t bytes) const {
  const StoreOption& store = stores_[transfer.store];
  return store.latency_seconds + store.get_seconds_per_byte * static_cast<double>(bytes);
}

void StoreTraffic::set_times(const std::vector<Run>& runs, const std::vector<Copy>& copies) {
  std::vector<double> durations(runs.size());
  std::transform(runs.begin(), runs.end(), durations.begin(),
                 [this](const Run& run) { return trace_.operators[run.op].seconds; });
  for (const Transfer& transfer : transfers_) {
    if (!stores_[transfer.store].is_overlapped) {
      const Copy& copy = copies[transfer.copy];
      const double put = put_seconds(transfer, bytes_of(copy));
      const double get = get_seconds(transfer, bytes_of(copy));
      durations[copy.made] += put;
      durations[copy.first_use_in_backward] += get;
      seconds_ += put + get;
    }
  }
  starts_.assign(1, 0.0);
  for (const double duration : durations) {
    starts_.push_back(starts_.back() + duration);
  }
}

RunId StoreTraffic::run_at(double time) const {
  const auto after = std::upper_bound(starts_.begin(), starts_.end(), time);
  const auto run = static_cast<RunId>(after - starts_.begin()) - 1;
  return std::clamp(run, 0, static_cast<RunId>(starts_.size()) - 2);
}

void StoreTraffic::send(const std::vector<Copy>& copies) {
  std::vector<double> free_at(stores_.size());
  for (Transfer& transfer : transfers_) {
    const Copy& copy = copies[transfer.copy];
    if (stores_[transfer.store].is_overlapped) {
      double& link = free_at[transfer.store];
      link = std::max(link, starts_[copy.made + 1]) + put_seconds(transfer, bytes_of(copy));
      transfer.outside_at = link;
    }
  }
}

void StoreTraffic::bring_back(const std::vector<Copy>& copies) {
  std::vector<Transfer> order = transfers_;
  std::stable_sort(order.begin(), order.end(), [&](const Transfer& a, const Transfer& b) {
    return copies[a.copy].first_use_in_backward < copies[b.copy].first_use_in_backward;
  });
  std::vector<double> free_at(stores_.size());
  double delay = 0;  // by all waits so far
  for (const Transfer& transfer : order) {
    const Copy& copy = copies[transfer.copy];
    if (!stores_[transfer.store].is_overlapped) {
      add_absence(transfer, copy, copy.released, copy.first_use_in_backward);
      continue;
    }
    const double needed = starts_[copy.first_use_in_backward] + delay;
    if (transfer.outside_at >= needed) {
      continue;
    }
    double& link = free_at[transfer.store];
    const double duration = get_seconds(transfer, bytes_of(copy));
    const double start = std::max({link, needed - duration, transfer.outside_at});
    link = start + duration;
    add_absence(transfer, copy, std::max(copy.released, run_at(transfer.outside_at)),
                std::min(copy.first_use_in_backward, run_at(start - delay)));
    delay += std::max(0.0, link - needed);
  }
  seconds_ += delay;
}

void StoreTraffic::add_absence(const Transfer& transfer, const Copy& copy, RunId away_after,
                               RunId back_at) {
  if (back_at > away_after) {
    const double fraction = 1 - stores_[transfer.store].fraction_of(copy.value);
    absences_.push_back({.copy = transfer.copy,
                         .away_after = away_after,
                         .back_at = back_at,
                         .bytes = static_cast<std::int64_t>(
                             std::floor(fraction * static_cast<double>(bytes_of(copy))))});
  }
}

}  // namespace reprise::planner_internal
