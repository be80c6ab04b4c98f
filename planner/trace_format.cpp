// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/planner/trace_format.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <stdexcept>

#include "reprise/planner/format/json_record.h"

namespace reprise::planner {
namespace {

using planner_internal::Json;
using Record = planner_internal::JsonRecord;

constexpr int kVersion = 1;
constexpr const char* kTraceFormat = "reprise-trace";
constexpr const char* kPlanFormat = "reprise-plan";
constexpr std::array<const char*, 5> kKinds = {"activation", "parameter", "input", "gradient",
                                               "other"};

// Calls `visitor(record)` for the object of each line after the header, and `header(record)` for
// that.
void for_each_record(std::string_view text, const char* format, const auto& header,
                     const auto& visitor) {
  std::size_t line = 0;
  do {
    const std::size_t end = std::min(text.find('\n'), text.size());
    Record record(text.substr(0, end), ++line);
    if (line == 1) {
      if (record.string("format", "") != format) {
        record.fail("is not the header of a " + std::string(format));
      }
      if (const auto version = record.integer<std::int64_t>("version", 0); version != kVersion) {
        record.fail("has version " + std::to_string(version) + ", not " + std::to_string(kVersion));
      }
      header(record);
    } else {
      visitor(record);
    }
    record.finish();
    text.remove_prefix(std::min(end + 1, text.size()));
  } while (!text.empty());
}

template <typename Member>
void add_unless(Json& object, const char* key, const Member& member, const Member& otherwise) {
  if (member != otherwise) {
    object[key] = member;
  }
}

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
  return object;
}

void check_number(Record& record, const char* key, std::size_t expected) {
  if (record.integer<std::int64_t>(key, kNone) != static_cast<std::int64_t>(expected)) {
    record.fail("is not " + std::string(key) + ' ' + std::to_string(expected));
  }
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
  return op;
}

void write(const std::string& text, const std::string& path) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) {
    throw std::runtime_error("cannot write " + path);
  }
}

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text;
  std::array<char, 1 << 16> buffer;
  while (file.read(buffer.data(), buffer.size()) || file.gcount() > 0) {
    text.append(buffer.data(), static_cast<std::size_t>(file.gcount()));
  }
  if (!file.eof() || file.bad()) {
    throw std::runtime_error("cannot read " + path);
  }
  return text;
}

}  // namespace

std::string to_text(const Trace& trace) {
  trace.validate();
  const Json header{
      {"format", kTraceFormat}, {"version", kVersion}, {"backward_begin", trace.backward_begin}};
  std::string text = header.dump() + '\n';
  try {
    for (std::size_t i = 0; i < trace.values.size(); ++i) {
      text += to_json(trace.values[i], i).dump() + '\n';
    }
    for (std::size_t i = 0; i < trace.operators.size(); ++i) {
      text += to_json(trace.operators[i], i).dump() + '\n';
    }
  } catch (const Json::type_error&) {
    throw std::invalid_argument("trace: a name is not UTF-8");
  }
  return text;
}

Trace trace_from_text(std::string_view text) {
  Trace trace;
  for_each_record(
      text, kTraceFormat,
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

std::string to_text(const Plan& plan) {
  const Json header{
      {"format", kPlanFormat}, {"version", kVersion}, {"values", plan.choices.size()}};
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

Plan plan_from_text(std::string_view text, const Trace& trace) {
  Plan plan(trace);
  ValueId previous = kNone;
  for_each_record(
      text, kPlanFormat,
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

void write_trace(const Trace& trace, const std::string& path) { write(to_text(trace), path); }
Trace read_trace(const std::string& path) { return trace_from_text(read(path)); }
void write_plan(const Plan& plan, const std::string& path) { write(to_text(plan), path); }
Plan read_plan(const std::string& path, const Trace& trace) {
  return plan_from_text(read(path), trace);
}

}  // namespace reprise::planner
