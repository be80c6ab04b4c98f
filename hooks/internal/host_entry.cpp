// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include <ATen/ops/empty.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/StreamGuard.h>
#include <c10/util/Exception.h>

#include <utility>

#include "reprise/hooks/internal/current_stream.h"
#include "reprise/hooks/internal/host_memory.h"

namespace reprise::hooks_internal {

HostEntry::HostEntry(std::shared_ptr<HostMemory> memory, const at::Tensor& bytes,
                     std::shared_ptr<ActivationStore> next)
    : memory_(std::move(memory)),
      next_(std::move(next)),
      origin_(bytes),
      put_stream_(*current_stream_of(bytes.device())),
      put_(record_now(put_stream_)),
      device_bytes_(bytes) {}

HostEntry::~HostEntry() {
  const HostMemory::Lock lock(memory_->mutex_);
  memory_->by_storage_.remove(origin_);
  drop_device_bytes();
  if (loaded_.defined()) {
    copied_in_->block(*load_stream_);
  }
  if (buffer_) {
    buffer_->uses = {copied_out_};
    if (copied_in_) {
      buffer_->uses.push_back(copied_in_);
    }
    memory_->buffers_.give_back(std::move(*buffer_));
    memory_->given_back_.notify_all();
  }
}

// From either list, after the copy out if there is one.
void HostEntry::drop_device_bytes() {
  if (!device_bytes_.defined()) {
    return;
  }
  is_spoilt_ = !origin_.is_unchanged();
  if (copied_out_) {
    memory_->wait_for(*copied_out_, put_stream_, &HostCounters::put_waits,
                      &HostCounters::put_wait_time);
    memory_->in_flight_.remove(this);
    memory_->counters_.in_flight_bytes -= origin_.size();
  } else {
    memory_->resident_.remove(this);
    memory_->counters_.resident_bytes -= origin_.size();
  }
  device_bytes_.reset();
}

void HostEntry::prefetch() {
  HostMemory::Lock lock(memory_->mutex_);
  if (handed_on_) {
    lock.unlock();
    handed_on_->prefetch();
  } else if (!is_spoilt_ && !device_bytes_.defined() && !loaded_.defined() &&
             !origin_.find_alive().defined()) {
    start_copy_in();
  }
}

at::Tensor HostEntry::get() {
  HostMemory::Lock lock(memory_->mutex_);
  if (handed_on_) {
    lock.unlock();
    return handed_on_->get();
  }
  TORCH_CHECK(!is_spoilt_ && (!device_bytes_.defined() || origin_.is_unchanged()),
              "[stores] a tensor needed for gradient computation has been modified by an inplace "
              "operation before it was copied to the host: ",
              origin_.size(), " bytes on ", put_stream_.device(), " were put at version ",
              origin_.version(), ". Clone it before changing it");
  if (at::Tensor alive = device_bytes_.defined() ? device_bytes_ : origin_.find_alive();
      alive.defined()) {
    memory_->counters_.bytes_left += static_cast<std::int64_t>(origin_.size());
    return alive;
  }
  if (!loaded_.defined()) {
    start_copy_in();
  }
  memory_->wait_for(*copied_in_, *current_stream_of(put_stream_.device()), &HostCounters::waits,
                    &HostCounters::wait_time);
  origin_.note_given(loaded_);
  return std::exchange(loaded_, at::Tensor());
}

void HostEntry::start_copy_in() {
  const c10::Device device = put_stream_.device();
  const c10::DeviceGuard guard(device);
  const c10::Stream stream = *current_stream_of(device);
  const at::Tensor loaded = at::empty({static_cast<std::int64_t>(origin_.size())},
                                      at::TensorOptions(at::kByte).device(device));
  const EventPtr allocated = record_now(stream);
  const c10::Stream& in = memory_->streams_of(device).in;
  allocated->block(in);
  copied_out_->block(in);
  const c10::StreamGuard on_stream(in);
  loaded.copy_(buffer_->bytes, /*non_blocking=*/true);
  copied_in_ = record_now(in);
  loaded_ = loaded;
  load_stream_ = stream;
  memory_->counters_.bytes_in += static_cast<std::int64_t>(origin_.size());
}

std::size_t HostEntry::device_bytes() const {
  HostMemory::Lock lock(memory_->mutex_);
  if (handed_on_) {
    lock.unlock();
    return handed_on_->device_bytes();
  }
  return device_bytes_.defined() || loaded_.defined() ? origin_.size() : 0;
}

}  // namespace reprise::hooks_internal
