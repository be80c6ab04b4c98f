// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/tape_replay/tape_eviction.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <queue>
#include <utility>

#include "reprise/engine/embedding/embedding_language.h"
#include "reprise/hooks/seam/owner_count.h"

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
    if (hooks_internal::owner_count(*owners) != same) {
      return false;
    }
    i += same;
  }
  return hooks_internal::storage_owner_count(*tensors.front()) == distinct;
}

}  // namespace

TapeEviction::TapeEviction(Tape& tape, std::size_t position, c10::Device device)
    : tape_(tape),
      position_(position),
      device_(device),
      places_(tape.values.size()),
      is_there_(tape.values.size()),
      visited_in_(tape.operators.size()) {
  for (auto& [value, given] : tape_.given) {
    is_there_[value] = 1;
    const KeptResult& kept = given.kept;
    if (given.why == Why::kPolicy && kept.alias.defined()) {
      add(value, given.kept.alias);
      if (kept.is_in_flight || kept.is_snapshot) {
        pin(value);
      }
    }
  }
}

TapeEviction::Holdings& TapeEviction::holdings_of(TapeValueId value) {
  std::uint32_t& place = places_[value];
  if (place == 0) {
    holdings_.emplace_back(value, Holdings());
    place = static_cast<std::uint32_t>(holdings_.size());
    is_there_[value] = 1;
  }
  return holdings_[place - 1].second;
}

void TapeEviction::add(TapeValueId value, at::Tensor& tensor) {
  if (tensor.has_storage() && !is_of_language(tensor)) {
    holdings_of(value).tensors.push_back(&tensor);
  } else {
    pin(value);
  }
}

std::vector<at::Tensor> TapeEviction::evict(std::int64_t bytes) {
  groups_.emplace(tape_, is_there_);
  using Candidate = std::pair<double, TapeValueId>;  // by score
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;
  for (const auto& [value, holdings] : holdings_) {
    if (may_free(value, holdings)) {
      queue.emplace(score(value, bytes), value);
    }
  }
  std::vector<at::Tensor> taken;
  while (bytes > 0 && !queue.empty()) {
    const TapeValueId value = queue.top().second;
    queue.pop();
    // What was evicted since may have made it more expensive.
    const double now = score(value, bytes);
    if (!queue.empty() && now > queue.top().first) {
      queue.emplace(now, value);
    } else if (may_evict(value)) {
      bytes -= static_cast<std::int64_t>(holdings_of(value).tensors.front()->storage().nbytes());
      take(value, taken);
      groups_->remove(value);
    }
  }
  return taken;
}

std::vector<at::Tensor> TapeEviction::evict_all(const std::vector<TapeValueId>& values) {
  std::vector<at::Tensor> taken;
  for (const TapeValueId value : values) {
    if (places_[value] != 0 && may_free(value, holdings_of(value)) && may_evict(value)) {
      take(value, taken);
    }
  }
  return taken;
}

void TapeEviction::take(TapeValueId value, std::vector<at::Tensor>& taken) {
  Holdings& holdings = holdings_of(value);
  taken.push_back(std::move(*holdings.tensors.front()));
  for (at::Tensor* const tensor : holdings.tensors) {
    tensor->reset();
  }
  holdings.tensors.clear();
  is_there_[value] = 0;
  if (const auto given = tape_.given.find(value);
      given != tape_.given.end() && !given->second.kept.is_defined()) {
    tape_.given.erase(given);
  }
}

double TapeEviction::score(TapeValueId value, std::int64_t bytes) {
  const auto size =
      static_cast<std::int64_t>(holdings_of(value).tensors.front()->storage().nbytes());
  const auto op = static_cast<double>(tape_.values[value].op.number());
  const double distance = std::abs(static_cast<double>(position_) - op) + 1;
  return groups_->seconds_around(value) / (static_cast<double>(std::min(size, bytes)) * distance);
}

bool TapeEviction::may_free(TapeValueId value, const Holdings& holdings) const {
  return tape_.values[value].op != Tape::kNone && !holdings.is_pinned &&
         !holdings.tensors.empty() && holdings.tensors.front()->device() == device_ &&
         holdings.tensors.front()->storage().nbytes() > 0;
}

bool TapeEviction::may_evict(TapeValueId value) {
  return own_their_storage(holdings_of(value).tensors) && can_be_computed(value);
}

bool TapeEviction::can_be_computed(TapeValueId value) {
  ++visit_;
  absl::InlinedVector<TapeValueId, 16> pending = {value};
  bool is_possible = true;
  while (!pending.empty() && is_possible) {
    const TapeValueId next = pending.back();
    pending.pop_back();
    if (next != value && is_there_[next] != 0) {
      continue;
    }
    const TapeOperatorId index = tape_.values[next].op;
    if (index == Tape::kNone || tape_.values[next].is_made_once ||
        !may_run_again(tape_.operators[index])) {
      return false;
    }
    if (visited_in_[index] == visit_) {
      continue;
    }
    visited_in_[index] = visit_;
    tape_.for_each_use(tape_.operators[index], [&](TapeValueId use) {
      const auto given = tape_.given.find(use);
      is_possible = is_possible && (given == tape_.given.end() || !given->second.lost);
      pending.push_back(use);
    });
  }
  return is_possible;
}

bool TapeEviction::may_run_again(const Tape::Operator& op) const {
  return op.transfer == Transfer::kNone && !op.is_forced && !op.runs_once;
}

}  // namespace reprise::engine_internal
