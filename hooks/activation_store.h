// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: activation_store.h
//
// Where a tensor lives between forward and backward: the interface of all stores. The ready ones
// stand in stores.h; `StoreGuard` uses one around any code.
//
// Not for tensors that are cheaper to compute again than to keep: that is `reprise::checkpoint()`.
//
// Example (a store that counts what it keeps):
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
// Thread-safety: stores and stored tensors are thread-safe: the threads of a backward get, and
// prefetch for each other.
//
// Hooks and regions call stores with grad mode, autocast and saved-tensor hooks off, and regions do
// not see the operators that a store runs. A store must not hold a lock of its own while it runs
// operators, lets go of tensors, or calls another store: an allocator may call back.
#ifndef REPRISE_HOOKS_ACTIVATION_STORE_H_
#define REPRISE_HOOKS_ACTIVATION_STORE_H_

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "reprise/base/export.h"

namespace reprise {

// One tensor in a store. Destroying it gives up what the store holds of it.
class REPRISE_API StoredTensor {
 public:
  StoredTensor() = default;
  StoredTensor(const StoredTensor&) = delete;
  StoredTensor& operator=(const StoredTensor&) = delete;
  virtual ~StoredTensor();

  // Starts to bring the tensor back to its device, and does not wait for it. May be called early,
  // more than once, or never. Does nothing where that is of no use.
  virtual void prefetch() {}

  // The tensor: values (exactly, unless the store is a lossy one), shape, strides, dtype, device
  // and requires-grad are those that were put; it has no graph. Ready on the current stream of its
  // device. May be called again. It may share memory with what the store holds, with what another
  // call gives, or with the tensor that was put: do not change it in place, nor resize it. Throws
  // c10::Error if the tensor was changed in place after it had been put, as far as that spoils what
  // the store holds.
  virtual at::Tensor get() = 0;

  // The same in memory that nobody else sees now or later: it may be changed in place and resized.
  // Unless overridden, a copy of what get() gives; a store that brings the tensor back into new
  // memory anyway overrides it.
  virtual at::Tensor get_own();

  // Bytes that are held on the tensor's device for it now.
  [[nodiscard]] virtual std::size_t device_bytes() const = 0;
};

class REPRISE_API ActivationStore {
 public:
  ActivationStore() = default;
  ActivationStore(const ActivationStore&) = delete;
  ActivationStore& operator=(const ActivationStore&) = delete;
  virtual ~ActivationStore();

  // Takes the values of `tensor` as they are on the current stream of its device, in any layout,
  // shape and dtype. Never changes its argument, nor holds its graph.
  virtual std::unique_ptr<StoredTensor> put(const at::Tensor& tensor) = 0;

  // Puts tensors that will be asked for together, as the inputs of a region are; `owner` names
  // whose they are in messages, and may be empty. Gives as many in the same order. Unless
  // overridden, each by itself: a store for which one large transfer is better than many small ones
  // overrides it, and one that hands on should hand on together what it was given together.
  virtual std::vector<std::unique_ptr<StoredTensor>> put_all(const std::vector<at::Tensor>& tensors,
                                                             const std::string& owner);

  // A store that does as this one, and gives what it hands on (see stores.h) to `next`, after those
  // that it gives it to already. Throws std::invalid_argument unless overridden: a store that hands
  // nothing on can only be the last.
  [[nodiscard]] virtual std::shared_ptr<ActivationStore> followed_by(
      std::shared_ptr<ActivationStore> next);
};

// `first`, with `next` for what it hands on.
[[nodiscard]] REPRISE_API std::shared_ptr<ActivationStore> operator|(
    const std::shared_ptr<ActivationStore>& first, std::shared_ptr<ActivationStore> next);

}  // namespace reprise

#endif  // REPRISE_HOOKS_ACTIVATION_STORE_H_
