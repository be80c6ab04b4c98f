// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Tensors that wait for their store.
//
// Note [Deferred puts]: a copy, packed or compressed, saves memory only if the tensor's own memory
// is freed. While autograd saves a tensor the operator that made it still owns it, and labels,
// masks or the inputs of several layers have owners for the whole step. So such a tensor is held as
// autograd would hold it, and put into its store when nothing but tensors that wait owns its
// memory. That is looked at when the same thread stores another tensor, after 1, 2, 4 and so on up
// to 64 of them. The last ones of a forward thus stay as they are, which backward asks for first. A
// tensor that several operators save while it waits is stored once.
//
// Note [Final contents]: an operator may save a tensor and fill it afterwards, as rrelu does with
// its noise, and autograd does not count that write. It can be such a tensor only if that requires
// no grad: a write to another one changes the graph, and is counted. So a store receives a tensor
// of a graph at once, and any other when its contents are final: when the same thread saves a
// tensor for another node, at the end of the guard, or when backward asks for it, whichever comes
// first. If it has been modified by then, it stays where it is, and is an error in backward, as
// without a store. (The nodes that a thread makes are numbered; while the next number is the same,
// it is still the same operator that saves.)
#ifndef REPRISE_HOOKS_STORED_DEFERRED_TENSOR_H_
#define REPRISE_HOOKS_STORED_DEFERRED_TENSOR_H_

#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "reprise/hooks/activation_store.h"
#include "reprise/hooks/stored/exact_tensor.h"

namespace reprise::hooks_internal {

class DeferredTensor final : public ExactTensor {
 public:
  enum class Until { kUnowned, kFinal };  // the two notes

  // alias: without graph. saved: the tensor of which it is an alias; null if unknown.
  DeferredTensor(std::shared_ptr<ActivationStore> store, at::Tensor alias, Until until,
                 const c10::TensorImpl* saved);
  ~DeferredTensor() override;
  DeferredTensor(const DeferredTensor&) = delete;
  DeferredTensor& operator=(const DeferredTensor&) = delete;

  void prefetch() override;
  at::Tensor get() override;
  at::Tensor get_own() override;
  [[nodiscard]] std::int64_t device_bytes() const override;
  [[nodiscard]] bool is_exact() const override;

  const std::shared_ptr<ActivationStore>& store() const { return store_; }
  c10::StorageImpl* storage() const { return storage_; }
  // Returns whether it waits, unmodified, and `tensor` is the same view of the same memory.
  bool is_waiting_as(const at::Tensor& tensor) const;
  // Puts the tensor into its store, unless it has been requested already, or waits for its owners
  // and another stream is current. After an exception of the store it waits as before.
  void put();

  // Returns whether the operator that saves now has saved it.
  bool is_saved_now() const;
  // Returns whether that operator has saved this very tensor object before, which may be unknown.
  // Then get() returns one object to both.
  bool is_also(const c10::TensorImpl* saved);

 private:
  enum class State { kWaiting, kBeingPut, kStored, kRequested };

  std::unique_ptr<StoredTensor> put_on_its_stream(const at::Tensor& held) const;
  // Returns the tensor in its store; null while it is held here, and then it stays.
  StoredTensor* stored_or_request();
  at::Tensor get_held() const;
  at::Tensor as_one_object(at::Tensor tensor);

  const std::shared_ptr<ActivationStore> store_;
  c10::StorageImpl* const storage_;
  const Until until_;
  const std::optional<c10::Stream> stream_;
  const std::int64_t version_;
  const c10::TensorImpl* const saved_;  // valid while the operator that saves it runs
  const std::uint64_t node_;            // of that operator: the number of the thread's next one
  mutable std::mutex mutex_;
  State state_ = State::kWaiting;
  at::Tensor held_;  // undefined when it is stored
  std::unique_ptr<StoredTensor> stored_;
  bool is_one_object_ = false;
  c10::weak_intrusive_ptr<c10::TensorImpl> given_;
};

// Puts `alias`, which has no graph, into `store`: at once, when nobody else owns its memory, or
// when its contents are final. saved: the tensor of which it is an alias, if the operator that
// saves it may still fill it; otherwise null. Calls the store for tensors that have waited, too.
std::shared_ptr<StoredTensor> put_or_defer(const std::shared_ptr<ActivationStore>& store,
                                           const at::Tensor& alias,
                                           const c10::TensorImpl* saved = nullptr);

// Puts the tensors of this thread that are final, or that nobody else owns, into their stores now.
// If a store fails, its tensors stay where they are.
void put_waiting() noexcept;

}  // namespace reprise::hooks_internal

#endif  // REPRISE_HOOKS_STORED_DEFERRED_TENSOR_H_
