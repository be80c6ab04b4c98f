// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/planner/cut/retention_cut.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>

namespace reprise::planner_internal {
namespace {

using planner::Operator;

constexpr std::int32_t kSource = 0;
constexpr std::int32_t kSink = 1;

// A power of two by which prices become integers, as large as their sum allows.
class FixedPoint {
 public:
  explicit FixedPoint(double sum) {
    int exponent = 0;
    std::frexp(sum, &exponent);  // sum < 2^exponent
    shift_ = kBits - exponent;
  }

  // Rounds down, as does real().
  std::int64_t integer(double price) const {
    return std::isfinite(price) ? static_cast<std::int64_t>(std::ldexp(price, shift_)) : kUnlimited;
  }
  double real(std::int64_t price) const {
    return std::ldexp(std::nextafter(static_cast<double>(price), 0.0), -shift_);
  }

 private:
  static constexpr int kBits = 60;
  static_assert(kUnlimited / 2 >= std::int64_t{1} << kBits);

  int shift_ = 0;
};

}  // namespace

// See Note [Recomputation as a cut]. What backward demands is part of the source, and what cannot
// run again part of the sink. A value that only one operator can demand needs no node.
class RetentionCut::Builder {
 public:
  explicit Builder(RetentionCut& cut)
      : cut_(cut),
        trace_(cut.trace_),
        readers_(trace_.values.size()),
        node_(trace_.operators.size(), kNone) {}

  void build() {
    for (OperatorId op = trace_.backward_begin - 1; op >= 0; --op) {
      add_operator(op);
    }
    cut_.network_.emplace(nodes_, kSource, kSink, edges_);
  }

 private:
  void add_operator(OperatorId op) {
    const Operator& each = trace_.operators[op];
    const bool is_demanded =
        std::any_of(each.results.begin(), each.results.end(),
                    [this](ValueId v) { return cut_.is_demanded_[v] || !readers_[v].empty(); });
    if (!is_demanded) {
      return;
    }
    if (each.can_recompute) {
      node_[op] = nodes_++;
      add_edge(node_[op], kSink, {.rerun = op});
      for (const ValueId value : each.reads) {
        if (!cut_.is_free(value) && (readers_[value].empty() || readers_[value].back() != op)) {
          readers_[value].push_back(op);
        }
      }
    }
    for (const ValueId value : each.results) {
      add_value(value, each.can_recompute ? node_[op] : kSink);
    }
  }

  void add_value(ValueId value, std::int32_t producer) {
    const std::vector<OperatorId>& readers = readers_[value];
    if (cut_.is_demanded_[value]) {
      add_edge(kSource, producer, {.retain = value});
    } else if (readers.size() == 1) {
      add_edge(node_[readers.front()], producer, {.retain = value});
    } else if (!readers.empty()) {
      const std::int32_t node = nodes_++;
      add_edge(node, producer, {.retain = value});
      for (const OperatorId reader : readers) {
        add_edge(node_[reader], node, {});
      }
    }
  }

  void add_edge(std::int32_t from, std::int32_t to, Priced priced) {
    edges_.push_back({.from = from, .to = to});
    cut_.priced_.push_back(priced);
    if (priced.rerun != kNone) {
      cut_.operators_.push_back({.op = priced.rerun, .node = from});
    }
  }

  RetentionCut& cut_;
  const Trace& trace_;
  std::vector<std::vector<OperatorId>> readers_;  // by value: those that may run again, descending
  std::vector<std::int32_t> node_;                // by operator
  std::vector<FlowEdge> edges_;
  std::int32_t nodes_ = 2;
};

RetentionCut::RetentionCut(const Trace& trace, const TraceFacts& facts, OperatorId first)
    : trace_(trace), facts_(facts), is_demanded_(trace.values.size()) {
  const auto size = static_cast<OperatorId>(trace.operators.size());
  for (OperatorId op = std::max(first, trace.backward_begin); op < size; ++op) {
    for (const ValueId value : trace.operators[op].reads) {
      const OperatorId released = trace.values[value].released;
      if (!is_free(value) && released < op && facts.producer[value] < trace.backward_begin) {
        is_demanded_[value] = true;
      }
    }
  }
  Builder(*this).build();
}

bool RetentionCut::is_free(ValueId value) const {
  return facts_.producer[value] == kNone || trace_.values[value].released == kNone;
}

double RetentionCut::price(const Priced& priced, const Prices& prices) {
  if (priced.rerun != kNone) {
    return prices.rerun[priced.rerun];
  }
  return priced.retain != kNone ? prices.retain[priced.retain]
                                : std::numeric_limits<double>::infinity();
}

Cut RetentionCut::solve(const Prices& prices) const {
  double sum = 0;
  for (const Priced& priced : priced_) {
    const double each = price(priced, prices);
    sum += std::isfinite(each) ? each : 0.0;
  }
  const FixedPoint fixed(sum);
  std::vector<std::int64_t> capacities(priced_.size());
  std::transform(priced_.begin(), priced_.end(), capacities.begin(),
                 [&](const Priced& priced) { return fixed.integer(price(priced, prices)); });
  const MinCut min_cut = network_->min_cut(capacities);

  Cut cut = choice(min_cut, prices);
  if (min_cut.capacity == kUnlimited) {
    cut.cost = std::numeric_limits<double>::infinity();
    cut.least_cost = cut.cost;
  } else {
    cut.least_cost = std::min(cut.cost, fixed.real(min_cut.capacity));
  }
  return cut;
}

Cut RetentionCut::choice(const MinCut& min_cut, const Prices& prices) const {
  Cut cut{.is_retained = is_demanded_, .is_rerun = std::vector<bool>(trace_.operators.size())};
  for (const Node& each : operators_) {
    if (min_cut.is_on_source_side[each.node]) {
      cut.is_rerun[each.op] = true;
      cut.cost += prices.rerun[each.op];
      for (const ValueId value : trace_.operators[each.op].reads) {
        cut.is_retained[value] = cut.is_retained[value] || !is_free(value);
      }
    }
  }
  for (std::size_t value = 0; value < cut.is_retained.size(); ++value) {
    if (cut.is_retained[value]) {
      cut.is_retained[value] = !cut.is_rerun[facts_.producer[value]];
      cut.cost += cut.is_retained[value] ? prices.retain[value] : 0.0;
    }
  }
  return cut;
}

}  // namespace reprise::planner_internal
