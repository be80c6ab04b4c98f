// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/planner/cut/lower_bound.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "reprise/planner/cut/certain_memory.h"
#include "reprise/planner/simulator.h"

namespace reprise::planner_internal {
namespace {

using planner::StoreOption;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int kInstants = 8;
constexpr int kMaxCuts = 60;           // per instant; about ten are enough
constexpr double kTolerance = 1e-7;    // of the best price's bound
constexpr double kRounding = 0x1p-50;  // of any sum of two products, relative to their magnitudes

// What it takes to have a value in backward without its producer.
struct Way {
  std::int64_t bytes = 0;  // in the step's memory, while backward begins
  double seconds = 0;

  // At an infinite price, bytes alone count.
  double cost(double price) const {
    const auto each = static_cast<double>(bytes);
    return std::isinf(price) ? each : each * price + seconds;
  }
};

// The ways of each value, none of which costs more than the simulator says. Copies beside the
// computation may cost nothing, and a store's capacity may suffice.
class Ways {
 public:
  Ways(const Trace& trace, const TraceFacts& facts, const std::vector<StoreOption>& stores)
      : per_value_(stores.size() + 1) {
    for (std::size_t value = 0; value < trace.values.size(); ++value) {
      const ValueId overwriter = facts.overwriter[value];
      const std::int64_t bytes = trace.values[value].bytes;
      // An operator that runs again as backward begins can take over the memory.
      const std::int64_t whole =
          overwriter == kNone ? bytes : std::min(bytes, trace.values[overwriter].bytes);
      ways_.push_back({.bytes = whole});
      for (const StoreOption& store : stores) {
        const auto id = static_cast<ValueId>(value);
        const Way way = put(store, store.fraction_of(id), bytes, whole);
        ways_.push_back(store.takes(id, bytes) ? way : ways_.back());
      }
    }
  }

  // Returns the cheapest way, if a byte costs `price` seconds; of several, the one of least bytes.
  Way cheapest(std::size_t value, double price) const {
    const auto begin = ways_.begin() + static_cast<std::ptrdiff_t>(value * per_value_);
    return *std::min_element(begin, begin + static_cast<std::ptrdiff_t>(per_value_),
                             [price](const Way& a, const Way& b) {
                               const double difference = a.cost(price) - b.cost(price);
                               return difference != 0 ? difference < 0 : a.bytes < b.bytes;
                             });
  }

 private:
  static Way put(const StoreOption& store, double fraction, std::int64_t bytes,
                 std::int64_t whole) {
    const auto size = static_cast<double>(bytes);
    const auto away = static_cast<std::int64_t>(std::floor((1 - fraction) * size));
    const double copies = 2 * store.latency_seconds +
                          (store.put_seconds_per_byte + store.get_seconds_per_byte) * size;
    return {.bytes = std::clamp(bytes - away, std::int64_t{0}, whole),
            .seconds = store.is_overlapped ? 0.0 : copies};
  }

  std::size_t per_value_;
  std::vector<Way> ways_;
};

// A moment at which all that later operators of backward demand of forward is in memory, beside
// `certain_bytes`, unless it is recomputed later.
struct Instant {
  OperatorId first = kNone;  // of these later operators
  std::int64_t certain_bytes = 0;
  std::vector<bool> is_certain;  // by value: among these bytes
};

Instant instant(const Trace& trace, OperatorId op, std::int64_t certain_bytes) {
  Instant instant{.first = op, .certain_bytes = certain_bytes, .is_certain = {}};
  for (const planner::Value& value : trace.values) {
    instant.is_certain.push_back(value.released == kNone || value.released >= op);
  }
  return instant;
}

// When all of forward has run, and none of it has run again.
Instant turnaround(const Trace& trace, const CertainMemory& certain) {
  return instant(trace, trace.backward_begin, certain.before[trace.backward_begin]);
}

// While the program runs `op`, of backward. What it was recomputed for before that counts nothing.
Instant during(const Trace& trace, const CertainMemory& certain, OperatorId op) {
  Instant during = instant(trace, op, certain.during[op]);
  during.first = op + 1;
  for (const ValueId value : trace.operators[op].reads) {
    during.is_certain[value] = true;
  }
  return during;
}

// Returns operators of backward, one of each of kInstants parts: that with the most in memory if
// all is retained.
std::vector<OperatorId> busy_operators(const Trace& trace) {
  std::vector<planner::ScheduledRun> runs =
      planner::Simulator(trace).schedule(planner::retain_all(trace));
  std::erase_if(runs, [](const planner::ScheduledRun& run) {  // of evicted values
    return run.requested_by != kNone;
  });
  if (runs.empty()) {
    return {};
  }
  const auto backward = runs.begin() + trace.backward_begin;
  const std::ptrdiff_t size = runs.end() - backward;
  std::vector<OperatorId> busy;
  for (int part = 0; part < kInstants; ++part) {
    const auto begin = backward + size * part / kInstants;
    const auto end = backward + size * (part + 1) / kInstants;
    if (begin != end) {
      const auto most = std::max_element(
          begin, end, [](const auto& a, const auto& b) { return a.live_bytes < b.live_bytes; });
      busy.push_back(most->op);
    }
  }
  return busy;
}

// The best bound for one instant: a concave function of the price, made of straight lines, each
// the cost of one choice. Two choices, one on each side of the best price, say where to look next.
class PriceSearch {
 public:
  PriceSearch(const Trace& trace, const TraceFacts& facts, const Ways& ways, const Instant& instant,
              std::int64_t peak_bytes)
      : trace_(trace),
        ways_(ways),
        is_certain_(instant.is_certain),
        cut_(trace, facts, instant.first),
        room_(peak_bytes - instant.certain_bytes) {}

  // Returns the best bound, or `known` if that is as good.
  double raise(double known) {
    Line right = at(kInfinity).line;
    if (right.excess_bytes > 0) {
      return kInfinity;
    }
    Line left = at(0).line;
    for (int i = 0; i < kMaxCuts && left.excess_bytes > 0; ++i) {
      const auto bytes = static_cast<double>(left.excess_bytes - right.excess_bytes);
      const double price = (right.seconds - left.seconds) / bytes;
      const double most = left.seconds + price * static_cast<double>(left.excess_bytes);
      if (!(price > 0) || most <= known * (1 + kTolerance)) {
        break;
      }
      const Point next = at(price);
      known = std::max(known, next.bound);
      (next.line.excess_bytes > 0 ? left : right) = next.line;
    }
    return known;
  }

 private:
  struct Line {
    double seconds = 0;
    std::int64_t excess_bytes = 0;  // beyond the room
  };
  struct Point {
    double bound = 0;
    Line line;  // through it
  };

  Point at(double price) const {
    Prices prices{.retain = std::vector<double>(trace_.values.size()),
                  .rerun = std::vector<double>(trace_.operators.size())};
    for (std::size_t value = 0; value < prices.retain.size(); ++value) {
      prices.retain[value] = is_certain_[value] ? 0 : ways_.cheapest(value, price).cost(price);
    }
    for (std::size_t op = 0; op < prices.rerun.size(); ++op) {
      prices.rerun[op] = std::isinf(price) ? 0 : trace_.operators[op].seconds;
    }
    const Cut cut = cut_.solve(prices);
    const double room = price * static_cast<double>(room_);
    return {.bound = cut.least_cost - room - kRounding * (cut.least_cost + std::abs(room)),
            .line = line(cut, price)};
  }

  Line line(const Cut& cut, double price) const {
    Line line{.excess_bytes = -room_};
    for (std::size_t value = 0; value < cut.is_retained.size(); ++value) {
      if (cut.is_retained[value] && !is_certain_[value]) {
        const Way way = ways_.cheapest(value, price);
        line.seconds += way.seconds;
        line.excess_bytes += way.bytes;
      }
    }
    for (std::size_t op = 0; op < cut.is_rerun.size(); ++op) {
      line.seconds += cut.is_rerun[op] ? trace_.operators[op].seconds : 0;
    }
    return line;
  }

  const Trace& trace_;
  const Ways& ways_;
  const std::vector<bool>& is_certain_;
  RetentionCut cut_;
  std::int64_t room_;
};

}  // namespace

double lower_bound(const Trace& trace, const TraceFacts& facts,
                   const std::vector<StoreOption>& stores, std::int64_t peak_bytes) {
  const CertainMemory certain(trace, facts);
  if (std::any_of(certain.during.begin(), certain.during.end(),
                  [peak_bytes](std::int64_t bytes) { return bytes > peak_bytes; })) {
    return kInfinity;
  }
  if (trace.backward_begin == static_cast<OperatorId>(trace.operators.size())) {
    return 0;
  }
  const Ways ways(trace, facts, stores);
  double bound = 0;
  const auto raise = [&](const Instant& instant) {
    bound = PriceSearch(trace, facts, ways, instant, peak_bytes).raise(bound);
  };
  raise(turnaround(trace, certain));
  for (const OperatorId op : busy_operators(trace)) {
    if (std::isfinite(bound)) {
      raise(during(trace, certain, op));
    }
  }
  return bound;
}

}  // namespace reprise::planner_internal
