// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/tape/result_list.h"

#include <algorithm>

namespace reprise::engine_internal {
namespace {

bool is_tensor(const c10::IValue& result) {
  return result.isTensor() && result.toTensor().defined();
}

}  // namespace

std::optional<ResultList::Range> ResultList::append(c10::ArrayRef<c10::IValue> results) {
  if (results.size() == 1 && is_tensor(results[0])) {
    return is_keepable(results[0].toTensor()) ? std::optional(Range{0, 1}) : std::nullopt;
  }
  const auto first = static_cast<std::uint32_t>(results_.size());
  if (!std::all_of(results.begin(), results.end(),
                   [this](const c10::IValue& result) { return append_result(result); })) {
    results_.erase(results_.begin() + first, results_.end());
    return std::nullopt;
  }
  return Range{first, static_cast<std::uint32_t>(results_.size())};
}

bool ResultList::append_result(const c10::IValue& result) {
  if (is_tensor(result)) {
    results_.push_back({Kind::kTensor, 1, {}});
    return is_keepable(result.toTensor());
  }
  if (result.isTensorList()) {
    const auto elements = result.toListRef();
    results_.push_back({Kind::kTensorList, static_cast<std::uint32_t>(elements.size()), {}});
    return std::all_of(elements.begin(), elements.end(), [](const c10::IValue& element) {
      return is_tensor(element) && is_keepable(element.toTensor());
    });
  }
  // An object may own tensors, and through them the graph, and through it this list.
  results_.push_back({Kind::kOther, 0, result});
  return result.isTensor() || (!result.isList() && !result.isObject());
}

}  // namespace reprise::engine_internal
