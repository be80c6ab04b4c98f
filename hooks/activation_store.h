// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: activation_store.h
//
// The interface of stores: a place for a tensor between forward and backward. Ready stores are in
// stores.h; `StoreGuard` applies one to any code.
//
// Not for tensors that are cheaper to recompute than to store: use `reprise::checkpoint()`.
//
// Example (a store that counts bytes):
//
//   class CountingStore final : public reprise::ActivationStore {
//    public:
//     std::unique_ptr<reprise::StoredTensor> put(const at::Tensor& tensor) override {
//       bytes_ += tensor.nbytes();
//       return reprise::stores::device()->put(tensor);
//     }
//     ...
//   };
//
// Thread-safety: stores and stored tensors must be thread-safe: the threads of a backward call
// get(), and prefetch() for each other.
//
// Hooks and regions call stores with grad mode, autocast and saved-tensor hooks off, and regions do
// not see the operators that a store runs. A store must not hold its lock while it runs operators,
// releases tensors, or calls another store: an allocator may call back.
#ifndef REPRISE_HOOKS_ACTIVATION_STORE_H_
#define REPRISE_HOOKS_ACTIVATION_STORE_H_

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "reprise/base/export.h"

namespace reprise {

// One tensor in a store. Its destruction releases the tensor from the store.
class REPRISE_API StoredTensor {
 public:
  StoredTensor() = default;
  StoredTensor(const StoredTensor&) = delete;
  StoredTensor& operator=(const StoredTensor&) = delete;
  virtual ~StoredTensor();

  // Starts to fetch the tensor to its device, without waiting. May be called early, more than once,
  // or never. No effect by default.
  virtual void prefetch() {}

  // Returns the tensor: values (exactly, unless the store is lossy), shape, strides, dtype, device
  // and requires-grad are those of the tensor that was put; it has no graph. May be called again.
  // The result may share memory with the store's, with that of another call, or with the tensor
  // that was put: do not modify or resize it.
  //
  // Throws: c10::Error if the tensor was modified in place after put(), if that has modified the
  //   store's contents.
  // Stream: ready on the current stream of its device.
  virtual at::Tensor get() = 0;

  // The same in memory that is not shared: it may be modified and resized. Returns a copy of the
  // result of get() by default; a store that fetches into new memory anyway overrides it.
  virtual at::Tensor get_own();

  // Returns the bytes held on the tensor's device for it now.
  [[nodiscard]] virtual std::int64_t device_bytes() const = 0;
};

class REPRISE_API ActivationStore {
 public:
  ActivationStore() = default;
  ActivationStore(const ActivationStore&) = delete;
  ActivationStore& operator=(const ActivationStore&) = delete;
  virtual ~ActivationStore();

  // Stores `tensor`, of any layout, shape and dtype. Never modifies its argument, nor holds its
  // graph.
  //
  // Stream: reads the values as of the current stream of the tensor's device.
  virtual std::unique_ptr<StoredTensor> put(const at::Tensor& tensor) = 0;

  // Stores tensors that will be requested together, such as the inputs of a region; `owner` names
  // their owner in messages, and may be empty. Returns as many, in the same order. Calls put() for
  // each by default; a store for which one large transfer is better than many small ones overrides
  // it, and a store that forwards should forward together the tensors that it received together.
  virtual std::vector<std::unique_ptr<StoredTensor>> put_all(const std::vector<at::Tensor>& tensors,
                                                             const std::string& owner);

  // Returns whether put() allocates memory on the tensor's device, for a copy or a packed form. A
  // guard or a region then puts the tensor when nobody else owns its memory any more: until then a
  // copy would come on top. False by default, for stores that move tensors elsewhere or alias them.
  [[nodiscard]] virtual bool copies_on_device(const at::Tensor& tensor) const;

  // Returns a store like this one that forwards (see stores.h) to `next`, after the stores that
  // this one forwards to already.
  //
  // Throws: std::invalid_argument by default: a store that forwards nothing can only be the last.
  [[nodiscard]] virtual std::shared_ptr<ActivationStore> followed_by(
      std::shared_ptr<ActivationStore> next);
};

// Returns `first->followed_by(next)`.
[[nodiscard]] REPRISE_API std::shared_ptr<ActivationStore> operator|(
    const std::shared_ptr<ActivationStore>& first, std::shared_ptr<ActivationStore> next);

}  // namespace reprise

#endif  // REPRISE_HOOKS_ACTIVATION_STORE_H_
