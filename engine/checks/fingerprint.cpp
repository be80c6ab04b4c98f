// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/checks/fingerprint.h"
#include "reprise/hooks/stored/sparse_parts.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "reprise/engine/operators/storage_id.h"

namespace reprise::engine_internal {
namespace {

// The number of words of at most 32 bits that are weighted and summed at a time.
constexpr std::int64_t kChunkWords = std::int64_t{1} << 20;

// Any odd multiplier with random-looking bits works; these are from SplitMix64 (Steele, Lea,
// Flood: Fast splittable pseudorandom number generators, OOPSLA 2014), the first with another last
// digit: it is 5 modulo 8, so that its powers, which weigh the chunks, differ in their low bits.
constexpr auto kChunkMultiplier = static_cast<std::int64_t>(0xBF58476D1CE4E5B5ULL);
constexpr auto kPlaceMultiplier = static_cast<std::int64_t>(0x94D049BB133111EBULL);

std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  const std::array words{a, b};
  return XXH3_64bits(words.data(), sizeof(words));
}

std::int64_t words_per_element(const at::Tensor& tensor) {
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(tensor.element_size()) / 4);
}

bool is_plain(const at::Tensor& tensor) {
  return tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg();
}

// Calls visit(chunk) for consecutive parts of the tensor in row-major order, each a contiguous
// one-dimensional tensor of at most `limit` elements. The parts depend on the shape only.
template <class Visitor>
void for_each_chunk(const at::Tensor& tensor, std::int64_t limit, const Visitor& visit) {
  const std::int64_t elements = tensor.numel();
  if (elements <= limit) {
    visit(tensor.resolve_conj().resolve_neg().contiguous().view({-1}));
    return;
  }
  const std::int64_t rows = tensor.size(0);
  if (rows == 1) {
    for_each_chunk(tensor.select(0, 0), limit, visit);
    return;
  }
  const std::int64_t step = std::max<std::int64_t>(1, limit / (elements / rows));
  for (std::int64_t row = 0; row < rows; row += step) {
    for_each_chunk(tensor.narrow(0, row, std::min(step, rows - row)), limit, visit);
  }
}

struct FreeXxhState {
  void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
};

std::uint64_t host_hash(const at::Tensor& tensor) {
  if (is_plain(tensor)) {
    return XXH3_64bits(tensor.const_data_ptr(), tensor.nbytes());
  }
  const std::unique_ptr<XXH3_state_t, FreeXxhState> state(XXH3_createState());
  TORCH_CHECK_WITH(OutOfMemoryError, state != nullptr, "no memory for the state of a hash");
  XXH3_64bits_reset(state.get());
  for_each_chunk(tensor, kChunkWords, [&](const at::Tensor& chunk) {
    XXH3_64bits_update(state.get(), chunk.const_data_ptr(), chunk.nbytes());
  });
  return XXH3_64bits_digest(state.get());
}

at::ScalarType integer_type(std::size_t element_size) {
  switch (element_size) {
    case 1:
      return at::kByte;
    case 2:
      return at::kShort;
    default:
      return at::kInt;
  }
}

// One odd 64-bit weight with random-looking bits for each place in a chunk.
at::Tensor place_weights(std::int64_t places, c10::Device device) {
  at::Tensor weights = at::arange(1, places + 1, at::TensorOptions(at::kLong).device(device));
  weights.mul_(kChunkMultiplier);
  weights.bitwise_xor_(weights.bitwise_right_shift(29)).mul_(kPlaceMultiplier);
  weights.bitwise_xor_(weights.bitwise_right_shift(32));
  return weights.bitwise_or_(1);
}

// The sum of word times weight modulo 2^64 is universal hashing by a multilinear form (Lemire,
// Kaser: Strongly universal string hashing is fast, 2014), with weights fixed instead of drawn.
// Integer sums are exact in any order, so the result does not depend on how a device adds.
at::Tensor device_hash(const at::Tensor& tensor) {
  const std::int64_t limit = kChunkWords / words_per_element(tensor);
  const std::int64_t places = std::min(tensor.numel(), limit) * words_per_element(tensor);
  const at::Tensor weights = place_weights(places, tensor.device());
  const at::ScalarType words = integer_type(tensor.element_size());
  at::Tensor hash = at::zeros({}, weights.options());
  for_each_chunk(tensor, limit, [&](const at::Tensor& chunk) {
    at::Tensor terms = chunk.view(words).to(at::kLong);
    terms.mul_(weights.narrow(0, 0, terms.numel()));
    hash.mul_(kChunkMultiplier).add_(terms.sum());
  });
  return hash;
}

// Returns the strided components of a tensor without strides.
std::vector<at::Tensor> components(const at::Tensor& tensor) {
  if (tensor.is_nested()) {
    return {tensor.values(), tensor._nested_tensor_size(), tensor._nested_tensor_strides(),
            tensor._nested_tensor_storage_offsets()};
  }
  return hooks_internal::is_sparse(tensor) ? hooks_internal::sparse_parts(tensor)
                                           : std::vector{tensor.to_dense()};
}

}  // namespace

Fingerprint Fingerprint::of(const at::Tensor& tensor) { return of_any(tensor, false); }

Fingerprint Fingerprint::of_by_operators(const at::Tensor& tensor) { return of_any(tensor, true); }

Fingerprint Fingerprint::of_any(const at::Tensor& tensor, bool by_operators) {
  if (!tensor.defined() || tensor.is_meta()) {
    return {};
  }
  if (tensor.layout() == at::kStrided && !tensor.is_nested()) {
    return of_strided(tensor, by_operators);
  }
  Fingerprint combined;
  for (const at::Tensor& component : components(tensor)) {
    combined.append(of_any(component, by_operators));
  }
  return combined;
}

Fingerprint Fingerprint::of_strided(const at::Tensor& tensor, bool by_operators) {
  Fingerprint result;
  if (is_wrapper(tensor)) {
    return result;
  }
  if (tensor._is_zerotensor()) {
    // Without memory to read.
    return of_strided(at::zeros(tensor.sizes(), tensor.options()), by_operators);
  }
  if (tensor.is_cpu() && !by_operators) {
    result.host_ = host_hash(tensor);
  } else {
    result.device_ = device_hash(tensor.is_quantized() ? tensor.int_repr() : tensor);
  }
  return result;
}

void Fingerprint::append(const Fingerprint& next) {
  host_ = mix(host_, next.host_);
  if (!next.device_.defined()) {
    return;
  }
  device_ = device_.defined() ? device_.mul(kChunkMultiplier).add_(next.device_) : next.device_;
}

bool Fingerprint::equal(const Fingerprint& a, const Fingerprint& b) {
  if (a.host_ != b.host_ || a.device_.defined() != b.device_.defined()) {
    return false;
  }
  if (!a.device_.defined()) {
    return true;
  }
  return a.device_.device() == b.device_.device() && at::equal(a.device_, b.device_);
}

}  // namespace reprise::engine_internal
