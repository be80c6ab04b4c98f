// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/selective/unset_memory.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/Allocator.h>
#include <sys/mman.h>

#include <algorithm>
#include <utility>

namespace reprise::engine_internal {
namespace {

// Returns memory that takes no space until it is written; null if the system refuses.
std::shared_ptr<void> reserve(std::size_t bytes) {
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory ==
      MAP_FAILED) {  // NOLINT(performance-no-int-to-ptr,*-cstyle-cast): the system's macro
    return nullptr;
  }
  return {memory, [bytes](void* reserved) { munmap(reserved, bytes); }};
}

std::shared_ptr<void> allocate_block(c10::Device device, std::size_t bytes) {
  if (device.is_cpu()) {
    if (auto reserved = reserve(bytes)) {
      return reserved;
    }
  }
  const at::Tensor block =
      at::empty({static_cast<std::int64_t>(bytes)}, at::TensorOptions(at::kByte).device(device));
  return {block.data_ptr(), [block](void*) {}};
}

}  // namespace

at::Tensor UnsetMemory::tensor_like(const TensorMetadata& metadata) {
  const std::size_t bytes = at::detail::computeStorageNbytes(metadata.sizes, metadata.strides,
                                                             c10::elementSize(metadata.dtype));
  const auto memory = memory_of(metadata.device, std::max<std::size_t>(bytes, 1));
  return at::for_blob(memory.get(), metadata.sizes)
      .strides(metadata.strides)
      .deleter([memory](void*) {})
      .options(at::TensorOptions(metadata.dtype).device(metadata.device))
      .target_device(metadata.device)
      .make_tensor();
}

std::shared_ptr<void> UnsetMemory::memory_of(c10::Device device, std::size_t bytes) {
  Block& block = blocks_[device];
  if (block.bytes < bytes) {
    // The CPU's takes no space, so that a generous one saves later ones.
    constexpr std::size_t kReserved = std::size_t{1} << 32;
    const std::size_t size = device.is_cpu() ? std::max(2 * bytes, kReserved) : bytes;
    block = {allocate_block(device, size), size};
  }
  return block.memory;
}

void UnsetMemory::allocate(const at::Tensor& tensor) {
  c10::StorageImpl& storage = *tensor.storage().unsafeGetStorageImpl();
  storage.set_data_ptr_noswap(
      c10::GetAllocator(tensor.device().type())->allocate(storage.nbytes()));
}

}  // namespace reprise::engine_internal
