// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/internal/operator_trace.h"

#include <algorithm>
#include <string_view>

#include "absl/container/flat_hash_set.h"

namespace reprise::engine_internal {
namespace {

using Replay = TracedOperator::Replay;

bool leaves_memory_as_it_is(const c10::OperatorName& name) {
  const std::string_view op = name.name;
  return op.starts_with("aten::empty") || op.starts_with("aten::new_empty");
}

template <class Ids>
bool is_any_needed(const Ids& ids, const std::vector<bool>& needed) {
  return std::any_of(ids.begin(), ids.end(), [&](ValueId id) { return needed[id]; });
}

}  // namespace

ValueId OperatorTrace::make_value(Memory memory, std::uint32_t creator, std::uint32_t result) {
  const auto id = static_cast<ValueId>(values_.size());
  values_.push_back({creator, result, false, {}});
  roots_.push_back(false);
  value_of_memory_.insert_or_assign(memory, id);
  return id;
}

std::optional<ValueId> OperatorTrace::value_in(Memory memory) const {
  const auto found = value_of_memory_.find(memory);
  return found == value_of_memory_.end() ? std::nullopt : std::optional(found->second);
}

void OperatorTrace::need(Memory memory) {
  if (const auto id = value_in(memory)) {
    roots_[*id] = true;
  }
}

// From the last operator to the first: what is needed makes the inputs of its operator needed,
// unless that operator's results are kept.
std::vector<bool> OperatorTrace::needed_values() const {
  std::vector<bool> needed = roots_;
  for (auto op = operators.rbegin(); op != operators.rend(); ++op) {
    const bool is_needed = op->is_root || !op->results || is_any_needed(op->made, needed) ||
                           is_any_needed(op->written, needed);
    if (is_needed && op->replay == Replay::kRun) {
      for (const ValueId id : op->inputs) {
        needed[id] = true;
      }
    }
  }
  return needed;
}

// A kernel that is launched by hand fills memory out of the dispatcher's sight, from inputs that
// nobody knows: then each result may be needed.
bool OperatorTrace::has_hidden_writes(const std::vector<bool>& needed) const {
  for (ValueId id = 0; id < values_.size(); ++id) {
    if (needed[id] && values_[id].writers.empty() &&
        leaves_memory_as_it_is(*operators[values_[id].creator].name)) {
      return true;
    }
  }
  return false;
}

void OperatorTrace::let_go(std::uint32_t index, const std::vector<bool>& needed) {
  TracedOperator& op = operators[index];
  const bool is_needed = is_any_needed(op.made, needed) || is_any_needed(op.written, needed);
  if (!is_needed && !op.is_root && op.results && op.replay != Replay::kSkip) {
    op.replay = Replay::kDead;
  }
  const absl::MutexLock lock(&mutex_);
  const auto kept = kept_->find(index);
  if (kept == kept_->end()) {
    return;
  }
  if (!is_needed) {
    kept_->erase(kept);
    return;
  }
  for (const ValueId id : op.made) {
    if (!needed[id]) {
      kept->second[values_[id].result] = {};
    }
  }
}

void OperatorTrace::complete() {
  const std::vector<bool> needed = needed_values();
  if (!has_hidden_writes(needed)) {
    for (std::uint32_t index = 0; index < operators.size(); ++index) {
      let_go(index, needed);
    }
  }
  for (TracedOperator& op : operators) {
    op.inputs = {};
    op.made = {};
    op.written = {};
    if (op.replay != Replay::kDead && op.replay != Replay::kServe) {
      op.results.reset();
    }
  }
  operators.shrink_to_fit();
  value_of_memory_ = {};
  values_ = {};
  roots_ = {};
  complete_ = true;
}

std::shared_ptr<const OperatorTrace::Kept> OperatorTrace::kept() const {
  const absl::MutexLock lock(&mutex_);
  const auto is_mutated = [](const auto& entry) {
    return std::any_of(entry.second.begin(), entry.second.end(),
                       [](const KeptResult& result) { return result.is_mutated(); });
  };
  const bool unusable =
      kept_ && allow_mutation_ && std::any_of(kept_->begin(), kept_->end(), is_mutated);
  return unusable ? nullptr : kept_;
}

void OperatorTrace::drop_kept() {
  std::shared_ptr<Kept> dropped;  // freed after the lock
  const absl::MutexLock lock(&mutex_);
  dropped.swap(kept_);
}

std::int64_t OperatorTrace::kept_bytes() const {
  const absl::MutexLock lock(&mutex_);
  absl::flat_hash_map<Memory, std::int64_t> bytes;
  if (kept_) {
    for (const auto& [index, results] : *kept_) {
      for (const KeptResult& result : results) {
        const at::Tensor& tensor = result.host ? result.host->host() : result.alias;
        if (tensor.defined() && tensor.has_storage()) {
          bytes[memory_of(tensor)] = static_cast<std::int64_t>(tensor.storage().nbytes());
        }
      }
    }
  }
  std::int64_t sum = 0;
  for (const auto& [memory, size] : bytes) {
    sum += size;
  }
  return sum;
}

}  // namespace reprise::engine_internal
