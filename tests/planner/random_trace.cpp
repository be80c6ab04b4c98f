// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "tests/planner/random_trace.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <random>
#include <string>
#include <vector>

#include "tests/planner/step_builder.h"

namespace reprise::testing {
namespace {

using planner::kNone;
using planner::Operator;
using planner::OperatorId;
using planner::Trace;
using planner::ValueId;
using planner::ValueKind;

class Chance {
 public:
  explicit Chance(std::uint64_t seed) : random_(seed) {}

  std::int64_t below(std::int64_t n) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(n));
  }
  bool happens(double probability) {
    return static_cast<double>(below(1 << 20)) < probability * (1 << 20);
  }
  double seconds() { return static_cast<double>(1 + below(64)) / 1024; }

 private:
  std::mt19937_64 random_;
};

class RandomTrace {
 public:
  RandomTrace(std::uint64_t seed, const RandomTraceOptions& options)
      : options_(options), chance_(seed) {}

  Trace make() {
    readable_.push_back(step_.add_existing(bytes(), ValueKind::kInput, "input"));
    for (int i = 0; i < options_.forward_operators; ++i) {
      add_operator(i);
    }
    step_.hold(readable_.back());  // the loss
    Trace trace = step_.finish();
    hold_values(trace);
    trace.validate();
    return trace;
  }

 private:
  std::int64_t bytes() { return chance_.happens(0.02) ? 0 : 1 + chance_.below(options_.max_bytes); }

  void add_operator(int number) {
    ForwardOperator forward{.op = {.name = "op" + std::to_string(number),
                                   .seconds = chance_.seconds(),
                                   .can_recompute = !chance_.happens(options_.not_recomputable),
                                   .reads = reads(),
                                   .results = {}},
                            .backward_seconds = chance_.seconds()};
    if (chance_.happens(0.25)) {
      forward.op.workspace_bytes = chance_.below(options_.max_workspace_bytes + 1);
    }
    forward.results.push_back({.bytes = bytes(), .name = "value"});
    while (chance_.happens(options_.multi_result)) {
      forward.results.push_back({.bytes = bytes(), .name = "value"});
    }
    const ValueId first = forward.op.reads.front();
    if (chance_.happens(options_.in_place) && is_made(first) && !is_saved(first)) {
      forward.is_in_place = true;
      forward.results.front().bytes = step_.forward().values[first].bytes;
      readable_.erase(std::find(readable_.begin(), readable_.end(), first));
    }
    save(forward);
    const std::vector<ValueId> results = step_.add(std::move(forward));
    readable_.insert(readable_.end(), results.begin(), results.end());
  }

  bool is_made(ValueId value) const {
    return step_.forward().values[value].kind == ValueKind::kActivation;
  }
  bool is_saved(ValueId value) const {
    return static_cast<std::size_t>(value) < is_saved_.size() && is_saved_[value];
  }

  std::vector<ValueId> reads() {
    std::vector<ValueId> reads;
    const std::int64_t fan_in = 1 + chance_.below(options_.max_fan_in);
    for (std::int64_t i = 0; i < fan_in; ++i) {
      const auto readable = static_cast<std::int64_t>(readable_.size());
      const std::int64_t window =
          chance_.happens(0.1) ? readable : std::min<std::int64_t>(readable, options_.layer_width);
      reads.push_back(readable_[readable - 1 - chance_.below(window)]);
    }
    if (chance_.happens(0.2)) {
      reads.push_back(step_.add_existing(bytes(), ValueKind::kParameter, "parameter"));
    }
    std::sort(reads.begin(), reads.end());
    reads.erase(std::unique(reads.begin(), reads.end()), reads.end());
    return reads;
  }

  void save(ForwardOperator& forward) {
    // What it makes has the next numbers.
    is_saved_.resize(step_.forward().values.size() + forward.results.size());
    const std::size_t first_result = step_.forward().values.size();
    for (std::size_t i = 0; i < forward.op.reads.size(); ++i) {
      if (chance_.happens(options_.saved) && !(forward.is_in_place && i == 0)) {
        forward.saved_reads.push_back(i);
        is_saved_[forward.op.reads[i]] = true;
      }
    }
    for (std::size_t i = 0; i < forward.results.size(); ++i) {
      if (chance_.happens(options_.saved)) {
        forward.saved_results.push_back(i);
        is_saved_[first_result + i] = true;
      }
    }
  }

  void hold_values(Trace& trace) {
    std::vector<bool> is_overwritten(trace.values.size());
    for (const planner::Value& value : trace.values) {
      if (value.overwrites != kNone) {
        is_overwritten[value.overwrites] = true;
      }
    }
    const auto size = static_cast<OperatorId>(trace.operators.size());
    for (OperatorId op = 0; op < trace.backward_begin; ++op) {
      for (const ValueId value : trace.operators[op].results) {
        if (!is_overwritten[value] && chance_.happens(options_.held)) {
          const std::int64_t backward = size - trace.backward_begin;
          const auto released =
              static_cast<OperatorId>(trace.backward_begin + chance_.below(backward + 1));
          trace.values[value].released = released == size ? kNone : released;
        }
      }
    }
  }

  const RandomTraceOptions options_;
  Chance chance_;
  StepBuilder step_{1.0 / (1 << 20)};
  std::vector<ValueId> readable_;  // by later operators: those not overwritten
  std::vector<bool> is_saved_;
};

}  // namespace

Trace random_trace(std::uint64_t seed, const RandomTraceOptions& options) {
  return RandomTrace(seed, options).make();
}

planner::Plan random_plan(const Trace& trace, std::uint64_t seed) {
  constexpr std::array<std::uint8_t, 5> kRetainedFrom = {0, 0, 1, 2, planner::Choice::kNever};
  Chance chance(seed);
  planner::Plan plan(trace);
  for (planner::Choice& choice : plan.choices) {
    choice.retained_from = kRetainedFrom[chance.below(kRetainedFrom.size())];
  }
  std::vector<bool> is_overwritten(trace.values.size());
  for (const planner::Value& value : trace.values) {
    if (value.overwrites != kNone) {
      is_overwritten[value.overwrites] = true;
    }
  }
  // An operator cannot run again either if what it reads can neither be retained nor made again.
  std::vector<bool> is_lost(trace.values.size());
  for (const Operator& op : trace.operators) {
    const bool must_retain =
        !op.can_recompute ||
        std::any_of(op.reads.begin(), op.reads.end(), [&](ValueId v) { return is_lost[v]; });
    for (const ValueId value : op.results) {
      is_lost[value] = must_retain && is_overwritten[value];
      if (must_retain) {
        plan.choices[value] = planner::Choice::retain();
      }
      if (is_overwritten[value] && plan.choices[value].is_retained()) {
        plan.choices[value] = planner::Choice::recompute();
      }
    }
  }
  return plan;
}

}  // namespace reprise::testing
