// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/planner/step_report.h"

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <vector>

#include "reprise/planner/format/records.h"
#include "reprise/planner/format/text_file.h"
#include "reprise/planner/format/trace_section.h"
#include "reprise/planner/simulator.h"

namespace reprise::planner {
namespace {

using planner_internal::add_unless;
using planner_internal::Json;
using planner_internal::Section;
using planner_internal::take_section;
using Record = planner_internal::JsonRecord;

Json to_json(const StoreOption& store, std::size_t number) {
  const StoreOption defaults;
  Json object{{"store", number}};
  add_unless(object, "name", store.name, defaults.name);
  add_unless(object, "retained_fraction", store.retained_fraction, defaults.retained_fraction);
  add_unless(object, "retained_fractions", store.retained_fractions, defaults.retained_fractions);
  add_unless(object, "put_seconds_per_byte", store.put_seconds_per_byte,
             defaults.put_seconds_per_byte);
  add_unless(object, "get_seconds_per_byte", store.get_seconds_per_byte,
             defaults.get_seconds_per_byte);
  add_unless(object, "latency_seconds", store.latency_seconds, defaults.latency_seconds);
  add_unless(object, "overlapped", store.is_overlapped, defaults.is_overlapped);
  add_unless(object, "smallest_bytes", store.smallest_bytes, defaults.smallest_bytes);
  add_unless(object, "capacity_bytes", store.capacity_bytes, defaults.capacity_bytes);
  return object;
}

StoreOption store_from(Record& record) {
  const StoreOption defaults;
  StoreOption store;
  store.name = record.string("name", "");
  store.retained_fraction = record.real("retained_fraction", defaults.retained_fraction);
  for (const double each : record.reals("retained_fractions")) {
    store.retained_fractions.push_back(static_cast<float>(each));
  }
  store.put_seconds_per_byte = record.real("put_seconds_per_byte", defaults.put_seconds_per_byte);
  store.get_seconds_per_byte = record.real("get_seconds_per_byte", defaults.get_seconds_per_byte);
  store.latency_seconds = record.real("latency_seconds", defaults.latency_seconds);
  store.is_overlapped = record.boolean("overlapped", defaults.is_overlapped);
  store.smallest_bytes = record.integer("smallest_bytes", defaults.smallest_bytes);
  store.capacity_bytes = record.integer("capacity_bytes", defaults.capacity_bytes);
  return store;
}

std::optional<std::int64_t> bytes_from(Record& record, const char* key) {
  return record.has(key) ? std::optional(record.integer(key, std::int64_t{0})) : std::nullopt;
}

void require(bool holds, const std::string& what) {
  if (!holds) {
    throw std::invalid_argument("report: " + what);
  }
}

bool is_amount(double number) { return number >= 0 && number <= 0x1p60; }

void validate(const StoreOption& store, std::size_t values) {
  const std::string subject = "store \"" + store.name + "\" has ";
  require(is_amount(store.put_seconds_per_byte) && is_amount(store.get_seconds_per_byte) &&
              is_amount(store.latency_seconds),
          subject + "a time that is negative or not finite");
  require(store.smallest_bytes >= 0 && store.capacity_bytes >= 0, subject + "a negative size");
  const auto is_fraction = [](double number) { return number >= 0 && number <= 1; };
  require(is_fraction(store.retained_fraction) &&
              std::all_of(store.retained_fractions.begin(), store.retained_fractions.end(),
                          is_fraction),
          subject + "a fraction that is not between 0 and 1");
  require(store.retained_fractions.empty() || store.retained_fractions.size() == values,
          subject + "not as many fractions as there are values");
}

void validate(const StepReport& report) {
  for (const StoreOption& store : report.stores) {
    validate(store, report.trace.values.size());
  }
  require(report.budget_bytes.value_or(0) >= 0 && report.measured_peak_bytes.value_or(0) >= 0,
          "a number of bytes is negative");
  require(is_amount(report.max_overhead.value_or(0)), "max_overhead is negative or not finite");
  require(Simulator(report.trace, report.stores).run(report.plan).is_valid,
          "the plan needs a value that it does not have, or a store does not take a value");
}

void read_facts(Section section, StepReport& report) {
  planner_internal::for_each_record(
      section, planner_internal::kReportFormat,
      [&](Record& record) {
        report.budget_bytes = bytes_from(record, "budget_bytes");
        report.measured_peak_bytes = bytes_from(record, "measured_peak_bytes");
        if (record.has("max_overhead")) {
          report.max_overhead = record.real("max_overhead", 0);
        }
      },
      [&](Record& record) {
        planner_internal::check_number(record, "store", report.stores.size());
        report.stores.push_back(store_from(record));
      });
}

}  // namespace

std::string to_text(const StepReport& report) {
  validate(report);
  Json header{{"format", planner_internal::kReportFormat},
              {"version", planner_internal::kFormatVersion}};
  const auto add = [&](const char* key, const auto& member) {
    if (member) {
      header[key] = *member;
    }
  };
  add("budget_bytes", report.budget_bytes);
  add("max_overhead", report.max_overhead);
  add("measured_peak_bytes", report.measured_peak_bytes);
  std::string text = header.dump() + '\n';
  try {
    for (std::size_t store = 0; store < report.stores.size(); ++store) {
      text += to_json(report.stores[store], store).dump() + '\n';
    }
  } catch (const Json::type_error&) {
    throw std::invalid_argument("report: a name is not UTF-8");
  }
  return text + planner_internal::trace_to_section(report.trace) +
         planner_internal::plan_to_section(report.plan);
}

StepReport report_from_text(std::string_view text) {
  StepReport report;
  Section rest{.text = text};
  read_facts(take_section(rest), report);
  report.trace = planner_internal::trace_from_section(take_section(rest));
  report.plan = planner_internal::plan_from_section(rest, report.trace);
  validate(report);
  return report;
}

void write_report(const StepReport& report, const std::string& path) {
  planner_internal::write_file(to_text(report), path);
}
StepReport read_report(const std::string& path) {
  return report_from_text(planner_internal::read_file(path));
}

}  // namespace reprise::planner
