// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/budget/step_script.h"

#include <algorithm>

namespace reprise::engine_internal {

bool StepScript::matches(std::size_t call, const c10::OperatorHandle& op,
                         std::span<const TapeRetention::Result> results) const {
  if (call >= calls.size() || !(calls[call].op == op)) {
    return false;
  }
  const std::span<const Value> known = values_of(call);
  return std::equal(known.begin(), known.end(), results.begin(), results.end(),
                    [](const Value& value, const TapeRetention::Result& result) {
                      return value.bytes == result.bytes;
                    });
}

}  // namespace reprise::engine_internal
