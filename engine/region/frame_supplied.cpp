// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The tensors that later sessions receive from earlier ones: see Note [Shared tensors].
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "reprise/engine/embedding/embedding_language.h"
#include "reprise/engine/operators/storage_id.h"
#include "reprise/engine/region/frame.h"
#include "reprise/hooks/seam/owner_count.h"
#include "reprise/hooks/storage/memory_layout.h"

namespace reprise::engine_internal {
namespace {

std::int64_t bytes_of(const at::Tensor& tensor) {
  return static_cast<std::int64_t>(tensor.storage().nbytes());
}

// Returns whether the memory of `kept` is freed with it.
bool is_sole_owner(const at::Tensor& kept) {
  return hooks_internal::owner_count(kept) == 1 && hooks_internal::storage_owner_count(kept) == 1;
}

}  // namespace

// Memory from outside has to be compared with forward each time, except where several backwards
// are one session. It has its owners, and may be freed by them. Inputs of regions inside serve the
// recomputation of these regions, whose own tensors are kept.
void Frame::note_supplied(SlotId slot, const at::Tensor& tensor, const Request& request) {
  const bool is_in_group = request.session.kind == SessionId::Kind::kGroup;
  const bool may_share = recomputation_->may_share();
  const bool is_of_group = is_in_group && may_share;
  const bool is_shared = !is_in_group && may_share && at::GradMode::is_enabled();
  const bool is_outside = record_.slots[slot].saved.shares_memory_with(tensor);
  const bool is_kept = !is_outside && record_.slots[slot].input_group == 0 &&
                       (is_of_group || recomputation_->keeps_supplied());
  const bool is_noted = is_kept || is_of_group || (is_shared && !is_outside);
  if (!is_noted || !hooks_internal::is_dense(tensor) || is_of_language(tensor)) {
    return;
  }
  Supplied supplied{.tensor = WeakAlias(tensor),
                    .version = version_of(tensor),
                    .kept = is_kept ? tensor : at::Tensor(),
                    .keeper = request.session};
  Session::Dropped dropped;  // freed after the lock
  const MutexLock lock(mutex_);
  forget_supplied(slot, dropped);
  supplied_.insert_or_assign(slot, std::move(supplied));
}

// A group's tensors are for the group, a budget's are those that are kept.
void Frame::take_supplied(Session& session, Session::Dropped& dropped) {
  for (auto& [slot, supplied] : supplied_) {
    const bool is_for_others =
        supplied.keeper.kind == SessionId::Kind::kGroup && supplied.keeper != session.id();
    if (is_for_others || !wants(session, slot) || supplied.tensor.version() != supplied.version) {
      continue;
    }
    at::Tensor tensor = std::exchange(supplied.kept, {});
    if (!tensor.defined() && recomputation_->may_share()) {
      tensor = supplied.tensor.lock();
    }
    if (tensor.defined()) {
      session.fill(slot, {std::move(tensor), supplied.version}, dropped);
    }
  }
}

HeldValues Frame::held() {
  HeldValues held;
  const MutexLock lock(mutex_);
  recomputation_->append_held(held);
  for (const auto& [slot, supplied] : supplied_) {
    if (supplied.kept.defined()) {
      held.push_back({.tensor = supplied.kept, .stored = nullptr, .why = "recomputed", .op = {}});
    }
  }
  return held;
}

void Frame::forget_supplied(SlotId slot, Session::Dropped& dropped) {
  const auto found = supplied_.find(slot);
  if (found != supplied_.end()) {
    dropped.push_back(std::move(found->second.kept));
    supplied_.erase(found);
  }
}

std::int64_t Frame::drop_supplied(std::int64_t bytes, c10::Device device) {
  std::vector<at::Tensor> dropped;  // freed after the lock
  const MutexLock lock(mutex_);
  std::vector<SlotId> slots;
  for (const auto& [slot, supplied] : supplied_) {
    if (supplied.kept.defined() && supplied.kept.device() == device) {
      slots.push_back(slot);
    }
  }
  std::sort(slots.begin(), slots.end());
  std::int64_t freed = 0;
  for (const SlotId slot : slots) {
    if (freed >= bytes) {
      break;
    }
    at::Tensor& kept = supplied_.at(slot).kept;
    freed += is_sole_owner(kept) ? bytes_of(kept) : 0;
    dropped.push_back(std::exchange(kept, {}));
  }
  return freed;
}

std::int64_t Frame::supplied_bytes(c10::Device device) {
  std::int64_t bytes = 0;
  const MutexLock lock(mutex_);
  for (const auto& [slot, supplied] : supplied_) {
    const at::Tensor& kept = supplied.kept;
    bytes += kept.defined() && kept.device() == device && is_sole_owner(kept) ? bytes_of(kept) : 0;
  }
  return bytes;
}

}  // namespace reprise::engine_internal
