// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Plans of memory budgets as text: refused, or read, written, and without what does not exist.
#include <cstddef>
#include <cstdint>
#include <stdexcept>

#include "reprise/planner/format/saved_plans.h"
#include "reprise/planner/plan.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/planned_step.h"

namespace reprise::fuzz {
namespace {

using namespace planner_internal;

void check(const SavedStep& step, std::int32_t stores) {
  check_text(step.trace);
  std::size_t end = 0;
  for (const SavedCall& call : step.calls) {
    require(call.end_result >= end, "results of calls follow each other");
    end = call.end_result;
  }
  require(end == step.results.size(), "each result is a call's");
  const auto values = static_cast<planner::ValueId>(step.trace.values.size());
  for (const SavedResult& result : step.results) {
    require(result.value >= planner::kNone && result.value < values, "a result's value exists");
    require(result.bytes >= 0 && result.until_call <= step.calls.size(), "a result is in range");
  }
  if (step.plan) {
    require(step.plan->choices.choices.size() == step.trace.values.size(), "a choice per value");
    for (const planner::Choice& choice : step.plan->choices.choices) {
      require(choice.store >= planner::kNone && choice.store < stores, "a store exists");
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto plans =
      accepted<std::invalid_argument>([&] { return saved_plans_from_text(text_of(data, size)); },
                                      {"line ", "trace: ", "plan: ", "plans: "});
  if (plans) {
    const std::string text = to_text(*plans);
    require(to_text(saved_plans_from_text(text)) == text, "plans read back");
    for (const SavedStep& step : plans->steps) {
      check(step, plans->stores);
    }
  }
  return 0;
}

}  // namespace reprise::fuzz
