// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/budget/step_transcript.h"

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "reprise/engine/budget/backward_nodes.h"

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
        values_[value] != planner::kNone && given.kept.alias.storage().use_count() == 1) {
      recorder().note_release(values_[value]);
    }
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
  script_.calls.push_back(
      {op.op, first, static_cast<std::uint32_t>(script_.values.size()), seconds, bytes});
  return seconds;
}

void StepTranscript::end_forward(TapeRetention::ReadsOfNodes nodes) {
  recording_->end_forward();
  nodes_ = std::move(nodes);
  reads_.resize(values_.size());
}

void StepTranscript::note_read(TapeValueId value) {
  if (values_.contains(value)) {
    recorder().read(values_[value]);
  }
  if (reads_.contains(value)) {
    ++reads_[value];
  }
}

// Of those that read the same values, the first ones count as run.
void StepTranscript::add_remaining_nodes() {
  for (const std::vector<TapeValueId>& node : nodes_) {
    const bool has_run =
        std::all_of(node.begin(), node.end(), [this](TapeValueId value) { return is_read(value); });
    std::vector<planner::ValueId> values;
    for (const TapeValueId value : node) {
      if (reads_.contains(value)) {
        reads_[value] -= has_run ? 1 : 0;
        values.push_back(values_[value]);
      }
    }
    if (!has_run) {
      recorder().add_node(values);
    }
  }
}

std::optional<RecordedStep> StepTranscript::finish(RecordedBackward backward) {
  if (backward != RecordedBackward::kWhole) {
    add_remaining_nodes();
  }
  RecordedStep recorded{std::move(script_), recording_->finish(), backward};
  recording_.reset();
  if (!is_valid(recorded.trace)) {
    return std::nullopt;
  }
  recorded.script.nodes = needs_of_nodes(recorded.trace);
  return recorded;
}

}  // namespace reprise::engine_internal
