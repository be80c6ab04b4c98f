// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/budget/step_transcript.h"

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "reprise/engine/budget/backward_forecast.h"
#include "reprise/engine/budget/backward_nodes.h"
#include "reprise/hooks/seam/owner_count.h"

namespace reprise::engine_internal {

using Why = Tape::Given::Why;

namespace {

bool is_valid(const planner::Trace& trace) {
  try {
    trace.validate();
    return true;
  } catch (const std::invalid_argument&) {
    return false;
  }
}

}  // namespace

void StepTranscript::note_releases(const Tape& tape) {
  for (const auto& [value, given] : tape.given) {
    if (given.why == Why::kPolicy && given.kept.alias.defined() && values_.contains(value) &&
        values_[value] != planner::kNone &&
        hooks_internal::storage_owner_count(given.kept.alias) == 1) {
      recorder().note_release(values_[value]);
    }
  }
}

void StepTranscript::note_out_of_sight(const Tape& tape) {
  for (const auto& [value, given] : tape.given) {
    if (given.why == Why::kOutOfSight && given.kept.alias.defined()) {
      recorder().note_once(given.kept.alias, RunsOnce::kOutOfSight);
    }
  }
}

void StepTranscript::note_made_once(TapeValueId value, const at::Tensor& tensor) {
  recorder().note_once(tensor, RunsOnce::kRefilledMemory);
  const auto known = std::find_if(script_.values.rbegin(), script_.values.rend(),
                                  [id = value_of(value)](const auto& each) {
                                    return each.id != planner::kNone && each.id == id;
                                  });
  if (known != script_.values.rend()) {
    known->is_made_once = true;
  }
}

float StepTranscript::add(const Tape::Operator& op, std::span<const TapeRetention::Result> results,
                          std::int64_t bytes) {
  const auto first = static_cast<std::uint32_t>(script_.values.size());
  for (const TapeRetention::Result& result : results) {
    const planner::ValueId id = recorder().value_of(result.tensor);
    script_.values.push_back({id, result.bytes});
    if (!values_.contains(result.value)) {
      values_.resize(result.value.number() + 1, planner::kNone);
    }
    values_[result.value] = id;
  }
  const auto seconds = static_cast<float>(recorder().last_seconds());
  operators_.push_back(recorder().last_operator());
  script_.calls.push_back(
      {op.op, first, static_cast<std::uint32_t>(script_.values.size()), seconds, bytes});
  return seconds;
}

void StepTranscript::end_forward(TapeRetention::ReadsOfNodes nodes) {
  recording_->end_forward();
  nodes_ = std::move(nodes);
}

void StepTranscript::note_read(TapeValueId value) {
  if (values_.contains(value)) {
    recorder().read(values_[value]);
  }
}

std::optional<planner::Trace> StepTranscript::foresee(
    const std::vector<hooks_internal::BackwardNode>& nodes, std::uint64_t thread,
    const Tape& tape) {
  absl::flat_hash_map<std::uint64_t, const TapeRetention::NodeReads*> awaited;  // by sequence
  for (const TapeRetention::NodeReads& node : nodes_) {
    awaited.emplace(node.sequence, &node);
  }
  planner::Trace trace = recorder().trace_of_forward();
  mark_evicted(trace, gone_values(trace, tape));
  mark_lost(trace, tape);
  append_backward(trace, nodes, [&](const hooks_internal::BackwardNode& node) {
    const auto found = node.thread == thread ? awaited.find(node.sequence) : awaited.end();
    if (found == awaited.end()) {
      return std::vector<planner::ValueId>();
    }
    const TapeRetention::NodeReads* const reads = found->second;
    awaited.erase(found);
    return values_of(*reads);
  });
  for (const TapeRetention::NodeReads& node : nodes_) {
    if (awaited.contains(node.sequence)) {
      trace.operators.push_back(
          {.name = "a node of another backward", .can_recompute = false, .reads = values_of(node)});
    }
  }
  if (!is_valid(trace)) {
    return std::nullopt;
  }
  forecast_ = without_evictions(trace);
  return trace;
}

std::optional<planner::Trace> StepTranscript::expected() {
  planner::Trace trace = forecast_ ? *forecast_ : expected_from_reads();
  correct_forecast(trace, recorder().ended_nodes());
  return is_valid(trace) ? std::optional(std::move(trace)) : std::nullopt;
}

planner::Trace StepTranscript::expected_from_reads() {
  planner::Trace trace = recorder().trace_of_forward();
  append_reading_nodes(trace);
  return trace;
}

// Of a backward whose graph is not known: the gradients of each node are taken to be as large as
// the largest value that it reads.
void StepTranscript::append_reading_nodes(planner::Trace& trace) const {
  std::vector<hooks_internal::BackwardNode> nodes;
  for (const TapeRetention::NodeReads& node : nodes_) {
    std::int64_t bytes = 0;
    for (const planner::ValueId value : values_of(node)) {
      bytes = std::max(bytes, trace.values[value].bytes);
    }
    nodes.push_back({.name = "a node of an unknown graph",
                     .thread = 0,
                     .sequence = nodes.size(),
                     .gradients = {{0, nodes.size(), 0, bytes, /*dims=*/1}},
                     .keeps_gradient = false});
  }
  append_backward(trace, nodes, [&](const hooks_internal::BackwardNode& node) {
    return values_of(nodes_[node.sequence]);
  });
}

// Returns, by value of the trace, those that the tape no longer holds.
std::vector<bool> StepTranscript::gone_values(const planner::Trace& trace, const Tape& tape) const {
  std::vector<bool> is_gone(trace.values.size());
  for (const TapeValueId value : values_.ids()) {
    if (values_[value] != planner::kNone && !tape.given.contains(value)) {
      is_gone[values_[value]] = true;
    }
  }
  return is_gone;
}

// What has read memory that has been overwritten since cannot run again.
void StepTranscript::mark_lost(planner::Trace& trace, const Tape& tape) const {
  const auto is_lost = [&](TapeValueId value) {
    const auto given = tape.given.find(value);
    return given != tape.given.end() && given->second.lost;
  };
  const bool has_lost = std::any_of(tape.given.begin(), tape.given.end(),
                                    [&](const auto& entry) { return is_lost(entry.first); });
  if (!has_lost) {
    return;
  }
  const std::vector<planner::OperatorId> producers = trace.producers();
  for (const Tape::Operator& op : tape.operators) {
    bool reads_lost = false;
    tape.for_each_use(op, [&](TapeValueId use) { reads_lost = reads_lost || is_lost(use); });
    tape.for_each_outcome(op, [&](TapeValueId outcome) {
      const planner::ValueId id = value_of(outcome);
      if (reads_lost && id != planner::kNone && producers[id] != planner::kNone) {
        trace.operators[producers[id]].can_recompute = false;
      }
    });
  }
}

std::vector<planner::ValueId> StepTranscript::values_of(
    const TapeRetention::NodeReads& node) const {
  std::vector<planner::ValueId> values;
  for (const TapeValueId value : node.values) {
    if (const planner::ValueId id = value_of(value); id != planner::kNone) {
      values.push_back(id);
    }
  }
  return values;
}

// By backwards inside forward.
void StepTranscript::note_reads_for_gradients(const planner::Trace& trace,
                                              const absl::flat_hash_set<planner::ValueId>& read) {
  for (StepScript::Value& value : script_.values) {
    if (read.contains(value.id) && !trace.is_held(value.id)) {
      const auto next =
          std::upper_bound(operators_.begin(), operators_.end(), trace.values[value.id].released);
      value.until_call = static_cast<std::uint32_t>(next - operators_.begin());
    }
  }
}

std::optional<RecordedStep> StepTranscript::finish(RecordedBackward backward, bool keeps_graph) {
  std::optional<planner::Trace> expected_trace;
  if (backward != RecordedBackward::kWhole && !(expected_trace = expected())) {
    return std::nullopt;
  }
  const absl::flat_hash_set<planner::ValueId> read = recorder().read_for_gradients();
  planner::Trace trace = recording_->finish();
  recording_.reset();
  if (expected_trace) {
    trace = *std::move(expected_trace);
  } else if (keeps_graph) {  // a backward of weights, after that of inputs, may come to fewer nodes
    append_reading_nodes(trace);
  }
  note_reads_for_gradients(trace, read);
  RecordedStep recorded{std::move(script_), std::move(trace), backward};
  if (!is_valid(recorded.trace)) {
    return std::nullopt;
  }
  recorded.script.nodes = needs_of_nodes(recorded.trace);
  return recorded;
}

}  // namespace reprise::engine_internal
