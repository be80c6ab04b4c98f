// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/planner/format/saved_step.h"

#include <algorithm>
#include <array>

#include "reprise/planner/format/amounts.h"
#include "reprise/planner/format/records.h"

namespace reprise::planner_internal {

using planner::kNone;

namespace {

using Record = JsonRecord;

constexpr const char* kStepFormat = "reprise-step";
constexpr std::array<const char*, 3> kBackwards = {"whole", "unfinished", "unobserved"};

Json header_of(const SavedStep& step) {
  const SavedStep defaults;
  Json header{{"format", kStepFormat}, {"version", kFormatVersion}};
  header["number"] = step.number;
  add_unless(header, "recordings", step.recordings, defaults.recordings);
  if (step.backward != defaults.backward) {
    header["backward"] = kBackwards.at(static_cast<std::size_t>(step.backward));
  }
  add_unless(header, "uses_stores", step.uses_stores, defaults.uses_stores);
  add_unless(header, "excess_bytes", step.excess_bytes, defaults.excess_bytes);
  if (step.least_excess_bytes) {
    header["least_excess_bytes"] = *step.least_excess_bytes;
  }
  add_unless(header, "excess_seconds", step.excess_seconds, defaults.excess_seconds);
  add_unless(header, "timed_steps", step.timed_steps, defaults.timed_steps);
  if (step.plan) {
    const SavedPlan plan;
    header["room_bytes"] = step.plan->room_bytes;
    add_unless(header, "peak_error_bytes", step.plan->peak_error_bytes, plan.peak_error_bytes);
    add_unless(header, "bound_seconds", step.plan->bound_seconds, plan.bound_seconds);
    add_unless(header, "smallest", step.plan->is_smallest, plan.is_smallest);
  }
  return header;
}

void read_header(Record& record, SavedStep& step) {
  constexpr std::int32_t kMostTimedSteps = 4;
  step.number = count_from(record, "number");
  step.recordings = count_from(record, "recordings");
  const std::string backward = record.string("backward", kBackwards.front());
  const auto* const it = std::find(kBackwards.begin(), kBackwards.end(), backward);
  if (it == kBackwards.end()) {
    record.fail("has an unknown backward \"" + backward + '"');
  }
  step.backward = static_cast<SavedBackward>(it - kBackwards.begin());
  step.uses_stores = record.boolean("uses_stores", true);
  step.excess_bytes = bytes_from(record, "excess_bytes", -kMostBytes);
  if (record.has("least_excess_bytes")) {
    step.least_excess_bytes = bytes_from(record, "least_excess_bytes", -kMostBytes);
  }
  step.excess_seconds = seconds_from(record, "excess_seconds", -kMostSeconds);
  step.timed_steps = count_from(record, "timed_steps", kMostTimedSteps);
  if (record.has("room_bytes")) {  // there is a plan
    step.plan.emplace();
    step.plan->room_bytes = bytes_from(record, "room_bytes", 0, kMostRoomBytes);
    step.plan->peak_error_bytes = bytes_from(record, "peak_error_bytes", -kMostBytes);
    step.plan->bound_seconds = seconds_from(record, "bound_seconds");
    step.plan->is_smallest = record.boolean("smallest", false);
  }
}

Json to_json(const SavedCall& call, std::size_t number) {
  const SavedCall defaults;
  Json object{{"call", number}, {"operator", call.op}};
  add_unless(object, "overload", call.overload, defaults.overload);
  add_unless(object, "seconds", call.seconds, defaults.seconds);
  add_unless(object, "bytes", call.bytes, defaults.bytes);
  return object;
}

Json to_json(const SavedResult& result, std::size_t number) {
  const SavedResult defaults;
  Json object{{"result", number}};
  add_unless(object, "value", result.value, defaults.value);
  add_unless(object, "bytes", result.bytes, defaults.bytes);
  add_unless(object, "until_call", result.until_call, defaults.until_call);
  return object;
}

void read_call(Record& record, SavedStep& step) {
  check_number(record, "call", step.calls.size());
  SavedCall& call = step.calls.emplace_back();
  call.op = record.string("operator", "");
  call.overload = record.string("overload", "");
  call.seconds = static_cast<float>(seconds_from(record, "seconds"));
  call.bytes = bytes_from(record, "bytes");
  call.end_result = step.results.size();
}

// total_bytes: of the results so far.
void read_result(Record& record, SavedStep& step, std::int64_t& total_bytes) {
  check_number(record, "result", step.results.size());
  if (step.calls.empty()) {
    record.fail("is of no call");
  }
  SavedResult& result = step.results.emplace_back();
  result.value = record.integer("value", kNone);
  if (result.value < kNone ||
      result.value >= static_cast<planner::ValueId>(step.trace.values.size())) {
    record.fail("has a value that does not exist");
  }
  result.bytes = bytes_from(record, "bytes", 0, kMostBytes - total_bytes);
  total_bytes += result.bytes;
  result.until_call = record.integer("until_call", std::uint32_t{0});
  if (result.until_call > 0 && result.until_call < step.calls.size()) {
    record.fail("stays until a call before the one that makes it");
  }
  step.calls.back().end_result = step.results.size();
}

}  // namespace

std::string step_to_section(const SavedStep& step) {
  std::string text = header_of(step).dump() + '\n';
  std::size_t result = 0;
  for (std::size_t call = 0; call < step.calls.size(); ++call) {
    text += to_json(step.calls[call], call).dump() + '\n';
    for (; result < step.calls[call].end_result; ++result) {
      text += to_json(step.results[result], result).dump() + '\n';
    }
  }
  return text;
}

void read_step_section(Section section, SavedStep& step) {
  std::int64_t total_bytes = 0;
  for_each_record(
      section, kStepFormat, [&](Record& record) { read_header(record, step); },
      [&](Record& record) {
        if (record.has("call")) {
          read_call(record, step);
        } else {
          read_result(record, step, total_bytes);
        }
      });
}

}  // namespace reprise::planner_internal
