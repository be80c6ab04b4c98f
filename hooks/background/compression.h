// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Lossless compression of the bytes of tensors, by Zstandard (RFC 8878).
#ifndef REPRISE_HOOKS_BACKGROUND_COMPRESSION_H_
#define REPRISE_HOOKS_BACKGROUND_COMPRESSION_H_

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <optional>

namespace reprise::hooks_internal {

// The first bytes of each element, then the second ones, and so on: exponents are alike, mantissas
// are not. (After the shuffle filter of HDF5 and Blosc.)
void shuffle(const std::byte* bytes, std::size_t size, std::size_t element_size, std::byte* to);
void unshuffle(const std::byte* bytes, std::size_t size, std::size_t element_size, std::byte* to);

struct Compressed {
  at::Tensor bytes;
  std::size_t element_size;  // of the shuffle
};

// Returns nothing if the result would be larger than max_ratio of `size`. Element sizes of 1, 2, 4
// and 8 are tried on a part.
std::optional<Compressed> compress(const std::byte* bytes, std::size_t size, int level,
                                   double max_ratio);

// Throws c10::Error if `compressed` does not hold that.
void decompress(const Compressed& compressed, std::byte* bytes, std::size_t size);

// Throws std::invalid_argument for an unknown level.
void check_compression_level(int level);

}  // namespace reprise::hooks_internal

#endif  // REPRISE_HOOKS_BACKGROUND_COMPRESSION_H_
