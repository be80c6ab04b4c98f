// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include <ATen/ops/empty.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/StreamGuard.h>
#include <c10/util/Exception.h>

#include <utility>

#include "reprise/hooks/host/host_offloader.h"
#include "reprise/hooks/storage/current_stream.h"
#include "reprise/hooks/storage/memory_layout.h"

namespace reprise::hooks_internal {

HostEntry::HostEntry(std::shared_ptr<HostOffloader> memory, const at::Tensor& bytes,
                     std::shared_ptr<ActivationStore> next)
    : memory_(std::move(memory)),
      next_(std::move(next)),
      origin_(bytes),
      put_stream_(*current_stream_of(bytes.device())),
      put_(record_now(put_stream_)),
      device_bytes_(bytes) {}

HostEntry::~HostEntry() {
  Tensors dropped;  // freed after the lock
  const HostOffloader::Lock lock(memory_->mutex_);
  memory_->by_storage_.remove(origin_);
  drop_device_bytes(dropped);
  if (loaded_) {
    loaded_->done->block(loaded_->stream);
  }
  if (buffer_) {
    buffer_->uses = std::move(copies_in_);
    buffer_->uses.push_back(copied_out_);
    memory_->buffers_.give_back(std::move(*buffer_));
    memory_->buffer_returned_.notify_all();
  }
}

// Removes it from the queue, after the copy out if there is one.
void HostEntry::drop_device_bytes(Tensors& dropped) {
  if (!device_bytes_.defined()) {
    return;
  }
  is_modified_ = !origin_.is_unchanged();
  if (state_ == State::kInFlight) {
    memory_->wait_for(*copied_out_, put_stream_, &HostCounters::put_waits,
                      &HostCounters::put_wait_time);
    memory_->queue_.end_flight(*this);
  } else if (state_ == State::kResident) {
    memory_->queue_.remove_resident(*this);
  }
  state_ = State::kGone;
  dropped.push_back(std::exchange(device_bytes_, at::Tensor()));
}

void HostEntry::prefetch() {
  at::Tensor alive;  // released without the lock
  std::int64_t loads = 0;
  {
    HostOffloader::Lock lock(memory_->mutex_);
    if (forwarded_) {
      lock.unlock();
      forwarded_->prefetch();
      return;
    }
    if (is_modified_ || device_bytes_.defined() || loaded_ || is_being_loaded_) {
      return;
    }
    alive = origin_.find_alive();
    if (alive.defined()) {
      return;
    }
    is_being_loaded_ = true;
    loads = loads_;
  }
  std::optional<Load> load;
  try {
    load = start_copy_in();
  } catch (...) {
    const HostOffloader::Lock lock(memory_->mutex_);
    is_being_loaded_ = false;
    throw;
  }
  const HostOffloader::Lock lock(memory_->mutex_);
  is_being_loaded_ = false;
  note_copy_in(*load);
  if (loads_ == loads + 1) {
    loaded_ = std::move(load);
  } else {
    load->done->block(load->stream);  // another thread cannot wait for it, and has its own
  }
}

at::Tensor HostEntry::bring_back(bool is_own) {
  at::Tensor alive;          // released without the lock
  std::optional<Load> load;  // likewise
  HostOffloader::Lock lock(memory_->mutex_);
  if (forwarded_) {
    lock.unlock();
    return is_own ? forwarded_->get_own() : forwarded_->get();
  }
  TORCH_CHECK(!is_modified_ && (!device_bytes_.defined() || origin_.is_unchanged()),
              "[stores] a tensor needed for gradient computation has been modified by an inplace "
              "operation before it was copied to the host: ",
              origin_.size(), " bytes on ", put_stream_.device(), " were put at version ",
              origin_.version(), ". Clone it before changing it");
  alive = device_bytes_.defined() ? device_bytes_ : origin_.find_alive();
  if (alive.defined()) {
    memory_->counters_.bytes_reused += origin_.size();
    lock.unlock();
    return is_own ? own_copy(alive) : alive;
  }
  load = std::exchange(loaded_, std::nullopt);
  if (!load) {
    lock.unlock();
    load = start_copy_in();
    lock.lock();
    note_copy_in(*load);
  }
  memory_->wait_for(*load->done, *current_stream_of(put_stream_.device()), &HostCounters::waits,
                    &HostCounters::wait_time);
  if (!is_own) {
    origin_.note_given(load->bytes);
  }
  return load->bytes;
}

HostEntry::Load HostEntry::start_copy_in() {
  const c10::Device device = put_stream_.device();
  const c10::Stream in = memory_->streams_of(device).in;
  const c10::DeviceGuard guard(device);
  Load load{at::empty({origin_.size()}, at::TensorOptions(at::kByte).device(device)),
            *current_stream_of(device), nullptr};
  record_now(load.stream)->block(in);
  copied_out_->block(in);
  const c10::StreamGuard on_stream(in);
  load.bytes.copy_(buffer_->bytes, /*non_blocking=*/true);
  load.done = record_now(in);
  return load;
}

void HostEntry::note_copy_in(const Load& load) {
  ++loads_;
  std::erase_if(copies_in_, [](const EventPtr& copy) { return copy->query(); });
  copies_in_.push_back(load.done);
  memory_->counters_.bytes_in += origin_.size();
}

std::int64_t HostEntry::device_bytes() const {
  HostOffloader::Lock lock(memory_->mutex_);
  if (forwarded_) {
    lock.unlock();
    return forwarded_->device_bytes();
  }
  return device_bytes_.defined() || loaded_ ? origin_.size() : 0;
}

}  // namespace reprise::hooks_internal
