// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/planner/format/trace_section.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <stdexcept>

#include "reprise/planner/format/records.h"

namespace reprise::planner_internal {

using planner::Choice;
using planner::kNone;
using planner::Operator;
using planner::OperatorId;
using planner::Plan;
using planner::Trace;
using planner::Value;
using planner::ValueId;
using planner::ValueKind;

namespace {

using Record = JsonRecord;

constexpr const char* kTraceFormat = "reprise-trace";
constexpr const char* kPlanFormat = "reprise-plan";
constexpr std::array<const char*, 5> kKinds = {"activation", "parameter", "input", "gradient",
                                               "other"};

Json to_json(const Value& value, std::size_t number) {
  const Value defaults;
  Json object{{"value", number}};
  add_unless(object, "bytes", value.bytes, defaults.bytes);
  add_unless(object, "released", value.released, defaults.released);
  add_unless(object, "overwrites", value.overwrites, defaults.overwrites);
  add_unless(object, "evicted", value.is_evicted, defaults.is_evicted);
  if (value.kind != defaults.kind) {
    object["kind"] = kKinds.at(static_cast<std::size_t>(value.kind));
  }
  add_unless(object, "name", value.name, defaults.name);
  return object;
}

Json to_json(const Operator& op, std::size_t number) {
  const Operator defaults;
  Json object{{"operator", number}};
  add_unless(object, "name", op.name, defaults.name);
  if (op.seconds != defaults.seconds || std::signbit(op.seconds)) {
    object["seconds"] = op.seconds;
  }
  add_unless(object, "workspace_bytes", op.workspace_bytes, defaults.workspace_bytes);
  add_unless(object, "can_recompute", op.can_recompute, defaults.can_recompute);
  add_unless(object, "reads", op.reads, defaults.reads);
  add_unless(object, "results", op.results, defaults.results);
  add_unless(object, "stack", op.stack, defaults.stack);
  add_unless(object, "once", op.once, defaults.once);
  return object;
}

Value value_from(Record& record) {
  const Value defaults;
  Value value;
  value.bytes = record.integer("bytes", defaults.bytes);
  value.released = record.integer("released", defaults.released);
  value.overwrites = record.integer("overwrites", defaults.overwrites);
  value.is_evicted = record.boolean("evicted", defaults.is_evicted);
  const std::string kind = record.string("kind", kKinds.front());
  const auto* const it = std::find(kKinds.begin(), kKinds.end(), kind);
  if (it == kKinds.end()) {
    record.fail("has an unknown kind \"" + kind + '"');
  }
  value.kind = static_cast<ValueKind>(it - kKinds.begin());
  value.name = record.string("name", "");
  return value;
}

Operator operator_from(Record& record) {
  const Operator defaults;
  Operator op;
  op.name = record.string("name", "");
  op.seconds = record.real("seconds", defaults.seconds);
  op.workspace_bytes = record.integer("workspace_bytes", defaults.workspace_bytes);
  op.can_recompute = record.boolean("can_recompute", defaults.can_recompute);
  op.reads = record.integers("reads");
  op.results = record.integers("results");
  op.stack = record.string("stack", "");
  op.once = record.string("once", "");
  return op;
}

}  // namespace

Section take_section(Section& rest) {
  std::size_t end = rest.text.find("\n{\"format\":");
  end = end == std::string_view::npos ? rest.text.size() : end + 1;
  const Section section{.text = rest.text.substr(0, end), .line = rest.line};
  rest.text.remove_prefix(end);
  rest.line += static_cast<std::size_t>(std::count(section.text.begin(), section.text.end(), '\n'));
  return section;
}

std::string trace_to_section(const Trace& trace) {
  trace.validate();
  const Json header{{"format", kTraceFormat},
                    {"version", kFormatVersion},
                    {"backward_begin", trace.backward_begin}};
  std::string text = header.dump() + '\n';
  try {
    for (std::size_t i = 0; i < trace.values.size(); ++i) {
      text += to_json(trace.values[i], i).dump() + '\n';
    }
    for (std::size_t i = 0; i < trace.operators.size(); ++i) {
      text += to_json(trace.operators[i], i).dump() + '\n';
    }
  } catch (const Json::type_error&) {
    throw std::invalid_argument("trace: a name or a stack is not UTF-8");
  }
  return text;
}

Trace trace_from_section(Section section) {
  Trace trace;
  for_each_record(
      section, kTraceFormat,
      [&](Record& record) {
        trace.backward_begin = record.integer("backward_begin", OperatorId{});
      },
      [&](Record& record) {
        if (record.has("value")) {
          check_number(record, "value", trace.values.size());
          trace.values.push_back(value_from(record));
        } else {
          check_number(record, "operator", trace.operators.size());
          trace.operators.push_back(operator_from(record));
        }
      });
  trace.validate();
  return trace;
}

std::string plan_to_section(const Plan& plan) {
  const Json header{
      {"format", kPlanFormat}, {"version", kFormatVersion}, {"values", plan.choices.size()}};
  std::string text = header.dump() + '\n';
  const Choice defaults;
  for (std::size_t i = 0; i < plan.choices.size(); ++i) {
    const Choice& choice = plan.choices[i];
    if (choice != defaults) {
      Json object{{"value", i}};
      add_unless(object, "retained_from", choice.retained_from, defaults.retained_from);
      add_unless(object, "store", choice.store, defaults.store);
      text += object.dump() + '\n';
    }
  }
  return text;
}

Plan plan_from_section(Section section, const Trace& trace) {
  Plan plan(trace);
  ValueId previous = kNone;
  for_each_record(
      section, kPlanFormat,
      [&](Record& record) { check_number(record, "values", trace.values.size()); },
      [&](Record& record) {
        const ValueId value = record.integer("value", kNone);
        if (value <= previous || value >= static_cast<ValueId>(plan.choices.size())) {
          record.fail("has a value that does not exist, or is not in order");
        }
        previous = value;
        Choice& choice = plan.choices[value];
        choice.retained_from = record.integer("retained_from", choice.retained_from);
        choice.store = record.integer("store", choice.store);
        if (choice.store < kNone) {
          record.fail("has a store that does not exist");
        }
      });
  return plan;
}

}  // namespace reprise::planner_internal
