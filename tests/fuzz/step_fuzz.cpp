// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Steps made from numbers: written, read and planned.
#include <cstddef>
#include <cstdint>
#include <stdexcept>

#include "tests/fuzz/input.h"
#include "tests/fuzz/made_step.h"
#include "tests/fuzz/planned_step.h"

namespace reprise::fuzz {

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  const planner::Trace trace = made_step(input);
  if (accepted<std::invalid_argument>([&] { return trace.validate(), true; }, {"trace: "})) {
    check_text(trace);
    check_plans(trace);
  }
  return 0;
}

}  // namespace reprise::fuzz
