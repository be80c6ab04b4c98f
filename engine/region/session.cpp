// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/region/session.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <utility>

#include "reprise/engine/region/group_state.h"

namespace reprise::engine_internal {

Request current_request() {
  static std::atomic<std::int64_t> next_read{0};
  Request request;
  request.backward = hooks_internal::backward_info();
  request.group = GroupState::entered();
  if (request.group) {
    request.session = {SessionId::Kind::kGroup, request.group->number()};
  } else if (request.backward.id >= 0) {
    request.session = {SessionId::Kind::kBackward, request.backward.id};
  } else {
    request.session = {SessionId::Kind::kRead, next_read.fetch_add(1)};
  }
  return request;
}

void Session::fill(SlotId slot, RecomputedTensor value, Dropped& dropped) {
  if (!slots_.contains(slot)) {
    slots_.resize(std::max<std::size_t>(slot.number() + 1, 2 * slots_.size()));
  }
  drop(slot, dropped);
  slots_[slot] = {std::move(value), /*is_taken=*/false};
}

RecomputedTensor Session::take(SlotId slot, const hooks_internal::BackwardInfo& asking,
                               Dropped& dropped) {
  RecomputedTensor value =
      std::exchange(slots_[slot].value, {});  // perhaps the one that the last reader read
  if (reader_ != asking.node) {
    forget_last_reader(dropped);
  }
  slots_[slot].is_taken = true;
  if (asking.node != nullptr && !asking.node_reads_once) {
    reader_ = asking.node;
    read_.push_back(slot);
    slots_[slot].value = value;
  }
  return value;
}

SessionHoldings Session::holdings() {
  SessionHoldings holdings{recomputation_.get(), {}};
  for (const SlotId slot : slots_.ids()) {
    if (has(slot) && !is_taken(slot)) {
      holdings.supplied.emplace_back(slot, &slots_[slot].value.tensor);
    }
  }
  return holdings;
}

void Session::drop(SlotId slot, Dropped& dropped) {
  if (has(slot)) {
    dropped.push_back(std::exchange(slots_[slot].value, {}).tensor);
  }
}

void Session::forget_last_reader(Dropped& dropped) {
  for (const SlotId slot : read_) {
    drop(slot, dropped);
  }
  read_.clear();
  reader_ = nullptr;
}

}  // namespace reprise::engine_internal
