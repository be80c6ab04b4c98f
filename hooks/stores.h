// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: stores.h
//
// The ready stores. They combine: in `packed() | next` the second keeps what the first hands on.
//
// Not for stores over several processes.
//
// Example:
//
//   reprise::StoreGuard guard(reprise::stores::packed());
//   loss = model->forward(x).sum();
//
// Thread-safety: stores are thread-safe, and may be shared by guards and threads.
#ifndef REPRISE_HOOKS_STORES_H_
#define REPRISE_HOOKS_STORES_H_

#include <cstddef>
#include <memory>

#include "reprise/hooks/activation_store.h"
#include "reprise/hooks/export.h"

namespace reprise::stores {

// Keeps an alias: what autograd does without a store. A change in place after put() is an error in
// get(). Hands nothing on.
[[nodiscard]] REPRISE_API std::shared_ptr<ActivationStore> device();

struct PackedOptions {
  // Smaller tensors are handed on as they are.
  std::size_t min_bytes = 1024;
  // Looks whether all elements of a floating-point or complex tensor have the same bits, and keeps
  // one of them if so. Reads the whole tensor, and makes the host wait for the device.
  bool find_constants = false;
};

// Keeps tensors in less memory where that costs little and loses nothing:
//
// - bool (masks of dropout, attention and comparison): a bit an element
// - int16, int32, int64: the narrowest of uint8, int8, int16 and int32 that holds them, or one
//   value if all are equal. Finding out makes the host wait for the device.
// - any dtype: elements that lie in the same memory (a dimension of stride 0, `expand`) once
//
// Others it keeps as device() does. Hands on: everything, packed or not. What comes back is
// contiguous where elements overlap in memory in other ways than by a stride of 0, else it has the
// strides that were put. Of sparse tensors, indices and values are packed as dense ones are; nested
// and quantized ones are handed on as they are.
[[nodiscard]] REPRISE_API std::shared_ptr<ActivationStore> packed(PackedOptions options = {});

}  // namespace reprise::stores

#endif  // REPRISE_HOOKS_STORES_H_
