// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/tape_replay/tape_eviction.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <queue>
#include <utility>

namespace reprise::engine_internal {
namespace {

using Why = Tape::Given::Why;

// Returns whether the tensors, which share a storage, are all that owns it.
bool own_their_storage(const absl::InlinedVector<at::Tensor*, 2>& tensors) {
  absl::InlinedVector<const c10::TensorImpl*, 2> impls;
  for (const at::Tensor* const tensor : tensors) {
    impls.push_back(tensor->unsafeGetTensorImpl());
  }
  std::sort(impls.begin(), impls.end());
  std::size_t distinct = 0;
  for (std::size_t i = 0; i < impls.size(); ++distinct) {
    const auto same = static_cast<std::size_t>(std::count(impls.begin(), impls.end(), impls[i]));
    const auto owners = *std::find_if(tensors.begin(), tensors.end(), [&](const at::Tensor* each) {
      return each->unsafeGetTensorImpl() == impls[i];
    });
    if (owners->use_count() != same) {
      return false;
    }
    i += same;
  }
  return tensors.front()->storage().use_count() == distinct;
}

}  // namespace

TapeEviction::TapeEviction(Tape& tape, std::size_t position, c10::Device device)
    : tape_(tape), position_(position), device_(device), visited_in_(tape.operators.size()) {
  for (auto& [value, given] : tape_.given) {
    const KeptResult& kept = given.kept;
    if (given.why == Why::kPolicy && kept.alias.defined()) {
      add(value, given.kept.alias);
      if (kept.is_in_flight || kept.is_snapshot) {
        pin(value);
      }
    }
  }
}

void TapeEviction::add(TapeValueId value, at::Tensor& tensor) {
  if (tensor.has_storage()) {
    holdings_[value].tensors.push_back(&tensor);
  } else {
    pin(value);
  }
}

std::vector<at::Tensor> TapeEviction::evict(std::int64_t bytes) {
  const auto is_worse = [](const Candidate& a, const Candidate& b) { return a.score > b.score; };
  std::priority_queue<Candidate, std::vector<Candidate>, decltype(is_worse)> queue(is_worse);
  for (const auto& [value, holdings] : holdings_) {
    if (const auto found = candidate(value, bytes)) {
      queue.push(*found);
    }
  }
  std::vector<at::Tensor> taken;
  while (bytes > 0 && !queue.empty()) {
    const Candidate best = queue.top();
    queue.pop();
    // What was evicted since may have made it more expensive.
    const auto now = candidate(best.value, bytes);
    if (!now) {
      continue;
    }
    if (!queue.empty() && now->score > queue.top().score) {
      queue.push(*now);
      continue;
    }
    bytes -=
        static_cast<std::int64_t>(holdings_.at(best.value).tensors.front()->storage().nbytes());
    take(best.value, taken);
  }
  return taken;
}

void TapeEviction::take(TapeValueId value, std::vector<at::Tensor>& taken) {
  const auto found = holdings_.find(value);
  taken.push_back(std::move(*found->second.tensors.front()));
  for (at::Tensor* const tensor : found->second.tensors) {
    tensor->reset();
  }
  holdings_.erase(found);
  if (const auto given = tape_.given.find(value);
      given != tape_.given.end() && !given->second.kept.is_defined()) {
    tape_.given.erase(given);
  }
}

std::optional<TapeEviction::Candidate> TapeEviction::candidate(TapeValueId value,
                                                               std::int64_t bytes) {
  const Holdings& holdings = holdings_.at(value);
  if (holdings.is_pinned || holdings.tensors.empty() ||
      holdings.tensors.front()->device() != device_ ||
      holdings.tensors.front()->storage().nbytes() == 0 || !own_their_storage(holdings.tensors)) {
    return std::nullopt;
  }
  const std::optional<double> seconds = recompute_seconds(value);
  if (!seconds) {
    return std::nullopt;
  }
  const auto size = static_cast<std::int64_t>(holdings.tensors.front()->storage().nbytes());
  const auto op = static_cast<double>(tape_.values[value].op.number());
  const double distance = std::abs(static_cast<double>(position_) - op) + 1;
  return Candidate{*seconds / (static_cast<double>(std::min(size, bytes)) * distance), value};
}

std::optional<double> TapeEviction::recompute_seconds(TapeValueId value) {
  constexpr double kUnknown = 1e-6;
  ++visit_;
  double seconds = 0;
  absl::InlinedVector<TapeValueId, 16> pending = {value};
  bool is_possible = true;
  while (!pending.empty() && is_possible) {
    const TapeValueId next = pending.back();
    pending.pop_back();
    if (next != value && is_there(next)) {
      continue;
    }
    const TapeOperatorId index = tape_.values[next].op;
    if (index == Tape::kNone || !may_run_again(tape_.operators[index])) {
      return std::nullopt;
    }
    if (visited_in_[index] == visit_) {
      continue;
    }
    visited_in_[index] = visit_;
    const Tape::Operator& op = tape_.operators[index];
    seconds += op.seconds > 0 ? op.seconds : kUnknown;
    tape_.for_each_use(op, [&](TapeValueId use) {
      const auto given = tape_.given.find(use);
      is_possible = is_possible && (given == tape_.given.end() || !given->second.lost);
      pending.push_back(use);
    });
  }
  return is_possible ? std::optional(seconds) : std::nullopt;
}

bool TapeEviction::may_run_again(const Tape::Operator& op) const {
  return op.transfer == Transfer::kNone && !op.is_forced && !op.runs_once;
}

bool TapeEviction::is_there(TapeValueId value) const {
  return holdings_.contains(value) || tape_.given.contains(value);
}

}  // namespace reprise::engine_internal
