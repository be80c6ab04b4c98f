// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Tensors that wait for a store that copies on their device.
//
// Note [Deferred puts]: a copy, packed or compressed, saves memory only if the tensor's own memory
// is freed. While autograd saves a tensor the operator that made it still owns it, and labels,
// masks or the inputs of several layers have owners for the whole step. So such a tensor is held as
// autograd would hold it, and put into its store when nothing but tensors that wait owns its
// memory. That is looked at when the same thread stores another tensor, after 1, 2, 4 and so on up
// to 64 of them. The last ones of a forward thus stay as they are, which backward asks for first. A
// tensor that several operators save while it waits is stored once.
#ifndef REPRISE_HOOKS_STORED_DEFERRED_TENSOR_H_
#define REPRISE_HOOKS_STORED_DEFERRED_TENSOR_H_

#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "reprise/hooks/activation_store.h"
#include "reprise/hooks/stored/kept_tensor.h"

namespace reprise::hooks_internal {

class DeferredTensor final : public StoredTensor {
 public:
  // tensor: an alias without graph.
  DeferredTensor(std::shared_ptr<ActivationStore> store, const at::Tensor& tensor);

  void prefetch() override;
  at::Tensor get() override;
  at::Tensor get_own() override;
  [[nodiscard]] std::int64_t device_bytes() const override;

  const std::shared_ptr<ActivationStore>& store() const { return store_; }
  c10::StorageImpl* storage() const { return storage_; }
  // Returns whether it waits, unmodified, and `tensor` is the same view of the same memory.
  bool is_waiting_as(const at::Tensor& tensor) const;
  // Puts the tensor into its store, unless it has been requested already, or another stream is
  // current. Exceptions of the store leave it where it is.
  void put();

 private:
  enum class State { kWaiting, kBeingPut, kStored, kRequested };

  // Returns the tensor in its store; null while it is held here, and then it stays.
  StoredTensor* stored_or_request();

  const std::shared_ptr<ActivationStore> store_;
  c10::StorageImpl* const storage_;
  const std::optional<c10::Stream> stream_;
  mutable std::mutex mutex_;
  State state_ = State::kWaiting;
  std::shared_ptr<KeptTensor> held_;  // null when it is stored
  std::unique_ptr<StoredTensor> stored_;
};

// Puts `tensor`, an alias without graph, into `store`, at once or when nobody else owns its memory.
// Calls the store for tensors that have waited, too.
std::shared_ptr<StoredTensor> put_or_defer(const std::shared_ptr<ActivationStore>& store,
                                           const at::Tensor& tensor);

// Puts the tensors of this thread that nobody else owns into their stores now. If a store fails,
// its tensors stay where they are.
void put_waiting() noexcept;

}  // namespace reprise::hooks_internal

#endif  // REPRISE_HOOKS_STORED_DEFERRED_TENSOR_H_
