// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/partition/internal/partitioned_slab.h"

#include <c10/core/GradMode.h>
#include <c10/core/StreamGuard.h>

#include <algorithm>
#include <utility>

#include "reprise/hooks/internal/current_stream.h"

namespace reprise::partition_internal {

std::shared_ptr<PartitionedSlab> PartitionedSlab::put(std::shared_ptr<Gatherer> gatherer,
                                                      const std::vector<at::Tensor>& tensors,
                                                      ActivationStore& next, bool is_handed_on,
                                                      const std::string& owner) {
  SlabLayout layout(tensors);
  const std::vector<at::Tensor> rows = SlabLayout::rows_of(tensors);
  GatherWords words = gatherer->words_for(layout, rows, owner);
  auto part = next.put(layout.cut(rows, gatherer->rank(), gatherer->size()));
  return std::make_shared<PartitionedSlab>(
      std::move(gatherer), std::move(layout), std::move(words), std::move(part), is_handed_on,
      hooks_internal::current_stream_of(rows.front().device()));
}

PartitionedSlab::PartitionedSlab(std::shared_ptr<Gatherer> gatherer, SlabLayout layout,
                                 GatherWords words, std::unique_ptr<StoredTensor> part,
                                 bool is_handed_on, std::optional<c10::Stream> stream)
    : gatherer_(std::move(gatherer)),
      layout_(std::move(layout)),
      words_(std::move(words)),
      is_handed_on_(is_handed_on),
      part_(std::move(part)),
      stream_(stream),
      entries_(layout_.size()) {}

void PartitionedSlab::prefetch(std::size_t index) {
  const std::lock_guard lock(mutex_);
  if (gathered_) {
    return;
  }
  // The other entries ask as well: only an entry's second time is a second time.
  const bool is_first = !std::exchange(entries_[index].is_prefetched, true);
  if (is_handed_on_ && is_first) {
    const c10::OptionalStreamGuard on_stream(stream_);
    part_->prefetch();
  } else {
    gather();
  }
}

void PartitionedSlab::gather() {
  const at::NoGradGuard no_grad;
  const c10::OptionalStreamGuard on_stream(stream_);  // Note [Streams of a gather]
  gathered_ = gatherer_->start(part_->get(), words_);
}

at::Tensor PartitionedSlab::get(std::size_t index) {
  std::optional<Gather> done;
  const at::NoGradGuard no_grad;
  const std::lock_guard lock(mutex_);
  if (!gathered_) {
    gather();
  }
  try {
    gatherer_->wait(*gathered_, words_);
  } catch (...) {
    done = std::exchange(gathered_, std::nullopt);
    throw;
  }
  at::Tensor tensor = layout_.tensor(gathered_->slab, index);
  entries_[index].is_got = true;
  done = give_up_if_done();
  return tensor;
}

void PartitionedSlab::let_go(std::size_t index) {
  std::optional<Gather> done;
  const std::lock_guard lock(mutex_);
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

std::size_t PartitionedSlab::device_bytes(std::size_t index) const {
  const std::lock_guard lock(mutex_);
  const std::size_t held = part_->device_bytes() + (gathered_ ? gathered_->slab.nbytes() : 0);
  return held * static_cast<std::size_t>(layout_.bytes_of(index)) /
         static_cast<std::size_t>(layout_.bytes());
}

}  // namespace reprise::partition_internal
