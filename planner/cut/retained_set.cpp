// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/planner/cut/retained_set.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>

namespace reprise::planner_internal {

using planner::kNone;
using planner::OperatorId;
using planner::Trace;
using planner::ValueId;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int kMostTrials = 2000;
constexpr int kMostPrices = 64;
constexpr double kDifference = 1e-6;  // of the weights of equal values

// In some tenths of a second.
std::int64_t most_cuts(const Trace& trace) {
  return 200'000 / std::max<std::int64_t>(100, static_cast<std::int64_t>(trace.operators.size()));
}

// A price at which all values together cost less than the cheapest operator.
double smallest_price(const Trace& trace) {
  double least = kInfinity;
  double bytes = 1;
  for (OperatorId op = 0; op < trace.backward_begin; ++op) {
    const double seconds = trace.operators[op].seconds;
    least = seconds > 0 ? std::min(least, seconds) : least;
  }
  for (const planner::Value& value : trace.values) {
    bytes += static_cast<double>(value.bytes);
  }
  return least == kInfinity ? 0 : least / bytes / 2;
}

}  // namespace

RetainedSets::RetainedSets(const Trace& trace, std::vector<bool> may_retain)
    : trace_(trace),
      facts_(trace),
      cut_(trace, facts_),
      may_retain_(std::move(may_retain)),
      all_(cheapest_at(smallest_price(trace))) {}

RetainedSet RetainedSets::complete(std::vector<bool> retained) const {
  RetainedSet set{.is_retained = std::vector<bool>(retained.size())};
  std::vector<bool> is_rerun(trace_.operators.size());
  const auto read_all = [&](OperatorId op) {
    for (const ValueId value : facts_.reads(op)) {
      const OperatorId producer = facts_.producer[value];
      if (producer == kNone) {
        continue;
      }
      if (!retained[value]) {
        is_rerun[producer] = true;
      } else if (!set.is_retained[value]) {
        set.is_retained[value] = true;
        set.bytes += trace_.values[value].bytes;
      }
    }
  };
  for (auto op = static_cast<OperatorId>(trace_.operators.size()) - 1; op >= 0; --op) {
    if (op >= trace_.backward_begin || is_rerun[op]) {
      read_all(op);
      set.seconds += is_rerun[op] ? trace_.operators[op].seconds : 0;
    }
  }
  return set;
}

// Earlier ones of equal values are retained first.
double RetainedSets::weight_of(ValueId value) const {
  const double place = static_cast<double>(value) / static_cast<double>(trace_.values.size());
  return static_cast<double>(trace_.values[value].bytes) * (1 + kDifference * place);
}

double RetainedSets::weight_of(const RetainedSet& set) const {
  double weight = 0;
  for (std::size_t value = 0; value < set.is_retained.size(); ++value) {
    weight += set.is_retained[value] ? weight_of(static_cast<ValueId>(value)) : 0;
  }
  return weight;
}

Prices RetainedSets::prices_at(double seconds_per_byte) const {
  Prices prices{.retain = std::vector<double>(trace_.values.size()),
                .rerun = std::vector<double>(trace_.operators.size())};
  for (std::size_t op = 0; op < trace_.operators.size(); ++op) {
    prices.rerun[op] = trace_.operators[op].seconds;
  }
  for (std::size_t value = 0; value < trace_.values.size(); ++value) {
    prices.retain[value] =
        may_retain_[value] ? seconds_per_byte * weight_of(static_cast<ValueId>(value)) : kInfinity;
  }
  return prices;
}

RetainedSet RetainedSets::cheapest_at(double seconds_per_byte) const {
  return complete(cut_.solve(prices_at(seconds_per_byte)).is_retained);
}

// Branch and bound: in each branch, some values are retained and some are not. No set of a branch
// within the limit takes fewer seconds than the branch's cheapest set at any price, less the price
// of all bytes of the limit.
class RetainedSets::Search {
 public:
  Search(const RetainedSets& sets, std::int64_t bytes, double price, RetainedSet best)
      : sets_(sets),
        bytes_(bytes),
        price_(price),
        prices_(sets.prices_at(price)),
        is_decided_(sets.may_retain_.size()),
        cuts_left_(most_cuts(sets.trace_)),
        best_(std::move(best)) {
    look(/*retained_weight=*/0);
  }

  RetainedSet best() && { return std::move(best_); }

 private:
  void look(double retained_weight) {
    if (cuts_left_-- <= 0) {
      return;
    }
    const Cut cut = sets_.cut_.solve(prices_);
    const double limit = static_cast<double>(bytes_) * (1 + kDifference);
    RetainedSet set = sets_.complete(cut.is_retained);
    const double bound = cut.least_cost + price_ * (retained_weight - limit);
    const bool fits = set.bytes <= bytes_;
    const ValueId next = bound < best_.seconds ? next_of(set) : kNone;
    if (fits && set.seconds < best_.seconds) {
      best_ = std::move(set);
    }
    if (next == kNone) {
      return;
    }
    const double price = prices_.retain[next];
    is_decided_[next] = true;
    for (const bool is_retained : {fits, !fits}) {
      prices_.retain[next] = is_retained ? 0 : kInfinity;
      look(retained_weight + (is_retained ? sets_.weight_of(next) : 0));
    }
    prices_.retain[next] = price;
    is_decided_[next] = false;
  }

  // Returns the largest undecided value: of those that there are bytes left for, if any.
  ValueId next_of(const RetainedSet& set) const {
    ValueId next = kNone;
    std::pair<bool, std::int64_t> most;
    for (ValueId value = 0; value < static_cast<ValueId>(is_decided_.size()); ++value) {
      const std::int64_t bytes = sets_.trace_.values[value].bytes;
      const bool is_open = sets_.may_retain_[value] && !is_decided_[value];
      const bool fits_too = !set.is_retained[value] && bytes <= bytes_ - set.bytes;
      if (is_open && std::pair(fits_too, bytes) > most) {
        next = value;
        most = {fits_too, bytes};
      }
    }
    return next;
  }

  const RetainedSets& sets_;
  const std::int64_t bytes_;
  const double price_;
  Prices prices_;
  std::vector<bool> is_decided_;  // by value
  std::int64_t cuts_left_;
  RetainedSet best_;
};

RetainedSet RetainedSets::within(std::int64_t bytes) const {
  if (all_.bytes <= bytes) {
    return all_;
  }
  RetainedSet below = none();
  RetainedSet above = all_;
  double price = 0;
  for (int i = 0; i < kMostPrices && above.seconds < below.seconds; ++i) {
    price = (below.seconds - above.seconds) / (weight_of(above) - weight_of(below));
    RetainedSet between = cheapest_at(price);
    const bool is_new = between.bytes > below.bytes && between.bytes < above.bytes;
    if (!is_new) {
      break;
    }
    (between.bytes <= bytes ? below : above) = std::move(between);
  }
  return Search(*this, bytes, price, improved(std::move(below), bytes)).best();
}

RetainedSet RetainedSets::improved(RetainedSet set, std::int64_t bytes) const {
  const auto values = static_cast<ValueId>(trace_.values.size());
  int trials = 0;
  for (bool has_improved = true; has_improved;) {
    has_improved = false;
    RetainedSet best = set;
    const auto try_with = [&](ValueId added, ValueId dropped) {
      std::vector<bool> retained = set.is_retained;
      retained[added] = true;
      if (dropped != kNone) {
        retained[dropped] = false;
      }
      RetainedSet other = complete(std::move(retained));
      if (++trials <= kMostTrials && other.bytes <= bytes && other.seconds < best.seconds) {
        best = std::move(other);
        has_improved = true;
      }
    };
    for (ValueId dropped = kNone; dropped < values && trials < kMostTrials; ++dropped) {
      const bool is_there = dropped == kNone || set.is_retained[dropped];
      const std::int64_t freed = dropped == kNone ? 0 : trace_.values[dropped].bytes;
      for (ValueId added = 0; is_there && added < values && trials < kMostTrials; ++added) {
        if (may_retain_[added] && !set.is_retained[added] &&
            trace_.values[added].bytes <= bytes - set.bytes + freed) {
          try_with(added, dropped);
        }
      }
      if (dropped == kNone && has_improved) {
        break;  // an exchange only if nothing fits
      }
    }
    set = std::move(best);
  }
  return set;
}

}  // namespace reprise::planner_internal
