// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: stores.h
//
// The ready stores. They combine: in `packed() | next` the first forwards its output to the second.
// Forwarding means to pass a tensor, processed or not, to the next store of the chain, or, without
// one, to leave it on its device.
//
// Not for stores over several processes: see reprise/partition/partitioned_store.h.
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

// Returns a store that holds an alias, as autograd does without a store. A modification in place
// after put() is an error in get(). Forwards nothing.
[[nodiscard]] REPRISE_API std::shared_ptr<ActivationStore> device();

struct PackedOptions {
  // Smaller tensors are forwarded unchanged.
  std::int64_t min_bytes = 1024;
  // Checks whether all elements of a floating-point or complex tensor have the same bits, and
  // stores one of them if so. Reads the whole tensor, and synchronises with the device.
  bool find_constants = false;
};

// Returns a store that packs tensors into less memory, cheaply and without loss:
//
// - bool (masks of dropout, attention and comparison): one bit per element
// - int16, int32, int64: the narrowest of uint8, int8, int16 and int32 that holds them, or one
//   value if all are equal. Determining this synchronises with the device.
// - any dtype: elements that share memory (a dimension of stride 0, `expand`) once
//
// Others are held as by device(). Forwards everything, packed or not. get() returns a contiguous
// tensor if elements overlap in memory other than by a stride of 0, otherwise one with the original
// strides. Indices and values of sparse tensors are packed like dense tensors; nested and quantized
// tensors are forwarded unchanged.
[[nodiscard]] REPRISE_API std::shared_ptr<ActivationStore> packed(PackedOptions options = {});

enum class QuantizedFormat : std::uint8_t {
  kInt8,        // 127 equal steps on either side of 0
  kFloat8E4m3,  // float8_e4m3fn: 3 bits of mantissa, for blocks of very unequal elements
};

struct QuantizedOptions {
  QuantizedFormat format = QuantizedFormat::kInt8;
  // Number of elements that share a scale. At least 1.
  std::int64_t block_size = 128;
  // Rounds up or down with the probabilities that preserve the mean, by generators of the store's
  // own: LibTorch's are not used.
  bool stochastic_rounding = false;
  std::uint64_t seed = 0;  // of these generators
  // Smaller tensors are forwarded unchanged.
  std::int64_t min_bytes = 4096;
};

// Returns a store that quantises floating-point tensors (float16, bfloat16, float32, float64) to
// one byte per element and one scale per block; the last block is padded. **Lossy**: gradients
// differ from a run without it. With `a` the largest magnitude in an element's block and `x` the
// element, the error before rounding to the original dtype is at most (if the scale, a / 127 or a /
// 448, is a normal number)
//
//   int8:         a / 254;                       stochastic: a / 127
//   float8_e4m3:  max(|x| / 16, a / 448 / 1024);  stochastic: max(|x| / 8, a / 448 / 512)
//
// A block with an infinity or a NaN comes back as NaNs. Blocks consist of adjacent elements in
// memory. Forwards its quantised output to the next store; forwards small tensors and other dtypes
// unchanged. The layout of results is as by packed(). (Blocks and formats: Dettmers et al., "8-bit
// Optimizers via Block-wise Quantization", 2021, arXiv:2110.02861; Micikevicius et al., "FP8
// Formats for Deep Learning", 2022, arXiv:2209.05433.)
//
// Throws: std::invalid_argument for a block_size below 1.
// Stream: does not synchronise.
[[nodiscard]] REPRISE_API std::shared_ptr<ActivationStore> quantized(QuantizedOptions options = {});

}  // namespace reprise::stores

#endif  // REPRISE_HOOKS_STORES_H_
