// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/partition/gathering/partitioned_slab.h"

#include <c10/core/StreamGuard.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "reprise/hooks/seam/unseen_scope.h"
#include "reprise/hooks/storage/current_stream.h"
#include "reprise/hooks/storage/memory_layout.h"

namespace reprise::partition_internal {

std::shared_ptr<PartitionedSlab> PartitionedSlab::put(std::shared_ptr<Gatherer> gatherer,
                                                      const std::vector<at::Tensor>& tensors,
                                                      ActivationStore& next, bool is_forwarded,
                                                      const std::string& owner) {
  SlabLayout layout(tensors);
  const std::vector<at::Tensor> rows = SlabLayout::rows_of(tensors);
  GatherDescription description = gatherer->describe(layout, rows, owner);
  auto part = next.put(layout.cut(rows, gatherer->rank(), gatherer->size()));
  return std::make_shared<PartitionedSlab>(
      std::move(gatherer), std::move(layout), std::move(description), std::move(part), is_forwarded,
      hooks_internal::current_stream_of(rows.front().device()));
}

PartitionedSlab::PartitionedSlab(std::shared_ptr<Gatherer> gatherer, SlabLayout layout,
                                 GatherDescription description, std::unique_ptr<StoredTensor> part,
                                 bool is_forwarded, std::optional<c10::Stream> stream)
    : gatherer_(std::move(gatherer)),
      layout_(std::move(layout)),
      description_(std::move(description)),
      is_forwarded_(is_forwarded),
      part_(std::move(part)),
      stream_(stream),
      entries_(layout_.size()) {}

void PartitionedSlab::prefetch(std::size_t index) {
  const hooks_internal::UnseenScope unseen;
  Lock lock(mutex_);
  if (gathered_ || is_starting_) {
    return;
  }
  // The other entries call this as well: only an entry's second call counts as the second.
  const bool is_first = !std::exchange(entries_[index].is_prefetched, true);
  if (is_forwarded_ && is_first) {
    lock.unlock();
    const c10::OptionalStreamGuard on_stream(stream_);
    part_->prefetch();
  } else {
    gather(lock);
  }
}

void PartitionedSlab::gather(Lock& lock) {
  is_starting_ = true;
  lock.unlock();
  std::optional<Gather> started;
  std::exception_ptr failure;
  try {
    const c10::OptionalStreamGuard on_stream(stream_);  // Note [Streams of a gather]
    started = gatherer_->start(part_->get(), description_);
  } catch (...) {
    failure = std::current_exception();
  }
  lock.lock();
  is_starting_ = false;
  gathered_ = std::move(started);
  has_started_.notify_all();
  if (failure) {
    std::rethrow_exception(failure);
  }
}

at::Tensor PartitionedSlab::get(std::size_t index) {
  const hooks_internal::UnseenScope unseen;
  std::optional<Gather> gathered;  // released without the lock
  std::optional<Gather> done;      // likewise
  Lock lock(mutex_);
  has_started_.wait(lock, [this] { return !is_starting_; });
  if (!gathered_) {
    gather(lock);
  }
  gathered = gathered_;
  lock.unlock();
  const auto is_still_gathered = [&] { return gathered_ && gathered_->work == gathered->work; };
  try {
    gatherer_->wait(*gathered, description_);
  } catch (...) {
    lock.lock();
    done = is_still_gathered() ? std::exchange(gathered_, std::nullopt) : std::nullopt;
    throw;
  }
  at::Tensor tensor = layout_.tensor(gathered->slab, index);
  lock.lock();
  if (is_still_gathered()) {
    entries_[index].is_got = true;
    done = give_up_if_done();
  }
  return tensor;
}

void PartitionedSlab::let_go(std::size_t index) {
  std::optional<Gather> done;
  const Lock lock(mutex_);
  entries_[index].is_alive = false;
  done = give_up_if_done();
}

std::optional<Gather> PartitionedSlab::give_up_if_done() {
  const bool is_wanted = std::any_of(entries_.begin(), entries_.end(), [](const Entry& entry) {
    return entry.is_alive && !entry.is_got;
  });
  if (is_wanted) {
    return std::nullopt;
  }
  for (Entry& entry : entries_) {
    entry = {.is_alive = entry.is_alive};
  }
  return std::exchange(gathered_, std::nullopt);
}

std::int64_t PartitionedSlab::device_bytes(std::size_t index) const {
  std::int64_t held = part_->device_bytes();
  {
    const Lock lock(mutex_);
    held += gathered_ ? hooks_internal::byte_count(gathered_->slab) : 0;
  }
  return held * layout_.bytes_of(index) / layout_.bytes();
}

}  // namespace reprise::partition_internal
