// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/budget/step_script.h"

#include <algorithm>
#include <cstdlib>

namespace reprise::engine_internal {

std::size_t StepScript::calls_shared_with(const StepScript& other) const {
  const auto have_same_size = [](const Value& a, const Value& b) { return a.bytes == b.bytes; };
  const std::size_t most = std::min(calls.size(), other.calls.size());
  std::size_t call = 0;
  for (; call < most && calls[call].op == other.calls[call].op; ++call) {
    const std::span<const Value> results = values_of(call);
    const std::span<const Value> others = other.values_of(call);
    if (!std::equal(results.begin(), results.end(), others.begin(), others.end(), have_same_size)) {
      break;
    }
  }
  return call;
}

std::optional<std::int64_t> StepScript::difference(
    std::size_t call, const c10::OperatorHandle& op,
    std::span<const TapeRetention::Result> results) const {
  if (call >= calls.size() || !(calls[call].op == op) || values_of(call).size() != results.size()) {
    return std::nullopt;
  }
  std::int64_t difference = 0;
  for (std::size_t i = 0; i < results.size(); ++i) {
    difference += std::abs(values_of(call)[i].bytes - results[i].bytes);
  }
  return difference;
}

std::int64_t StepScript::bytes() const {
  std::int64_t bytes = 0;
  for (const Value& value : values) {
    bytes += value.bytes;
  }
  return bytes;
}

}  // namespace reprise::engine_internal
