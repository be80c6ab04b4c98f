// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Amounts and stores as arguments of reprise_plan: finite and not negative, or a usage error.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>

#include "reprise/planner/command/quantities.h"
#include "reprise/planner/command/store_argument.h"
#include "tests/fuzz/input.h"

namespace reprise::fuzz {
namespace {

using planner::StoreOption;

bool is_amount(auto number) { return std::isfinite(number) && number >= 0; }

void check(const StoreOption& store) {
  require(!store.name.empty(), "a store has a name");
  require(is_amount(store.put_seconds_per_byte) && is_amount(store.get_seconds_per_byte),
          "a store's rates are finite");
  require(is_amount(store.latency_seconds), "a store's latency is finite");
  require(store.smallest_bytes >= 0 && store.capacity_bytes >= 0, "a store's bytes are positive");
  require(store.retained_fraction >= 0 && store.retained_fraction <= 1, "a share is at most 1");
}

void check(const planner_internal::Budget& budget) {
  const std::int64_t bytes = budget.resolve(1000, 1 << 30);
  require(budget.bytes ? bytes == *budget.bytes && bytes >= 0 : bytes >= 1000 && bytes <= 1 << 30,
          "a budget is an amount, or a share of the step's bytes");
}

// Calls `check` with what `parse` makes of the text, if that accepts it.
void parse_with(const auto& parse, const std::string& text, const auto& check) {
  if (const auto found =
          accepted<planner_internal::UsageError>([&] { return parse(text); }, {"'", "--"})) {
    check(*found);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace planner_internal;
  const std::string text(text_of(data, size));
  const auto check_amount = [](auto number) { require(is_amount(number), "an amount"); };
  parse_with(parse_bytes, text, check_amount);
  parse_with(parse_seconds, text, check_amount);
  parse_with(parse_seconds_per_byte, text, check_amount);
  parse_with(parse_number, text, check_amount);
  parse_with(parse_budget, text, [](const Budget& budget) { check(budget); });
  parse_with(parse_store, text, [](const StoreOption& store) { check(store); });
  return 0;
}

}  // namespace reprise::fuzz
