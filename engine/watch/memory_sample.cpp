// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/watch/memory_sample.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/StorageImpl.h>
#include <c10/util/complex.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>

#include "reprise/engine/checks/fingerprint.h"
#include "reprise/engine/operators/storage_id.h"
#include "reprise/hooks/seam/unseen_scope.h"

namespace reprise::engine_internal {
namespace {

constexpr std::size_t kSmallBytes = 240;  // up to which XXH3 is as fast as collecting words

// Takes no mutable pointer, which would trigger a copy on write.
const std::byte* memory_of(c10::StorageImpl& storage) {
  return static_cast<const std::byte*>(storage._mutable_data_ptr_no_checks().get());
}

MemorySample sample_words(const std::byte* memory, std::size_t bytes) {
  std::array<std::uint64_t, 8> words;
  constexpr std::size_t kWordBytes = sizeof(words[0]);
  const std::size_t step = (bytes - kWordBytes) / (words.size() - 1);
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    std::memcpy(&words[i], memory + i * step, kWordBytes);
  }
  std::memcpy(&words.back(), memory + bytes - kWordBytes, kWordBytes);
  return XXH3_64bits(words.data(), sizeof(words));
}

MemorySample sample_bytes(const std::byte* memory, std::size_t bytes, bool of_all_bytes) {
  if (memory == nullptr || bytes == 0) {
    return 0;
  }
  const bool is_small = bytes <= kSmallBytes;
  return (of_all_bytes || is_small ? XXH3_64bits(memory, bytes) : sample_words(memory, bytes)) | 1;
}

// In row-major order.
std::size_t place_of_element(const at::Tensor& tensor, std::int64_t index) {
  std::int64_t place = tensor.storage_offset();
  for (std::int64_t dim = tensor.dim() - 1; dim >= 0; --dim) {
    place += index % tensor.size(dim) * tensor.stride(dim);
    index /= tensor.size(dim);
  }
  return static_cast<std::size_t>(place) * tensor.itemsize();
}

}  // namespace

MemorySample sample_elements(const at::Tensor& tensor) {
  constexpr std::int64_t kMost = 16;
  const std::int64_t last = tensor.numel() - 1;
  const std::byte* const memory = memory_of(*storage_of(tensor));
  if (memory == nullptr || last < 0) {
    return 0;
  }
  std::array<std::byte, kMost * sizeof(c10::complex<double>)> sample;
  const std::size_t bytes = tensor.itemsize();
  const std::int64_t steps = std::min(last, kMost - 1);
  const bool is_contiguous = tensor.is_contiguous();
  const auto place_of = [&](std::int64_t index) {
    return is_contiguous ? static_cast<std::size_t>(tensor.storage_offset() + index) * bytes
                         : place_of_element(tensor, index);
  };
  for (std::int64_t i = 0; i <= steps; ++i) {
    const std::int64_t index = steps == 0 ? 0 : i * last / steps;
    std::memcpy(sample.data() + static_cast<std::size_t>(i) * bytes, memory + place_of(index),
                bytes);
  }
  return XXH3_64bits(sample.data(), static_cast<std::size_t>(steps + 1) * bytes) | 1;
}

MemorySample sample_object(const at::Tensor& tensor) {
  const at::NoGradGuard no_grad;
  const hooks_internal::UnseenScope unseen;
  return Fingerprint::of(tensor).host() | 1;
}

MemorySample sample_wrapped(const at::Tensor& tensor) {
  constexpr std::size_t kMostBytes = std::size_t{1} << 20;
  return storage_of(tensor)->nbytes() <= kMostBytes ? sample_memory(tensor, /*of_all_bytes=*/true)
                                                    : sample_elements(tensor);
}

MemorySample sample_memory(const at::Tensor& tensor, bool of_all_bytes) {
  c10::StorageImpl* const storage = storage_of(tensor);
  return storage == nullptr ? 0 : sample_storage(*storage, of_all_bytes);
}

MemorySample sample_contiguous(const at::Tensor& tensor, bool of_all_bytes) {
  const std::byte* const memory = memory_of(*storage_of(tensor));
  const std::size_t offset = static_cast<std::size_t>(tensor.storage_offset()) * tensor.itemsize();
  return memory == nullptr ? 0 : sample_bytes(memory + offset, tensor.nbytes(), of_all_bytes);
}

MemorySample sample_storage(c10::StorageImpl& storage, bool of_all_bytes) {
  if (storage.device_type() != c10::DeviceType::CPU) {
    return 0;
  }
  return sample_bytes(memory_of(storage), storage.nbytes(), of_all_bytes);
}

}  // namespace reprise::engine_internal
