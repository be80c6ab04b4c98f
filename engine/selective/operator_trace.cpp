// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/selective/operator_trace.h"

#include <algorithm>

namespace reprise::engine_internal {

std::optional<ResultList::Range> ResultList::append(c10::ArrayRef<c10::IValue> results) {
  Range range;
  range.first_result = static_cast<std::uint32_t>(results_.size());
  range.first_tensor = static_cast<std::uint32_t>(tensors_.size());
  if (!std::all_of(results.begin(), results.end(),
                   [this](const c10::IValue& result) { return append_result(result); })) {
    results_.erase(results_.begin() + range.first_result, results_.end());
    tensors_.erase(tensors_.begin() + range.first_tensor, tensors_.end());
    return std::nullopt;
  }
  range.end_result = static_cast<std::uint32_t>(results_.size());
  range.end_tensor = static_cast<std::uint32_t>(tensors_.size());
  return range;
}

bool ResultList::append_result(const c10::IValue& result) {
  if (result.isTensor() && result.toTensor().defined()) {
    if (!is_keepable(result.toTensor())) {
      return false;
    }
    tensors_.emplace_back(result.toTensor());
    results_.push_back({Kind::kTensor, 1, {}});
    return true;
  }
  if (result.isTensorList()) {
    const auto elements = result.toListRef();
    for (const c10::IValue& element : elements) {
      if (!element.toTensor().defined() || !is_keepable(element.toTensor())) {
        return false;
      }
      tensors_.emplace_back(element.toTensor());
    }
    results_.push_back({Kind::kTensorList, static_cast<std::uint32_t>(elements.size()), {}});
    return true;
  }
  // An object may own tensors, and through them the graph, and through it this list.
  results_.push_back({Kind::kOther, 0, result});
  return result.isTensor() || (!result.isList() && !result.isObject());
}

ResultList::Range ResultList::take(ResultList& other, const Range& range) {
  Range copied;
  copied.first_result = static_cast<std::uint32_t>(results_.size());
  copied.first_tensor = static_cast<std::uint32_t>(tensors_.size());
  for (std::uint32_t i = range.first_result; i < range.end_result; ++i) {
    results_.push_back(std::move(other.results_[i]));
  }
  for (std::uint32_t i = range.first_tensor; i < range.end_tensor; ++i) {
    tensors_.push_back(std::move(other.tensors_[i]));
  }
  copied.end_result = static_cast<std::uint32_t>(results_.size());
  copied.end_tensor = static_cast<std::uint32_t>(tensors_.size());
  return copied;
}

bool OperatorTrace::are_usable(const Kept& kept) const {
  const auto is_changed = [this](const KeptResult& result) {
    return (allow_mutation_ && result.is_mutated()) ||
           (!is_complete && result.is_written_through_pointer());
  };
  return !any_of(kept, is_changed);
}

std::shared_ptr<const OperatorTrace::Kept> OperatorTrace::kept() const {
  std::shared_ptr<const Kept> kept;
  {
    const MutexLock lock(mutex_);
    kept = kept_;
  }
  return kept && are_usable(*kept) ? kept : nullptr;
}

void OperatorTrace::run_everything() {
  runs_everything_ = true;
  take_kept();
}

std::shared_ptr<OperatorTrace::Kept> OperatorTrace::take_kept() {
  std::shared_ptr<Kept> taken;
  {
    const MutexLock lock(mutex_);
    taken.swap(kept_);
  }
  return taken && are_usable(*taken) ? taken : nullptr;
}

}  // namespace reprise::engine_internal
