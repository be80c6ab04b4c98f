// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/outside/replay_memory.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <utility>

#include "reprise/engine/operators/interception.h"
#include "reprise/engine/operators/operator_facts.h"
#include "reprise/hooks/seam/hook_stack.h"
#include "reprise/hooks/storage/storage_view.h"

namespace reprise::engine_internal {
namespace {

at::Tensor alias_in(const at::Tensor& bytes, const at::Tensor& tensor,
                    const c10::VariableVersion& version) {
  at::Tensor alias = hooks_internal::detached_alias(tensor, version, /*may_change_metadata=*/true);
  alias.unsafeGetTensorImpl()->set_storage_keep_dtype(bytes.storage());
  return alias;
}

}  // namespace

void ReplayMemory::start(std::vector<MemoryTable::WeakStorage> freed) { freed_ = std::move(freed); }

void ReplayMemory::note_write(const OperatorTraits& traits, const at::Tensor& target) {
  const StorageId memory = storage_id_of(target);
  if (is_freed(memory)) {
    filled_.insert(memory);
    return;
  }
  if (const auto own = own_.find(memory); own != own_.end()) {
    const bool is_filled = filled_.contains(memory);
    if (is_filled && !refills(traits, target)) {
      return;
    }
    own_.erase(own);  // a slot may hold what it was filled with
    if (!is_filled) {
      return;  // it held what forward found before this write
    }
  }
  const bool is_known = written_ != nullptr && written_->contains(memory);
  const bool is_to_hide = is_known ? written_->is_refilled_and_read(memory) : true;
  if (!is_to_hide || !refills(traits, target)) {
    return;
  }
  const at::NoGradGuard no_grad;
  const InterceptionScope unseen(nullptr);
  const auto length = static_cast<std::int64_t>(target.storage().nbytes());
  hide(target, at::empty({length}, target.options().dtype(at::kByte).requires_grad(false)));
}

void ReplayMemory::copy_before_write(const at::Tensor& target) {
  if (own_.contains(storage_id_of(target))) {
    return;
  }
  const at::NoGradGuard no_grad;
  const InterceptionScope unseen(nullptr);
  hide(target, hooks_internal::storage_bytes(target).clone());
}

void ReplayMemory::note_counted_write(const at::Tensor& target) {
  if (const auto own = own_.find(storage_id_of(target)); own != own_.end()) {
    own->second.version.bump();
  }
}

void ReplayMemory::hide(const at::Tensor& target, at::Tensor bytes) {
  const StorageId memory = storage_id_of(target);
  own_.emplace(memory, Own{std::move(bytes), c10::VariableVersion(0), weak_storage_of(target)});
  filled_.insert(memory);
}

bool ReplayMemory::note_read(const at::Tensor& tensor, StorageId memory, std::uint32_t writes) {
  if (filled_.contains(storage_id_of(tensor))) {
    return true;
  }
  const at::Tensor contents =
      written_ == nullptr ? at::Tensor() : written_->contents(memory, writes);
  own_.erase(storage_id_of(tensor));
  if (contents.defined()) {
    own_.emplace(storage_id_of(tensor),
                 Own{contents, c10::VariableVersion(0), weak_storage_of(tensor)});
  }
  return contents.defined();
}

at::Tensor ReplayMemory::seen(const at::Tensor& tensor) const {
  const auto own =
      own_.empty() || !tensor.defined() ? own_.end() : own_.find(storage_id_of(tensor));
  if (own == own_.end()) {
    return tensor;
  }
  return alias_in(own->second.bytes, tensor, own->second.version);
}

at::Tensor ReplayMemory::seen_by_read(const at::Tensor& tensor, std::uint32_t writes) const {
  if (filled_.contains(storage_id_of(tensor))) {
    return hidden_contents(tensor);
  }
  const at::Tensor contents =
      written_ == nullptr ? at::Tensor() : written_->contents(storage_id_of(tensor), writes);
  return contents.defined() ? alias_in(contents, tensor, c10::VariableVersion(0)) : at::Tensor();
}

}  // namespace reprise::engine_internal
