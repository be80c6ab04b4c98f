// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// put() of stores that store each storage once.
#ifndef REPRISE_HOOKS_STORED_PUT_STORAGE_H_
#define REPRISE_HOOKS_STORED_PUT_STORAGE_H_

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <memory>
#include <utility>

#include "reprise/hooks/activation_store.h"
#include "reprise/hooks/seam/unseen_scope.h"
#include "reprise/hooks/storage/has_bytes.h"
#include "reprise/hooks/storage/memory_layout.h"
#include "reprise/hooks/storage/storage_view.h"
#include "reprise/hooks/stored/exact_tensor.h"
#include "reprise/hooks/stored/next_store.h"
#include "reprise/hooks/stored/sparse_parts.h"

namespace reprise::hooks_internal {

// A view of a stored storage. `Entry` has the interface of a StoredTensor, for the bytes.
template <class Entry>
class TensorOfStorage final : public ExactTensor {
 public:
  TensorOfStorage(std::shared_ptr<Entry> entry, StorageView view)
      : entry_(std::move(entry)), view_(std::move(view)) {}
  void prefetch() override { entry_->prefetch(); }
  at::Tensor get() override {
    const UnseenScope unseen;
    return view_.of(entry_->get());
  }
  at::Tensor get_own() override {
    const UnseenScope unseen;
    return view_.of(entry_->get_own());
  }
  [[nodiscard]] std::int64_t device_bytes() const override { return entry_->device_bytes(); }

 private:
  const std::shared_ptr<Entry> entry_;
  const StorageView view_;
};

// Returns whether put_storage() stores the tensor's storage in `memory`.
template <class Memory>
bool is_for_storages(const Memory& memory, const at::Tensor& tensor) {
  return memory.takes(tensor.device()) && has_bytes(tensor) && tensor.numel() > 0 &&
         byte_count(tensor) >= memory.options().min_bytes;
}

// Stores the storage of `tensor` in `memory`; small tensors, and all that `memory` does not
// accept, in `next`, or, if that is null, on their device; the parts of sparse ones in `store`.
template <class Memory>
std::unique_ptr<StoredTensor> put_storage(ActivationStore& store, Memory& memory,
                                          const std::shared_ptr<ActivationStore>& next,
                                          const at::Tensor& tensor) {
  const UnseenScope unseen;
  if (!memory.takes(tensor.device())) {
    memory.count_forwarded(has_bytes(tensor) ? byte_count(tensor) : 0);
    return or_device(next)->put(tensor);
  }
  if (is_sparse(tensor)) {
    return put_parts(store, tensor);
  }
  if (!is_for_storages(memory, tensor)) {
    memory.count_forwarded(has_bytes(tensor) ? byte_count(tensor) : 0);
    return or_device(next)->put(tensor);
  }
  StorageView view(tensor);
  const at::Tensor bytes = view.is_compact() ? compact_elements(tensor) : storage_bytes(tensor);
  auto entry = memory.keep(bytes, or_device(next));
  using Entry = typename decltype(entry)::element_type;
  return std::make_unique<TensorOfStorage<Entry>>(std::move(entry), std::move(view));
}

}  // namespace reprise::hooks_internal

#endif  // REPRISE_HOOKS_STORED_PUT_STORAGE_H_
