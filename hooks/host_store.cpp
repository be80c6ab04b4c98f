// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/hooks/host_store.h"

#include <c10/core/GradMode.h>

#include <utility>

#include "reprise/hooks/internal/hook_stack.h"
#include "reprise/hooks/internal/host_memory.h"
#include "reprise/hooks/internal/memory_layout.h"
#include "reprise/hooks/internal/storage_view.h"
#include "reprise/hooks/stores.h"

namespace reprise {
namespace {

using hooks_internal::HostEntry;
using hooks_internal::HostMemory;
using hooks_internal::StorageView;

class HostTensor final : public StoredTensor {
 public:
  HostTensor(std::shared_ptr<HostEntry> entry, StorageView view)
      : entry_(std::move(entry)), view_(std::move(view)) {}
  void prefetch() override { entry_->prefetch(); }
  at::Tensor get() override {
    const at::NoGradGuard no_grad;
    return view_.of(entry_->get());
  }
  [[nodiscard]] std::size_t device_bytes() const override { return entry_->device_bytes(); }

 private:
  const std::shared_ptr<HostEntry> entry_;
  const StorageView view_;
};

}  // namespace

HostStore::HostStore(HostOptions options)
    : HostStore(std::make_shared<HostMemory>(options), nullptr) {}

HostStore::HostStore(std::shared_ptr<HostMemory> memory, std::shared_ptr<ActivationStore> next)
    : memory_(std::move(memory)), next_(std::move(next)) {}

HostStore::~HostStore() = default;

std::unique_ptr<StoredTensor> HostStore::put(const at::Tensor& tensor) {
  const at::NoGradGuard no_grad;
  const std::shared_ptr<ActivationStore> next = next_ ? next_ : stores::device();
  if (tensor.is_cpu() || !hooks_internal::is_dense(tensor) ||
      tensor.nbytes() < memory_->options().min_bytes || tensor.numel() == 0) {
    memory_->count_handed_on(tensor.is_sparse() ? 0 : tensor.nbytes());
    return next->put(tensor);
  }
  StorageView view(tensor);
  const at::Tensor bytes = view.is_compact() ? hooks_internal::compact_elements(tensor)
                                             : hooks_internal::storage_bytes(tensor);
  return std::make_unique<HostTensor>(memory_->keep(bytes, next), std::move(view));
}

std::shared_ptr<ActivationStore> HostStore::followed_by(std::shared_ptr<ActivationStore> next) {
  return std::shared_ptr<ActivationStore>(
      new HostStore(memory_, next_ ? next_ | std::move(next) : std::move(next)));
}

HostCounters HostStore::counters() const { return memory_->counters(); }

void HostStore::release_unused() { memory_->release_unused(); }

namespace stores {

std::shared_ptr<HostStore> host(HostOptions options) {
  return std::make_shared<HostStore>(options);
}

}  // namespace stores

}  // namespace reprise
