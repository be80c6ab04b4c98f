// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "reprise/planner/largest_batch.h"
#include "reprise/planner/memory_timeline.h"
#include "reprise/planner/plan.h"
#include "reprise/planner/planner.h"
#include "reprise/planner/simulator.h"
#include "reprise/planner/step_report.h"
#include "reprise/planner/trace_format.h"
#include "reprise/python/bindings/python_reports.h"

namespace reprise::python {
namespace {

using planner::kNone;
using planner::MemoryMoment;
using planner::MemoryTimeline;
using planner::OperatorId;
using planner::Trace;

std::string label_of(const Trace& trace, OperatorId op) {
  return '#' + std::to_string(op) + ' ' + trace.operators[op].name;
}

py::dict timeline_dict(const Trace& trace, const MemoryTimeline& timeline) {
  py::list moments;
  for (const MemoryMoment& each : timeline.moments) {
    std::string label = label_of(trace, each.op);
    if (each.requested_by != kNone) {
      label += ", which runs again for " + label_of(trace, each.requested_by);
    }
    moments.append(py::make_tuple(each.begin_seconds, each.end_seconds, each.bytes, label));
  }
  py::list residences;
  for (const planner::Residence& each : timeline.residences) {
    residences.append(py::make_tuple(each.value, static_cast<int>(each.memory_class),
                                     each.first_run, each.last_run, each.bytes));
  }
  py::dict result;
  result["moments"] = moments;
  result["residences"] = residences;
  result["peak"] = timeline.peak;
  return result;
}

// Of each value its label, the operator that makes it, and that one's stack.
py::list values_list(const Trace& trace) {
  const std::vector<OperatorId> producers = trace.producers();
  py::list values;
  for (std::size_t value = 0; value < producers.size(); ++value) {
    const std::string& name = trace.values[value].name;
    const OperatorId producer = producers[value];
    const std::string of = producer == kNone ? "" : label_of(trace, producer);
    std::string label = name.empty() ? of : name;
    if (label.empty()) {
      label = "value " + std::to_string(value);
    }
    values.append(
        py::make_tuple(label, of, producer == kNone ? "" : trace.operators[producer].stack));
  }
  return values;
}

double begin_of_backward(const Trace& trace, const MemoryTimeline& timeline) {
  for (const MemoryMoment& each : timeline.moments) {
    if (each.requested_by != kNone || each.op >= trace.backward_begin) {
      return each.begin_seconds;
    }
  }
  return timeline.moments.back().end_seconds;
}

py::dict solution_dict(const planner::Solution& solution) {
  py::dict result;
  result["peak_bytes"] = solution.simulation.peak_bytes;
  result["seconds"] = solution.simulation.seconds;
  result["bound_seconds"] = solution.bound_seconds;
  return result;
}

}  // namespace

py::object frontier_of(const MemoryBudget& budget, int points) {
  std::optional<planner::Trace> trace = budget.trace();
  if (!trace) {
    return py::none();
  }
  std::vector<planner::Solution> frontier;
  std::int64_t least_bytes = 0;
  planner::Simulation plain;
  {
    const py::gil_scoped_release unlocked;
    planner::Planner planner(*trace);
    frontier = planner.frontier(points);
    least_bytes = planner.least_peak_bytes();
    plain = planner.simulator().run(planner::retain_all(*trace));
  }
  py::dict result;
  result["before_bytes"] = trace->bytes_before_step();
  result["plain_peak_bytes"] = plain.peak_bytes;
  result["plain_seconds"] = plain.seconds;
  result["least_bytes"] = least_bytes;
  py::list solutions;
  for (const planner::Solution& solution : frontier) {
    solutions.append(solution_dict(solution));
  }
  result["frontier"] = solutions;
  return result;
}

py::list largest_batches(const std::array<std::string, 2>& paths,
                         const std::array<std::int64_t, 2>& batches, std::int64_t peak_bytes,
                         const std::vector<double>& overheads) {
  std::vector<std::optional<planner::LargestBatch>> found;
  {
    const py::gil_scoped_release unlocked;
    const std::array traces{planner::read_trace(paths[0]), planner::read_trace(paths[1])};
    for (const double overhead : overheads) {
      found.push_back(planner::find_largest_batch(
          {.batch = batches[0], .trace = &traces[0]}, {.batch = batches[1], .trace = &traces[1]},
          {.peak_bytes = peak_bytes, .max_overhead = overhead}));
    }
  }
  py::list result;
  for (const std::optional<planner::LargestBatch>& each : found) {
    if (!each) {
      result.append(py::none());
      continue;
    }
    py::dict batch;
    batch["batch"] = each->batch;
    batch["peak_bytes"] = each->simulation.peak_bytes;
    batch["seconds"] = each->simulation.seconds;
    batch["plain_seconds"] = each->plain_seconds;
    result.append(batch);
  }
  return result;
}

py::dict picture_data(const planner::StepReport& report) {
  const planner::Simulator simulator(report.trace, report.stores);
  const MemoryTimeline memory = planner::memory_timeline(simulator, report.plan);
  py::dict result;
  result["memory"] = timeline_dict(report.trace, memory);
  result["plain"] = timeline_dict(
      report.trace, planner::memory_timeline(simulator, planner::retain_all(report.trace)));
  result["values"] = values_list(report.trace);
  result["backward_seconds"] = begin_of_backward(report.trace, memory);
  result["budget_bytes"] = report.budget_bytes;
  result["max_overhead"] = report.max_overhead;
  result["measured_peak_bytes"] = report.measured_peak_bytes;
  return result;
}

}  // namespace reprise::python
