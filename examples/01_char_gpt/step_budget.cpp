// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "step_budget.h"

#include <algorithm>
#include <cstdint>
#include <sstream>

#include "memory.h"

namespace char_gpt {
namespace {

std::int64_t part_of_plain(double fraction, const std::vector<Measurement>& measurements) {
  const auto plain = std::find_if(measurements.begin(), measurements.end(), [](const auto& each) {
    return each.variant == &all_variants().front() && !each.out_of_memory;
  });
  if (plain == measurements.end()) {
    throw UsageError(
        "a --budget that is a fraction is one of the memory of the variant none, which does not "
        "fit or does not stand before budget in --variants; give bytes, such as 200MB");
  }
  const auto step_bytes = static_cast<double>(plain->peak_bytes - plain->state_bytes);
  return plain->trained_state_bytes + static_cast<std::int64_t>(fraction * step_bytes);
}

}  // namespace

std::unique_ptr<reprise::MemoryBudget> make_budget(const Options& options,
                                                   const std::vector<Measurement>& measurements) {
  if (options.device != "cpu") {
    throw UsageError("the variant budget works for --device cpu only");
  }
  const std::int64_t bytes = options.budget.bytes
                                 ? *options.budget.bytes
                                 : part_of_plain(options.budget.fraction, measurements);
  return std::make_unique<reprise::MemoryBudget>(reprise::MemoryBudgetOptions{.peak_bytes = bytes});
}

std::string budget_text(const Options& options) {
  if (options.budget.bytes) {
    return mebibytes_text(*options.budget.bytes);
  }
  std::ostringstream text;
  text << 100 * options.budget.fraction << " %";
  return text.str();
}

}  // namespace char_gpt
