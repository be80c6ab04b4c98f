// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/hooks/slab_store.h"

#include <utility>

#include "reprise/hooks/slab/slab_pool.h"
#include "reprise/hooks/stored/next_store.h"
#include "reprise/hooks/stored/put_storage.h"

namespace reprise {

using hooks_internal::SlabPool;

SlabStore::SlabStore(SlabOptions options)
    : SlabStore(std::make_shared<SlabPool>(options), nullptr) {}

SlabStore::SlabStore(std::shared_ptr<SlabPool> memory, std::shared_ptr<ActivationStore> next)
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

std::shared_ptr<SlabStore> stores::slab(SlabOptions options) {
  return std::make_shared<SlabStore>(options);
}

}  // namespace reprise
