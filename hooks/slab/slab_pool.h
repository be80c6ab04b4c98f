// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The state that SlabStore and its copies share: the slabs of each device, and their parts in use.
//
// Note [Parts and streams]: a part is written and read on the streams that are current in put() and
// get(). When it is released, events after their queued work are recorded; a stream that takes a
// part of that slab waits for the events of others. Events are recorded under the lock, so that the
// last one remains; no other code of LibTorch runs under it.
#ifndef REPRISE_HOOKS_SLAB_SLAB_POOL_H_
#define REPRISE_HOOKS_SLAB_SLAB_POOL_H_

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "reprise/hooks/buffers/extents.h"
#include "reprise/hooks/buffers/host_buffers.h"
#include "reprise/hooks/slab_store.h"
#include "reprise/hooks/storage/entries_by_storage.h"
#include "reprise/hooks/storage/storage_origin.h"

namespace reprise::hooks_internal {

// One piece of memory. Its fields are guarded by the lock of its SlabPool.
struct Slab {
  Slab(c10::Device device, std::int64_t size);

  at::Tensor bytes;
  Extents extents;
  std::optional<c10::Stream> stream;                // on which it was allocated; none for the CPU
  std::unordered_map<c10::Stream, EventPtr> given;  // the last uses of released parts
};
using SlabList = std::list<std::shared_ptr<Slab>>;

class SlabPool;

// A part of a slab, released on destruction.
class SlabPart {
 public:
  SlabPart(std::shared_ptr<SlabPool> memory, std::shared_ptr<Slab> slab, Extent extent)
      : memory_(std::move(memory)), slab_(std::move(slab)), extent_(extent) {}
  ~SlabPart();
  SlabPart(const SlabPart&) = delete;
  SlabPart& operator=(const SlabPart&) = delete;

  // Returns a tensor that owns `part`.
  static at::Tensor bytes(const std::shared_ptr<SlabPart>& part, std::int64_t size);

  // The current stream reads or writes it from now on.
  void note_use();

 private:
  const std::shared_ptr<SlabPool> memory_;
  const std::shared_ptr<Slab> slab_;
  const Extent extent_;
  std::mutex mutex_;
  std::vector<c10::Stream> streams_;
};

// One storage.
class SlabEntry {
 public:
  SlabEntry(std::shared_ptr<SlabPool> memory, const at::Tensor& bytes);
  ~SlabEntry();
  SlabEntry(const SlabEntry&) = delete;
  SlabEntry& operator=(const SlabEntry&) = delete;

  void prefetch() {}
  at::Tensor get();
  at::Tensor get_own();
  std::int64_t device_bytes() const { return origin_.size(); }
  const StorageOrigin& origin() const { return origin_; }

 private:
  const std::shared_ptr<SlabPool> memory_;
  const StorageOrigin origin_;
  const std::shared_ptr<SlabPart> part_;
  const at::Tensor kept_;
  const std::int64_t version_;
};

class SlabPool : public std::enable_shared_from_this<SlabPool> {
 public:
  explicit SlabPool(SlabOptions options);

  const SlabOptions& options() const { return options_; }
  static bool takes(c10::Device /*device*/) { return true; }
  void count_forwarded(std::int64_t /*bytes*/) {}

  // bytes: of a whole storage.
  std::shared_ptr<SlabEntry> keep(const at::Tensor& bytes,
                                  const std::shared_ptr<ActivationStore>& next);
  SlabCounters counters() const;

 private:
  friend class SlabEntry;
  friend class SlabPart;

  struct Slabs {
    SlabList slabs;
    std::int64_t used = 0, peak_used = 0;
    std::int64_t wanted = 0;  // size of the next slab if there is none; 0: unknown
  };
  struct Room {
    std::shared_ptr<Slab> slab;
    Extent extent;
    std::unordered_map<c10::Stream, EventPtr> given;
    std::int64_t outgrown = 0;  // size of the full slab, if another one had to be created
  };

  std::shared_ptr<SlabPart> take(c10::Device device, std::int64_t size);
  std::optional<Room> find_room(c10::Device device, std::int64_t length);
  Room make_room(c10::Device device, std::int64_t length);
  // Called with the lock. The results must be freed without it.
  Slabs& slabs_of(c10::Device device);
  static std::optional<Room> take_room(Slabs& slabs, std::int64_t length);
  SlabList give_back(Slab& slab, const Extent& extent, const std::vector<c10::Stream>& streams);
  // If all are empty: the next one has space for all their contents.
  static SlabList merge(Slabs& slabs);

  const SlabOptions options_;
  mutable std::mutex mutex_;
  EntriesByStorage<SlabEntry> by_storage_;
  std::map<std::pair<c10::DeviceType, c10::DeviceIndex>, Slabs> devices_;
  std::int64_t growths_ = 0;
};

}  // namespace reprise::hooks_internal

#endif  // REPRISE_HOOKS_SLAB_SLAB_POOL_H_
