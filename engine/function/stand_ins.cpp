// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/function/stand_ins.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
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

at::Tensor StandIns::unset_like(const Geometry& geometry, c10::Device device) {
  const std::size_t bytes = at::detail::computeStorageNbytes(geometry.sizes, geometry.strides,
                                                             c10::elementSize(geometry.dtype));
  const auto memory = memory_of(device, std::max<std::size_t>(bytes, 1));
  return at::for_blob(memory.get(), geometry.sizes)
      .strides(geometry.strides)
      .deleter([memory](void*) {})
      .options(at::TensorOptions(geometry.dtype).device(device))
      .target_device(device)
      .make_tensor();
}

std::shared_ptr<void> StandIns::memory_of(c10::Device device, std::size_t bytes) {
  Block& block = blocks_[device];
  if (block.bytes < bytes) {
    // The CPU's takes no space, so that a generous one saves later ones.
    constexpr std::size_t kReserved = std::size_t{1} << 32;
    const std::size_t size = device.is_cpu() ? std::max(2 * bytes, kReserved) : bytes;
    block = {allocate_block(device, size), size};
  }
  return block.memory;
}

at::Tensor StandIns::make(const Geometry& geometry, c10::Device device, bool has_memory) {
  at::Tensor tensor = has_memory
                          ? at::empty_strided(geometry.sizes, geometry.strides,
                                              at::TensorOptions(geometry.dtype).device(device))
                          : unset_like(geometry, device);
  unset_.insert_or_assign(storage_id_of(tensor),
                          Unset{weak_storage_of(tensor), /*is_stand_in=*/true});
  return tensor;
}

void StandIns::note_left_out(const at::Tensor& target) {
  unset_.try_emplace(storage_id_of(target), Unset{weak_storage_of(target)});
}

void StandIns::note_filled(const at::Tensor& target) {
  const auto found = unset_.find(storage_id_of(target));
  if (found == unset_.end() || !found->second.is_stand_in) {
    return;
  }
  unset_.erase(found);
  c10::StorageImpl& storage = *storage_of(target);
  storage.set_data_ptr_noswap(
      c10::GetAllocator(target.device().type())->allocate(storage.nbytes()));
}

std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> StandIns::left(
    absl::FunctionRef<std::size_t(StorageId)> ours) const {
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> left;
  for (const auto& [memory, unset] : unset_) {
    if (!unset.storage.expired() && unset.storage.use_count() > ours(memory)) {
      left.push_back(unset.storage);
    }
  }
  return left;
}

}  // namespace reprise::engine_internal
