// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/hooks/slab_store.h"

#include <utility>

#include "reprise/hooks/slab/slab_memory.h"
#include "reprise/hooks/storage/next_store.h"
#include "reprise/hooks/storage/put_storage.h"

namespace reprise {

using hooks_internal::SlabMemory;

SlabStore::SlabStore(const SlabOptions& options)
    : SlabStore(std::make_shared<SlabMemory>(options), nullptr) {}

SlabStore::SlabStore(std::shared_ptr<SlabMemory> memory, std::shared_ptr<ActivationStore> next)
    : memory_(std::move(memory)), next_(std::move(next)) {}

SlabStore::~SlabStore() = default;

std::unique_ptr<StoredTensor> SlabStore::put(const at::Tensor& tensor) {
  return hooks_internal::put_storage(*this, *memory_, next_, tensor);
}

std::shared_ptr<ActivationStore> SlabStore::followed_by(std::shared_ptr<ActivationStore> next) {
  return std::shared_ptr<ActivationStore>(
      new SlabStore(memory_, hooks_internal::appended(next_, std::move(next))));
}

SlabCounters SlabStore::counters() const { return memory_->counters(); }

std::shared_ptr<SlabStore> stores::slab(const SlabOptions& options) {
  return std::make_shared<SlabStore>(options);
}

}  // namespace reprise
