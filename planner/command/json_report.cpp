// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/planner/command/json_report.h"

#include <cstddef>
#include <limits>
#include <nlohmann/json.hpp>

#include "reprise/planner/explanation/explanation.h"
#include "reprise/planner/explanation/outcome.h"
#include "reprise/planner/explanation/peak.h"

namespace reprise::planner_internal {
namespace {

using Json = nlohmann::ordered_json;
using planner::OperatorId;
using planner::Simulator;
using planner::Solution;
using planner::Trace;
using planner::ValueId;

Json operator_json(const Trace& trace, OperatorId op) {
  return {{"operator", op}, {"name", trace.operators[op].name}};
}

Json value_json(const Outcome& outcome, ValueId value) {
  const planner::Value& each = outcome.trace().values[value];
  return {{"value", value}, {"name", each.name}, {"bytes", each.bytes}};
}

Json choice_json(const Outcome& outcome, ValueId value) {
  const planner::Choice choice = outcome.plan().choices[value];
  Json json = value_json(outcome, value);
  json["fate"] = fate_name(outcome.fate(value));
  json["retained_from"] = choice.retained_from;
  if (outcome.fate(value) == Fate::kStored) {
    json["store"] = outcome.simulator().stores()[choice.store].name;
  }
  return json;
}

Json choices_json(const Outcome& outcome) {
  Json json = Json::array();
  for (ValueId value = 0; value < static_cast<ValueId>(outcome.trace().values.size()); ++value) {
    const Fate fate = outcome.fate(value);
    if (fate == Fate::kRetained || fate == Fate::kStored || fate == Fate::kRecomputed) {
      json.push_back(choice_json(outcome, value));
    }
  }
  return json;
}

Json reruns_json(const Outcome& outcome) {
  Json json = Json::array();
  for (OperatorId op = 0; op < outcome.trace().backward_begin; ++op) {
    if (outcome.reruns(op) > 0) {
      json.push_back(operator_json(outcome.trace(), op));
      json.back()["times"] = outcome.reruns(op);
      json.back()["seconds"] = outcome.reruns(op) * outcome.trace().operators[op].seconds;
    }
  }
  return json;
}

Json peak_json(const Outcome& outcome, const Solution& solution) {
  Json alive = Json::array();
  for (const ValueId value : largest_at_peak(outcome, std::numeric_limits<std::size_t>::max())) {
    alive.push_back(value_json(outcome, value));
    alive.back()["role"] = role_at_peak(outcome, value);
  }
  const planner::Simulation& simulation = solution.simulation;
  return {{"bytes", simulation.peak_bytes},
          {"at", operator_json(outcome.trace(), simulation.peak_operator)},
          {"during", operator_json(outcome.trace(), simulation.peak_during)},
          {"in_memory", alive}};
}

Json solution_json(const Findings& findings, const Simulator& simulator, const Solution& solution) {
  const Outcome outcome(simulator, solution.plan);
  return {{"peak_bytes", solution.simulation.peak_bytes},
          {"share", findings.share(solution.simulation.peak_bytes)},
          {"seconds", solution.simulation.seconds},
          {"recompute_seconds", solution.simulation.recompute_seconds},
          {"store_seconds", solution.simulation.store_seconds},
          {"bound_seconds", solution.bound_seconds},
          {"extra_time_percent", 100 * findings.extra_time(solution)},
          {"gap_percent", 100 * findings.gap(solution)},
          {"retained_bytes", outcome.bytes_of(Fate::kRetained)},
          {"recomputed_bytes", outcome.bytes_of(Fate::kRecomputed)},
          {"stored_bytes", stored_bytes(solution)},
          {"method", solution.method},
          {"peak", peak_json(outcome, solution)},
          {"reruns", reruns_json(outcome)},
          {"choices", choices_json(outcome)}};
}

Json explained_json(const Outcome& outcome, OperatorId op) {
  Json results = Json::array();
  for (const ValueId value : outcome.trace().operators[op].results) {
    const Explanation explanation = explain(outcome, value);
    Json json = value_json(outcome, value);
    json["fate"] = fate_name(outcome.fate(value));
    json["reason"] = reason(outcome, explanation);
    json["times_recomputed"] = explanation.times_recomputed;
    json["seconds_to_recompute"] = explanation.recomputation.seconds;
    json["operators_to_recompute"] = explanation.recomputation.operators;
    json["read_by"] = explanation.read_by;
    json["reread_by"] = explanation.reread_by;
    results.push_back(json);
  }
  Json json = operator_json(outcome.trace(), op);
  json["seconds"] = outcome.trace().operators[op].seconds;
  json["times_rerun"] = outcome.reruns(op);
  json["results"] = results;
  return json;
}

Json error_json(const Findings& findings, const Simulator& simulator) {
  const Outcome outcome(simulator, findings.smallest->plan);
  return {{"message", "no plan is found with a peak within the budget"},
          {"budget_bytes", *findings.budget_bytes},
          {"smallest_peak", solution_json(findings, simulator, *findings.smallest)},
          {"what_helps", advice(outcome, findings.smallest->simulation)}};
}

Json frontier_json(const Findings& findings, const Simulator& simulator) {
  Json json = Json::array();
  for (std::size_t i = 0; i < findings.frontier.size(); ++i) {
    json.push_back(solution_json(findings, simulator, findings.frontier[i]));
    json.back()["is_knee"] = i == findings.knee;
  }
  return json;
}

}  // namespace

std::string json_report(const Findings& findings, const Simulator& simulator,
                        const Arguments& arguments) {
  const Trace& trace = simulator.trace();
  Json json = {{"trace",
                {{"file", arguments.trace_file},
                 {"operators", trace.operators.size()},
                 {"backward_begin", trace.backward_begin},
                 {"seconds", findings.seconds},
                 {"peak_bytes", findings.peak_bytes},
                 {"bytes_before_step", findings.base_bytes}}}};
  if (findings.is_impossible()) {
    json["error"] = error_json(findings, simulator);
    return json.dump(2);
  }
  if (!findings.frontier.empty()) {
    json["frontier"] = frontier_json(findings, simulator);
  }
  if (findings.plan) {
    json["plan"] = solution_json(findings, simulator, *findings.plan);
  }
  if (findings.budget_bytes) {
    json["plan"]["budget_bytes"] = *findings.budget_bytes;
  }
  if (!arguments.explain.empty()) {
    const Outcome outcome(simulator, findings.subject()->plan);
    for (const OperatorId op : find_operators(trace, arguments.explain)) {
      json["explained"].push_back(explained_json(outcome, op));
    }
  }
  return json.dump(2);
}

}  // namespace reprise::planner_internal
