// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/planner/command/memory_curve.h"

#include <algorithm>
#include <numeric>

namespace reprise::planner_internal {
namespace {

using planner::kNone;
using planner::OperatorId;
using planner::ScheduledRun;
using planner::Trace;
using planner::ValueId;

// Bytes of values that are made once and that no plan is about, by run.
class UnplannedBytes {
 public:
  explicit UnplannedBytes(const Outcome& outcome)
      : outcome_(outcome),
        before_step_(outcome.schedule().size() + 1),
        gradients_(outcome.schedule().size() + 1) {
    const Trace& trace = outcome.trace();
    std::vector<bool> is_overwritten(trace.values.size());
    for (const planner::Value& value : trace.values) {
      if (value.overwrites != kNone) {
        is_overwritten[value.overwrites] = true;
      }
    }
    for (ValueId value = 0; value < static_cast<ValueId>(trace.values.size()); ++value) {
      add(value, is_overwritten[value]);
    }
    std::partial_sum(before_step_.begin(), before_step_.end(), before_step_.begin());
    std::partial_sum(gradients_.begin(), gradients_.end(), gradients_.begin());
  }

  std::int64_t before_step(std::size_t run) const { return before_step_[run]; }
  std::int64_t gradients(std::size_t run) const { return gradients_[run]; }

 private:
  void add(ValueId value, bool is_overwritten) {
    const OperatorId producer = outcome_.producer(value);
    if (producer != kNone && producer < outcome_.trace().backward_begin) {
      return;
    }
    std::int32_t end = outcome_.released_in(value) + 1;
    if (!outcome_.reads(value).empty()) {
      end = std::max(end, outcome_.reads(value).back() + 1);
    }
    // The value that takes over its memory counts while both are there.
    end -= is_overwritten && end == outcome_.released_in(value) + 1 ? 1 : 0;
    std::vector<std::int64_t>& changes = producer == kNone ? before_step_ : gradients_;
    changes[producer == kNone ? 0 : outcome_.own_run(producer)] += bytes_of(value);
    changes[end] -= bytes_of(value);
  }

  std::int64_t bytes_of(ValueId value) const { return outcome_.trace().values[value].bytes; }

  const Outcome& outcome_;
  std::vector<std::int64_t> before_step_;
  std::vector<std::int64_t> gradients_;
};

}  // namespace

std::vector<MemoryMoment> memory_curve(const Outcome& outcome) {
  const UnplannedBytes unplanned(outcome);
  std::vector<MemoryMoment> curve;
  double now = 0;
  for (std::size_t i = 0; i < outcome.schedule().size(); ++i) {
    const ScheduledRun& run = outcome.schedule()[i];
    MemoryMoment moment;
    moment.begin_seconds = now;
    now += outcome.trace().operators[run.op].seconds;
    moment.end_seconds = now;
    auto& [before_step, gradients, retained, recomputed, other, workspace] = moment.bytes;
    before_step = unplanned.before_step(i);
    gradients = unplanned.gradients(i);
    retained = run.retained_bytes;
    recomputed = run.recomputed_bytes;
    workspace = run.workspace_bytes;
    other = std::max<std::int64_t>(
        0, run.live_bytes - before_step - gradients - retained - recomputed - workspace);
    curve.push_back(moment);
  }
  return curve;
}

}  // namespace reprise::planner_internal
