// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Traces as text: refused, or read, written and planned.
#include <cstddef>
#include <cstdint>
#include <stdexcept>

#include "reprise/planner/trace_format.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/planned_step.h"

namespace reprise::fuzz {

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = text_of(data, size);
  const auto trace = accepted<std::invalid_argument>([&] { return planner::trace_from_text(text); },
                                                     {"line ", "trace: "});
  if (trace) {
    check_text(*trace);
    check_plans(*trace);
  }
  return 0;
}

}  // namespace reprise::fuzz
