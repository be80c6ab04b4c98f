// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Makes a trace of a training step from its forward operators alone: backward is derived as
// autograd does it, and the program lets go of a value after the last operator of forward that
// reads it.
#ifndef REPRISE_TESTS_PLANNER_STEP_BUILDER_H_
#define REPRISE_TESTS_PLANNER_STEP_BUILDER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "reprise/planner/trace.h"

namespace reprise::testing {

struct ForwardOperator {
  planner::Operator op;  // its results are made by StepBuilder::add()
  std::vector<planner::Value> results = {};
  std::vector<std::size_t> saved_reads = {};    // positions among its reads, for backward
  std::vector<std::size_t> saved_results = {};  // and among its results
  bool is_in_place = false;                     // the first result overwrites the first read
  bool passes_gradient = false;  // as an addition does: backward has nothing to compute
  double backward_seconds = 0;
};

class StepBuilder {
 public:
  using ValueId = planner::ValueId;
  using OperatorId = planner::OperatorId;

  // For sums of gradients of one value.
  explicit StepBuilder(double sum_seconds_per_byte) : sum_seconds_per_byte_(sum_seconds_per_byte) {}

  // A value that exists before the step, and after it.
  ValueId add_existing(std::int64_t bytes, planner::ValueKind kind, std::string name) {
    return trace_.add_value({.bytes = bytes, .kind = kind, .name = std::move(name)});
  }

  // Returns the results.
  std::vector<ValueId> add(ForwardOperator forward) {
    for (planner::Value& value : forward.results) {
      forward.op.results.push_back(trace_.add_value(std::move(value)));
    }
    if (forward.is_in_place) {
      trace_.values[forward.op.results.front()].overwrites = forward.op.reads.front();
    }
    trace_.operators.push_back(forward.op);
    forward_.push_back(std::move(forward));
    return forward_.back().op.results;
  }

  // The program holds `value` to the end of the step.
  void hold(ValueId value) { held_.insert(value); }

  const planner::Trace& forward() const { return trace_; }

  // Returns the step. Throws std::invalid_argument if it is not valid.
  planner::Trace finish() {
    trace_.backward_begin = static_cast<OperatorId>(trace_.operators.size());
    release_values_of_forward();
    gradients_.assign(trace_.values.size(), planner::kNone);
    for (auto it = forward_.rbegin(); it != forward_.rend(); ++it) {
      add_backward(*it);
    }
    release_gradients();
    trace_.validate();
    return std::move(trace_);
  }

 private:
  bool is_differentiable(ValueId value) const {
    const planner::ValueKind kind = trace_.values[value].kind;
    return kind == planner::ValueKind::kActivation || kind == planner::ValueKind::kParameter;
  }

  // After its last reader, or, without one, its producer.
  void release_after_last_use(OperatorId op) {
    for (const auto* values : {&trace_.operators[op].results, &trace_.operators[op].reads}) {
      for (const ValueId value : *values) {
        trace_.values[value].released = op;
      }
    }
  }

  void release_values_of_forward() {
    const std::vector<OperatorId> producers = trace_.producers();
    for (OperatorId op = 0; op < trace_.backward_begin; ++op) {
      release_after_last_use(op);
    }
    for (std::size_t value = 0; value < trace_.values.size(); ++value) {
      if (producers[value] == planner::kNone || held_.contains(static_cast<ValueId>(value))) {
        trace_.values[value].released = planner::kNone;
      }
    }
  }

  void add_backward(const ForwardOperator& forward) {
    planner::Operator backward{.name = forward.op.name + "_backward",
                               .seconds = forward.backward_seconds,
                               .workspace_bytes = forward.op.workspace_bytes,
                               .can_recompute = false,
                               .reads = {},
                               .results = {}};
    for (const ValueId result : forward.op.results) {
      if (gradients_[result] != planner::kNone) {
        backward.reads.push_back(gradients_[result]);
      }
    }
    const std::set<ValueId> inputs(forward.op.reads.begin(), forward.op.reads.end());
    if (forward.passes_gradient) {
      for (const ValueId input : inputs) {
        if (is_differentiable(input)) {
          add_gradient(input, backward.reads.at(0));
        }
      }
      return;
    }
    for (const std::size_t read : forward.saved_reads) {
      backward.reads.push_back(forward.op.reads.at(read));
    }
    for (const std::size_t result : forward.saved_results) {
      backward.reads.push_back(forward.op.results.at(result));
    }
    std::vector<std::pair<ValueId, ValueId>> made;
    for (const ValueId input : inputs) {
      if (is_differentiable(input)) {
        made.emplace_back(input, add_gradient_value(input));
        backward.results.push_back(made.back().second);
      }
    }
    trace_.operators.push_back(std::move(backward));
    for (const auto& [input, gradient] : made) {
      add_gradient(input, gradient);
    }
  }

  ValueId add_gradient_value(ValueId of) {
    return trace_.add_value({.bytes = trace_.values[of].bytes,
                             .kind = planner::ValueKind::kGradient,
                             .name = "gradient"});
  }

  // Sums up, in place where nothing else reads the sum so far.
  void add_gradient(ValueId of, ValueId gradient) {
    ValueId& sum = gradients_[of];
    if (sum != planner::kNone) {
      const ValueId result = add_gradient_value(of);
      sums_.emplace_back(result, sum);
      trace_.operators.push_back(
          {.name = "accumulate",
           .seconds = sum_seconds_per_byte_ * static_cast<double>(trace_.values[of].bytes),
           .can_recompute = false,
           .reads = {sum, gradient},
           .results = {result}});
      gradient = result;
    }
    sum = gradient;
  }

  void release_gradients() {
    for (auto op = static_cast<std::size_t>(trace_.backward_begin); op < trace_.operators.size();
         ++op) {
      for (const auto* values : {&trace_.operators[op].results, &trace_.operators[op].reads}) {
        for (const ValueId value : *values) {
          if (trace_.values[value].kind == planner::ValueKind::kGradient) {
            trace_.values[value].released = static_cast<OperatorId>(op);
          }
        }
      }
    }
    const std::vector<OperatorId> producers = trace_.producers();
    for (const auto& [result, sum] : sums_) {
      if (trace_.values[sum].released == producers[result] &&
          trace_.values[sum].bytes == trace_.values[result].bytes) {
        trace_.values[result].overwrites = sum;
      }
    }
    for (std::size_t value = 0; value < gradients_.size(); ++value) {
      if (trace_.values[value].kind == planner::ValueKind::kParameter &&
          gradients_[value] != planner::kNone) {
        trace_.values[gradients_[value]].released = planner::kNone;
      }
    }
  }

  const double sum_seconds_per_byte_;
  planner::Trace trace_;
  std::vector<ForwardOperator> forward_;
  std::set<ValueId> held_;
  std::vector<ValueId> gradients_;                 // by value of forward
  std::vector<std::pair<ValueId, ValueId>> sums_;  // of gradients, and what each is made from
};

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_PLANNER_STEP_BUILDER_H_
