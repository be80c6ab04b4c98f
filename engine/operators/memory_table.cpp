// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/operators/memory_table.h"

namespace reprise::engine_internal {
namespace {

MemoryTable::WeakTensor no_tensor() {
  return MemoryTable::WeakTensor(c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>());
}

}  // namespace

constinit thread_local base_internal::Spare<MemoryTable::Buffers> MemoryTable::t_spare_;

void MemoryTable::Buffers::clear() {
  ids.clear();
  memories.clear();
}

MemoryTable::MemoryTable() : buffers_(t_spare_.take()) {}

MemoryTable::~MemoryTable() { t_spare_.put(std::move(buffers_)); }

void MemoryTable::reserve(std::size_t count) {
  buffers_->ids.reserve(count);
  buffers_->memories.reserve(count);
}

MemoryId MemoryTable::look_up(StorageId memory) const {
  const auto found = buffers_->ids.find(memory);
  if (found == buffers_->ids.end()) {
    return {};
  }
  last_ = {memory, found->second};
  return found->second;
}

template <class MakeMemory>
MemoryId MemoryTable::add(StorageId memory, const MakeMemory& make) {
  if (last_.first == memory) {
    return last_.second;
  }
  const auto [entry, is_new] = buffers_->ids.try_emplace(memory, buffers_->memories.next_id());
  if (is_new) {
    buffers_->memories.push_back(make());
  }
  last_ = {memory, entry->second};
  return entry->second;
}

MemoryId MemoryTable::add(const at::Tensor& tensor) {
  if (storage_of(tensor) == nullptr) {
    return add_object(tensor);
  }
  const StorageId memory = storage_id_of(tensor);
  return add(memory, [&] { return Memory{memory, weak_storage_of(tensor), no_tensor()}; });
}

MemoryId MemoryTable::add(WeakStorage storage) {
  const StorageId memory = storage._unsafe_get_target();
  return add(memory, [&] { return Memory{memory, std::move(storage), no_tensor()}; });
}

MemoryId MemoryTable::add_object(const at::Tensor& tensor) {
  const StorageId memory = tensor.unsafeGetTensorImpl();
  return add(memory, [&] {
    return Memory{memory, no_storage(), WeakTensor(tensor.getIntrusivePtr())};
  });
}

}  // namespace reprise::engine_internal
