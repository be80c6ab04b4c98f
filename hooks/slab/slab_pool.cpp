// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/hooks/slab/slab_pool.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <utility>

#include "reprise/hooks/seam/unseen_scope.h"
#include "reprise/hooks/storage/alias.h"
#include "reprise/hooks/storage/current_stream.h"
#include "reprise/hooks/storage/memory_layout.h"
#include "reprise/hooks/stored/option_checks.h"

namespace reprise::hooks_internal {
namespace {

constexpr std::int64_t kAlignment = 512;  // of the allocators of accelerators

std::int64_t rounded_up(std::int64_t size) {
  return (size + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

Slab::Slab(c10::Device device, std::int64_t size)
    : bytes(at::empty({static_cast<std::int64_t>(size)},
                      at::TensorOptions(at::kByte).device(device))),
      extents(size),
      stream(current_stream_of(device)) {}

SlabPart::~SlabPart() {
  note_use();  // by its last user, on a stream that get() has not seen
  const UnseenScope unseen;
  for (const c10::Stream& stream : streams_) {
    if (stream != slab_->stream) {
      slab_->bytes.record_stream(stream);
    }
  }
  SlabList dropped;  // freed after the lock
  const std::lock_guard lock(memory_->mutex_);
  dropped = memory_->give_back(*slab_, extent_, streams_);
}

at::Tensor SlabPart::bytes(const std::shared_ptr<SlabPart>& part, std::int64_t size) {
  const at::Tensor& slab = part->slab_->bytes;
  auto* const start = static_cast<std::byte*>(slab.mutable_data_ptr()) + part->extent_.offset;
  at::Tensor bytes = at::from_blob(
      start, {static_cast<std::int64_t>(size)}, [part](void* /*start*/) {}, slab.options(),
      slab.device());
  // Nobody else writes to the memory, or frees it: it is not a user's that is wrapped.
  bytes.storage().unsafeGetStorageImpl()->set_allocator(slab.storage().allocator());
  return bytes;
}

void SlabPart::note_use() {
  const auto stream = current_stream_of(slab_->bytes.device());
  const std::lock_guard lock(mutex_);
  if (stream && std::find(streams_.begin(), streams_.end(), *stream) == streams_.end()) {
    streams_.push_back(*stream);
  }
}

SlabEntry::SlabEntry(std::shared_ptr<SlabPool> memory, const at::Tensor& bytes)
    : memory_(std::move(memory)),
      origin_(bytes),
      part_(memory_->take(bytes.device(), bytes.nbytes())),
      kept_(SlabPart::bytes(part_, bytes.nbytes())),
      version_((kept_.copy_(bytes, /*non_blocking=*/true), version_of(kept_))) {}

SlabEntry::~SlabEntry() {
  const std::lock_guard lock(memory_->mutex_);
  memory_->by_storage_.remove(origin_);
}

at::Tensor SlabEntry::get_own() { return own_copy(get()); }

at::Tensor SlabEntry::get() {
  TORCH_CHECK(version_of(kept_) == version_,
              "[stores.slab] a tensor needed for gradient computation has been modified by an "
              "inplace operation after it was brought back: ",
              origin_.size(), " bytes on ", kept_.device(), ". Clone it before changing it");
  part_->note_use();
  return kept_;
}

SlabPool::SlabPool(SlabOptions options) : options_(options) {
  check_not_negative("stores.slab", {{"initial_bytes", options.initial_bytes},
                                     {"initial_tensors", options.initial_tensors},
                                     {"min_bytes", options.min_bytes}});
}

std::shared_ptr<SlabEntry> SlabPool::keep(const at::Tensor& bytes,
                                          const std::shared_ptr<ActivationStore>& /*next*/) {
  std::shared_ptr<SlabEntry> known;  // destroyed after the lock
  {
    const std::lock_guard lock(mutex_);
    if (by_storage_.find(bytes, known)) {
      return known;
    }
  }
  auto entry = std::make_shared<SlabEntry>(shared_from_this(), bytes);
  const std::lock_guard lock(mutex_);
  by_storage_.add(entry);
  return entry;
}

std::shared_ptr<SlabPart> SlabPool::take(c10::Device device, std::int64_t size) {
  const std::int64_t length = rounded_up(size);
  std::optional<Room> room = find_room(device, length);
  if (!room) {
    room = make_room(device, length);
  }
  auto part = std::make_shared<SlabPart>(shared_from_this(), room->slab, room->extent);
  if (room->outgrown > 0) {
    TORCH_WARN_ONCE("[stores.slab] the slab of ", room->outgrown, " bytes on ", device,
                    " is full, and ", length,
                    " more bytes are needed: another one is allocated. Either the step keeps more "
                    "than the first one did, or forwards ran without a backward. This warning "
                    "appears once");
  }
  const auto stream = current_stream_of(device);
  for (const auto& [other, event] : room->given) {
    if (other != stream) {
      event->block(*stream);
    }
  }
  part->note_use();
  return part;
}

std::optional<SlabPool::Room> SlabPool::find_room(c10::Device device, std::int64_t length) {
  const std::lock_guard lock(mutex_);
  return take_room(slabs_of(device), length);
}

// Creates a slab without the lock: an allocator is foreign code. Two threads may each create one;
// the second takes its part from the first one's, if there is space.
SlabPool::Room SlabPool::make_room(c10::Device device, std::int64_t length) {
  std::int64_t wanted = 0;
  std::int64_t bytes = length;
  {
    const std::lock_guard lock(mutex_);
    Slabs& slabs = slabs_of(device);
    if (slabs.wanted == 0) {
      slabs.wanted = std::max(options_.initial_bytes, options_.initial_tensors * length);
    }
    wanted = slabs.wanted;
    bytes = slabs.slabs.empty() ? std::max(wanted, length) : length;
  }
  const auto made = std::make_shared<Slab>(device, bytes);
  const std::lock_guard lock(mutex_);
  Slabs& slabs = slabs_of(device);
  std::optional<Room> room = take_room(slabs, length);
  if (!room) {
    const bool has_grown = !slabs.slabs.empty() && wanted > 0;
    growths_ += has_grown ? 1 : 0;
    slabs.slabs.push_back(made);
    room = take_room(slabs, length);
    room->outgrown = has_grown ? wanted : 0;
  }
  return std::move(room).value();
}

SlabPool::Slabs& SlabPool::slabs_of(c10::Device device) {
  return devices_[{device.type(), device.index()}];
}

std::optional<SlabPool::Room> SlabPool::take_room(Slabs& slabs, std::int64_t length) {
  for (const auto& slab : slabs.slabs) {
    if (const auto found = slab->extents.take(length)) {
      slabs.used += length;
      slabs.peak_used = std::max(slabs.peak_used, slabs.used);
      return Room{.slab = slab, .extent = *found, .given = slab->given};
    }
  }
  return std::nullopt;
}

SlabList SlabPool::give_back(Slab& slab, const Extent& extent,
                             const std::vector<c10::Stream>& streams) {
  slab.extents.give_back(extent);
  for (const c10::Stream& stream : streams) {
    slab.given[stream] = record_now(stream);
  }
  Slabs& slabs = slabs_of(slab.bytes.device());
  slabs.used -= extent.length;
  return slabs.used == 0 && slabs.slabs.size() > 1 ? merge(slabs) : SlabList();
}

SlabList SlabPool::merge(Slabs& slabs) {
  // A sized slab was full: due to fragmentation the peak alone is not enough.
  std::int64_t all = 0;
  for (const auto& slab : slabs.slabs) {
    all += slab->bytes.nbytes();
  }
  slabs.wanted = slabs.wanted > 0 ? all : slabs.peak_used;
  return std::exchange(slabs.slabs, {});
}

SlabCounters SlabPool::counters() const {
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
