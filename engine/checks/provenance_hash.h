// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The hash that provenance is made of.
#ifndef REPRISE_ENGINE_CHECKS_PROVENANCE_HASH_H_
#define REPRISE_ENGINE_CHECKS_PROVENANCE_HASH_H_

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "reprise/engine/checks/provenance.h"

namespace reprise::engine_internal {

// Initial values of hashes, by kind.
enum Seed : std::uint64_t {
  kUndefined = 0x51ed270b,
  kNumber,
  kOpaque,
  kOutside,
  kInput,
  kCast,
  kOther,
  kWritten,
  kShared,
};

inline Provenance mix_in(Provenance hash, std::uint64_t value) {
  constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15U;
  hash = (hash ^ value) * kOdd;
  return hash ^ (hash >> 32U);
}

inline Provenance of_number(const at::Tensor& number) {
  std::uint64_t bits[2] = {};
  std::memcpy(static_cast<void*>(bits), number.const_data_ptr(),
              std::min(number.nbytes(), sizeof(bits)));
  return mix_in(mix_in(mix_in(kNumber, static_cast<std::uint64_t>(number.scalar_type())), bits[0]),
                bits[1]);
}

inline Provenance with_geometry(Provenance hash, const at::Tensor& tensor, std::int64_t shift) {
  const at::IntArrayRef sizes = tensor.sizes();
  const auto flags = static_cast<std::uint64_t>(tensor.is_conj()) << 1U |
                     static_cast<std::uint64_t>(tensor.is_neg());
  hash = mix_in(hash, static_cast<std::uint64_t>(tensor.scalar_type()) << 2U | flags);
  hash = mix_in(hash, static_cast<std::uint64_t>(tensor.storage_offset() - shift));
  if (tensor.is_contiguous()) {  // then the sizes determine the strides
    for (const std::int64_t size : sizes) {
      hash = mix_in(hash, static_cast<std::uint64_t>(size));
    }
    return hash;
  }
  const at::IntArrayRef strides = tensor.strides();
  for (std::size_t dim = 0; dim < sizes.size(); ++dim) {
    hash = mix_in(hash, static_cast<std::uint64_t>(sizes[dim]));
    // The stride of a dimension of one element is irrelevant.
    hash = mix_in(hash, sizes[dim] == 1 ? 0 : static_cast<std::uint64_t>(strides[dim]));
  }
  return hash;
}

inline Provenance of_cast(const at::Tensor& cast) {
  return mix_in(kCast, static_cast<std::uint64_t>(cast.scalar_type()));
}

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_CHECKS_PROVENANCE_HASH_H_
