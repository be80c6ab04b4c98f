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
#include <cstdint>
#include <memory>

#include "reprise/base/export.h"
#include "reprise/hooks/activation_store.h"

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

enum class QuantizedFormat : std::uint8_t {
  kInt8,        // 127 equal steps on either side of 0
  kFloat8E4m3,  // float8_e4m3fn: 3 bits of mantissa, for blocks of very unequal elements
};

struct QuantizedOptions {
  QuantizedFormat format = QuantizedFormat::kInt8;
  // Elements that share a scale. At least 1.
  std::int64_t block_size = 128;
  // Rounds up or down with the probability that makes the mean right, by generators of the store's
  // own: those of LibTorch are left alone.
  bool stochastic_rounding = false;
  std::uint64_t seed = 0;  // of these
  // Smaller tensors are handed on as they are.
  std::size_t min_bytes = 4096;
};

// Keeps floating-point tensors (float16, bfloat16, float32, float64) in a byte an element and a
// scale a block, the last of which is filled up. **Lossy**: gradients are not those without it.
// With `a` the largest magnitude in an element's block, `x` the element, and before what comes back
// is rounded to its dtype, the error is at most (where the scale, a / 127 or a / 448, is a normal
// number)
//
//   int8:         a / 254;                       stochastic: a / 127
//   float8_e4m3:  max(|x| / 16, a / 448 / 1024);  stochastic: max(|x| / 8, a / 448 / 512)
//
// A block with an infinity or a NaN comes back as NaNs. Blocks are of elements that are neighbours
// in memory. Hands on what it has made, and as they are small tensors and those of other dtypes.
// What comes back is laid out as by packed(). Does not wait for the device. (Blocks and formats:
// Dettmers et al., "8-bit Optimizers via Block-wise Quantization", 2021, arXiv:2110.02861;
// Micikevicius et al., "FP8 Formats for Deep Learning", 2022, arXiv:2209.05433.)
// std::invalid_argument for a block_size below 1.
[[nodiscard]] REPRISE_API std::shared_ptr<ActivationStore> quantized(QuantizedOptions options = {});

}  // namespace reprise::stores

#endif  // REPRISE_HOOKS_STORES_H_
