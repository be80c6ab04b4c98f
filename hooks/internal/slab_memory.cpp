// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/hooks/internal/slab_memory.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <utility>

#include "reprise/hooks/internal/current_stream.h"
#include "reprise/hooks/internal/kept_tensor.h"

namespace reprise::hooks_internal {
namespace {

constexpr std::size_t kAlignment = 512;  // of what allocators of accelerators give

std::size_t rounded_up(std::size_t size) {
  return (size + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

Slab::Slab(c10::Device device, std::size_t size)
    : bytes(at::empty({static_cast<std::int64_t>(size)},
                      at::TensorOptions(at::kByte).device(device))),
      extents(size),
      stream(current_stream_of(device)) {}

SlabPart::~SlabPart() {
  note_use();  // by whoever has had it last, on a stream that get() has not seen
  const std::lock_guard lock(memory_->mutex_);
  memory_->give_back(*slab_, extent_, streams_);
}

at::Tensor SlabPart::bytes(const std::shared_ptr<SlabPart>& part, std::size_t size) {
  const at::Tensor& slab = part->slab_->bytes;
  auto* const start = static_cast<std::byte*>(slab.mutable_data_ptr()) + part->extent_.offset;
  return at::from_blob(
      start, {static_cast<std::int64_t>(size)}, [part](void* /*start*/) {}, slab.options(),
      slab.device());
}

void SlabPart::note_use() {
  const auto stream = current_stream_of(slab_->bytes.device());
  const std::lock_guard lock(mutex_);
  if (stream && std::find(streams_.begin(), streams_.end(), *stream) == streams_.end()) {
    streams_.push_back(*stream);
  }
}

SlabEntry::SlabEntry(std::shared_ptr<SlabMemory> memory, const at::Tensor& bytes)
    : memory_(std::move(memory)),
      origin_(bytes),
      part_(memory_->take(bytes.device(), bytes.nbytes())),
      kept_(SlabPart::bytes(part_, bytes.nbytes())),
      version_((kept_.copy_(bytes, /*non_blocking=*/true), version_of(kept_))) {}

SlabEntry::~SlabEntry() {
  const std::lock_guard lock(memory_->mutex_);
  memory_->by_storage_.remove(origin_);
}

at::Tensor SlabEntry::get() {
  TORCH_CHECK(version_of(kept_) == version_,
              "[stores.slab] a tensor needed for gradient computation has been modified by an "
              "inplace operation after it was brought back: ",
              origin_.size(), " bytes on ", kept_.device(), ". Clone it before changing it");
  part_->note_use();
  return kept_;
}

std::shared_ptr<SlabEntry> SlabMemory::keep(const at::Tensor& bytes,
                                            const std::shared_ptr<ActivationStore>& /*next*/) {
  std::shared_ptr<SlabEntry> known;  // destroyed after the lock
  {
    const std::lock_guard lock(mutex_);
    known = by_storage_.find(bytes);
    if (known && known->origin().is_of(bytes)) {
      return known;
    }
  }
  auto entry = std::make_shared<SlabEntry>(shared_from_this(), bytes);
  const std::lock_guard lock(mutex_);
  by_storage_.add(entry);
  return entry;
}

std::shared_ptr<SlabPart> SlabMemory::take(c10::Device device, std::size_t size) {
  const std::size_t length = rounded_up(size);
  const auto stream = current_stream_of(device);
  const std::lock_guard lock(mutex_);
  Extent extent;
  auto slab = slab_with_room(device, length, extent);
  Slabs& slabs = devices_[{device.type(), device.index()}];
  slabs.used += length;
  slabs.peak_used = std::max(slabs.peak_used, slabs.used);
  for (const auto& [other, event] : slab->given) {
    if (other != stream) {
      event->block(*stream);
    }
  }
  auto part = std::make_shared<SlabPart>(shared_from_this(), std::move(slab), extent);
  part->note_use();
  return part;
}

std::shared_ptr<Slab> SlabMemory::slab_with_room(c10::Device device, std::size_t length,
                                                 Extent& extent) {
  Slabs& slabs = devices_[{device.type(), device.index()}];
  for (const auto& slab : slabs.slabs) {
    if (const auto found = slab->extents.take(length)) {
      extent = *found;
      return slab;
    }
  }
  if (slabs.wanted == 0) {
    slabs.wanted = std::max(options_.initial_bytes, options_.initial_tensors * length);
  }
  const std::size_t wanted = slabs.wanted;
  if (!slabs.slabs.empty() && wanted > 0) {
    ++growths_;
    TORCH_WARN_ONCE("[stores.slab] the slab of ", wanted, " bytes on ", device, " is full, and ",
                    length,
                    " bytes more are put: another one is made. A step "
                    "that keeps more than the first one did, or forwards without backward; further "
                    "times are not told");
  }
  const bool is_first = slabs.slabs.empty();
  auto slab = std::make_shared<Slab>(device, is_first ? std::max(wanted, length) : length);
  extent = slab->extents.take(length).value();
  slabs.slabs.push_back(slab);
  return slab;
}

void SlabMemory::give_back(Slab& slab, const Extent& extent,
                           const std::vector<c10::Stream>& streams) {
  slab.extents.give_back(extent);
  for (const c10::Stream& stream : streams) {
    slab.given[stream] = record_now(stream);
    if (stream != slab.stream) {
      slab.bytes.record_stream(stream);
    }
  }
  const c10::Device device = slab.bytes.device();
  Slabs& slabs = devices_[{device.type(), device.index()}];
  slabs.used -= extent.length;
  if (slabs.used == 0 && slabs.slabs.size() > 1) {
    merge(slabs);
  }
}

void SlabMemory::merge(Slabs& slabs) {
  // One that had been sized was full: its parts lay so that the peak alone is not enough.
  std::size_t all = 0;
  for (const auto& slab : slabs.slabs) {
    all += slab->bytes.nbytes();
  }
  slabs.wanted = slabs.wanted > 0 ? all : slabs.peak_used;
  slabs.slabs.clear();
}

SlabCounters SlabMemory::counters() const {
  const std::lock_guard lock(mutex_);
  SlabCounters counters;
  for (const auto& [device, slabs] : devices_) {
    counters.used_bytes += slabs.used;
    counters.peak_used_bytes += slabs.peak_used;
    for (const auto& slab : slabs.slabs) {
      ++counters.slabs;
      counters.slab_bytes += slab->bytes.nbytes();
      counters.largest_free_bytes =
          std::max(counters.largest_free_bytes, slab->extents.largest_free());
    }
  }
  counters.growths = growths_;
  return counters;
}

}  // namespace reprise::hooks_internal
