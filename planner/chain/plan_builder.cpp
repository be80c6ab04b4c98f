// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/planner/chain/plan_builder.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace reprise::planner_internal {
namespace {

using planner::Choice;

// Goes through backward as Execution does, but decides while it runs what is retained.
class PlanBuilder {
 public:
  PlanBuilder(const Trace& trace, const TraceFacts& facts, const RegionChain& chain,
              std::vector<RegionId> retained_since)
      : trace_(trace),
        facts_(facts),
        chain_(chain),
        retained_since_(std::move(retained_since)),
        times_made_(trace.values.size()),
        is_retained_(trace.values.size()),
        made_in_(trace.values.size(), kNone),
        collected_in_(trace.operators.size(), kNone),
        plan_(trace) {}

  Plan build() {
    const auto forward = static_cast<RegionId>(chain_.regions.size());
    for (std::size_t value = 0; value < trace_.values.size(); ++value) {
      is_retained_[value] = chain_.is_pinned[value] || retained_since_[value] == forward;
      plan_.choices[value] = is_retained_[value] ? Choice::retain() : Choice::recompute();
    }
    for (region_ = forward - 1; region_ >= 0; --region_) {
      const Region& region = chain_.regions[region_];
      for (now_ = region.backward_begin; now_ < region.backward_end; ++now_) {
        for (const ValueId value : trace_.operators[now_].reads) {
          request(value);
        }
      }
    }
    return std::move(plan_);
  }

 private:
  bool is_there(ValueId value) const {
    const OperatorId released = trace_.values[value].released;
    const OperatorId producer = facts_.producer[value];
    return producer == kNone || producer >= trace_.backward_begin || released == kNone ||
           released >= now_ || is_retained_[value] || made_in_[value] == now_;
  }

  void request(ValueId value) {
    collected_.clear();
    pending_.assign(1, value);
    while (!pending_.empty()) {
      const ValueId next = pending_.back();
      pending_.pop_back();
      const OperatorId op = facts_.producer[next];
      if (!is_there(next) && collected_in_[op] != now_) {
        collected_in_[op] = now_;
        collected_.push_back(op);
        const std::vector<ValueId>& reads = trace_.operators[op].reads;
        pending_.insert(pending_.end(), reads.begin(), reads.end());
      }
    }
    std::sort(collected_.begin(), collected_.end());
    for (const OperatorId op : collected_) {
      for (const ValueId result : trace_.operators[op].results) {
        make(result);
      }
    }
  }

  void make(ValueId value) {
    if (is_there(value)) {
      return;
    }
    made_in_[value] = now_;
    times_made_[value] += times_made_[value] < Choice::kNever - 1 ? 1 : 0;
    is_retained_[value] = region_ <= retained_since_[value];
    // Not before the next time, if there is one.
    const int times = times_made_[value] + (is_retained_[value] ? 0 : 1);
    plan_.choices[value].retained_from = static_cast<std::uint8_t>(times);
  }

  const Trace& trace_;
  const TraceFacts& facts_;
  const RegionChain& chain_;
  const std::vector<RegionId> retained_since_;
  std::vector<std::uint8_t> times_made_;  // in backward, by value
  std::vector<bool> is_retained_;
  std::vector<OperatorId> made_in_;       // by value: for which operator of backward
  std::vector<OperatorId> collected_in_;  // by operator
  std::vector<OperatorId> collected_;
  std::vector<ValueId> pending_;
  Plan plan_;
  RegionId region_ = 0;
  OperatorId now_ = 0;  // the operator of backward that requests
};

}  // namespace

Plan build_plan(const Trace& trace, const TraceFacts& facts, const RegionChain& chain,
                std::vector<RegionId> retained_since) {
  return PlanBuilder(trace, facts, chain, std::move(retained_since)).build();
}

}  // namespace reprise::planner_internal
