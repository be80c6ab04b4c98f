// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/planner/format/saved_plans.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "reprise/planner/format/amounts.h"
#include "reprise/planner/format/records.h"
#include "reprise/planner/format/trace_section.h"
#include "reprise/planner/simulator.h"

namespace reprise::planner_internal {
namespace {

using planner::Choice;
using planner::kNone;
using Record = JsonRecord;

constexpr const char* kPlansFormat = "reprise-plans";

Json to_json(const SavedSample& sample) {
  const SavedSample defaults;
  Json object{{"kind", sample.kind}};
  add_unless(object, "store", sample.store, defaults.store);
  add_unless(object, "samples", sample.samples, defaults.samples);
  add_unless(object, "fraction", sample.fraction, defaults.fraction);
  add_unless(object, "bytes", sample.bytes, defaults.bytes);
  add_unless(object, "retained_bytes", sample.retained_bytes, defaults.retained_bytes);
  add_unless(object, "call_seconds", sample.call_seconds, defaults.call_seconds);
  add_unless(object, "put_seconds", sample.put_seconds, defaults.put_seconds);
  add_unless(object, "get_seconds", sample.get_seconds, defaults.get_seconds);
  add_unless(object, "needs_successor", sample.needs_successor, defaults.needs_successor);
  add_unless(object, "copies_on_device", sample.copies_on_device, defaults.copies_on_device);
  return object;
}

// Few bytes, of which sums do not overflow, and no times per byte that are out of all proportion.
SavedSample sample_from(Record& record) {
  constexpr std::int64_t kMostSampleBytes = std::int64_t{1} << 40;
  constexpr double kMostSecondsPerByte = 1e-3;
  SavedSample sample;
  sample.kind = record.string("kind", "");
  sample.store = count_from(record, "store");
  sample.samples = count_from(record, "samples");
  sample.fraction = static_cast<float>(seconds_from(record, "fraction", 0, kMostCount));
  sample.bytes = bytes_from(record, "bytes", 0, kMostSampleBytes);
  sample.retained_bytes = bytes_from(record, "retained_bytes", 0, kMostSampleBytes);
  const double most_seconds = kMostSecondsPerByte * static_cast<double>(sample.bytes);
  sample.call_seconds = seconds_from(record, "call_seconds", 0, most_seconds);
  sample.put_seconds = seconds_from(record, "put_seconds", 0, most_seconds);
  sample.get_seconds = seconds_from(record, "get_seconds", 0, most_seconds);
  sample.needs_successor = record.boolean("needs_successor", false);
  sample.copies_on_device = record.boolean("copies_on_device", false);
  return sample;
}

Json header_of(const SavedPlans& plans) {
  Json header{{"format", kPlansFormat}, {"version", kFormatVersion}};
  header["device"] = plans.device;
  add_unless(header, "torch", plans.torch, {});
  add_unless(header, "reprise", plans.reprise, {});
  add_unless(header, "peak_bytes", plans.peak_bytes, std::int64_t{0});
  if (plans.max_overhead) {
    header["max_overhead"] = *plans.max_overhead;
  }
  add_unless(header, "bytes_before_step", plans.bytes_before_step, std::int64_t{0});
  add_unless(header, "stores", plans.stores, 0);
  header["steps"] = plans.steps.size();
  return header;
}

// Returns the number of steps.
std::int32_t read_header(Record& record, SavedPlans& plans) {
  plans.device = record.string("device", "");
  plans.torch = record.string("torch", "");
  plans.reprise = record.string("reprise", "");
  plans.peak_bytes = bytes_from(record, "peak_bytes", 0, INT64_MAX);
  if (record.has("max_overhead")) {
    plans.max_overhead = seconds_from(record, "max_overhead");
  }
  plans.bytes_before_step = bytes_from(record, "bytes_before_step");
  plans.stores = count_from(record, "stores", INT8_MAX);
  return count_from(record, "steps");
}

std::int32_t read_budget(Section section, SavedPlans& plans) {
  std::int32_t steps = 0;
  for_each_record(
      section, kPlansFormat, [&](Record& record) { steps = read_header(record, plans); },
      [&](Record& record) {
        SavedSample sample = sample_from(record);
        const std::size_t position = plans.samples.size();
        const auto stores = static_cast<std::size_t>(plans.stores);
        if (stores == 0 || static_cast<std::size_t>(sample.store) != position % stores) {
          record.fail("has a store that does not exist, or is not in order");
        }
        if (sample.store > 0 && sample.kind != plans.samples.back().kind) {
          record.fail("is of another kind than the store before");
        }
        plans.samples.push_back(std::move(sample));
      });
  if (plans.stores > 0 && plans.samples.size() % static_cast<std::size_t>(plans.stores) != 0) {
    throw std::invalid_argument("plans: the last kind has not as many samples as there are stores");
  }
  return steps;
}

void require(bool holds, std::size_t step, const char* reason) {
  if (!holds) {
    throw std::invalid_argument("plans: step " + std::to_string(step) + ' ' + reason);
  }
}

void validate(const SavedStep& step, std::size_t position, std::int32_t stores) {
  require(!step.trace.operators.empty() && !step.trace.values.empty(), position,
          "has no operators or no values");
  for (const SavedResult& result : step.results) {
    require(result.until_call <= step.calls.size(), position,
            "has a result that stays until a call that does not exist");
  }
  if (!step.plan) {
    return;
  }
  bool has_stored = false;
  for (const Choice& choice : step.plan->choices.choices) {
    const bool is_stored = choice.store != kNone;
    require(!is_stored || (choice.store < stores && choice.is_retained()), position,
            "puts a value into a store that does not exist, or that is not retained");
    has_stored = has_stored || is_stored;
  }
  require(has_stored || planner::Simulator(step.trace).run(step.plan->choices).is_valid, position,
          "has a plan that needs a value which it does not have");
}

// Each number is there once.
void validate_numbers(const std::vector<SavedStep>& steps) {
  std::vector<bool> is_taken(steps.size());
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const auto number = static_cast<std::size_t>(steps[i].number);
    require(number < steps.size() && !is_taken[number], i,
            "has a number that is taken, or not below that of the steps");
    is_taken[number] = true;
  }
}

}  // namespace

std::string to_text(const SavedPlans& plans) {
  try {
    std::string text = header_of(plans).dump() + '\n';
    for (const SavedSample& sample : plans.samples) {
      text += to_json(sample).dump() + '\n';
    }
    for (const SavedStep& step : plans.steps) {
      text += trace_to_section(step.trace) + step_to_section(step);
      text += step.plan ? plan_to_section(step.plan->choices) : "";
    }
    return text;
  } catch (const Json::type_error&) {
    throw std::invalid_argument("plans: a name is not UTF-8");
  }
}

SavedPlans saved_plans_from_text(std::string_view text) {
  SavedPlans plans;
  Section rest{.text = text};
  const std::int32_t steps = read_budget(take_section(rest), plans);
  for (std::int32_t i = 0; i < steps; ++i) {
    SavedStep& step = plans.steps.emplace_back();
    step.trace = trace_from_section(take_section(rest));
    read_step_section(take_section(rest), step);
    if (step.plan) {
      step.plan->choices = plan_from_section(take_section(rest), step.trace);
    }
    validate(step, static_cast<std::size_t>(i), plans.stores);
  }
  if (!rest.text.empty()) {
    throw std::invalid_argument("line " + std::to_string(rest.line) + " is after the last step");
  }
  validate_numbers(plans.steps);
  return plans;
}

}  // namespace reprise::planner_internal
