// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/hooks/host_store.h"

#include <utility>

#include "reprise/hooks/host/host_offloader.h"
#include "reprise/hooks/stored/next_store.h"
#include "reprise/hooks/stored/offload_store.h"
#include "reprise/hooks/stored/put_storage.h"

namespace reprise {

using hooks_internal::HostOffloader;

HostStore::HostStore(HostOptions options)
    : HostStore(std::make_shared<HostOffloader>(options), nullptr) {}

HostStore::HostStore(std::shared_ptr<HostOffloader> memory, std::shared_ptr<ActivationStore> next)
    : memory_(std::move(memory)), next_(std::move(next)) {}

HostStore::~HostStore() = default;

std::unique_ptr<StoredTensor> HostStore::put(const at::Tensor& tensor) {
  return hooks_internal::put_storage(*this, *memory_, next_, tensor);
}

std::shared_ptr<ActivationStore> HostStore::followed_by(std::shared_ptr<ActivationStore> next) {
  return std::shared_ptr<ActivationStore>(
      new HostStore(memory_, hooks_internal::appended(next_, std::move(next))));
}

HostCounters HostStore::counters() const { return memory_->counters(); }

void HostStore::release_unused() { memory_->release_unused(); }

namespace stores {

std::shared_ptr<HostStore> host(HostOptions options) {
  return std::make_shared<HostStore>(options);
}

}  // namespace stores

const std::shared_ptr<HostStore>& hooks_internal::offload_store() {
  static const auto& store =
      *new std::shared_ptr<HostStore>(stores::host({.min_bytes = 0, .keep_last = 0}));
  return store;
}

}  // namespace reprise
