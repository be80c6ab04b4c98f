// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include <ATen/ops/empty.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>

#include <chrono>
#include <utility>

#include "reprise/hooks/background/background.h"
#include "reprise/hooks/background/background_offloader.h"
#include "reprise/hooks/storage/current_stream.h"
#include "reprise/hooks/storage/memory_layout.h"

namespace reprise::hooks_internal {
namespace {

EventPtr record_on_device(c10::Device device) {
  const auto stream = current_stream_of(device);
  return stream ? record_now(*stream) : nullptr;
}

// Waits for the copy.
at::Tensor on_host(const at::Tensor& bytes, const EventPtr& put) {
  if (!put) {
    return bytes;
  }
  const c10::impl::VirtualGuardImpl device(bytes.device().type());
  const c10::Stream stream = device.getStreamFromGlobalPool(bytes.device());
  const c10::StreamGuard on_stream(stream);
  put->block(stream);
  return bytes.to(at::kCPU);
}

const std::byte* data_of(const at::Tensor& bytes) {
  return static_cast<const std::byte*>(bytes.const_data_ptr());
}

}  // namespace

BackgroundEntry::BackgroundEntry(std::shared_ptr<BackgroundOffloader> memory,
                                 const at::Tensor& bytes, std::shared_ptr<ActivationStore> next)
    : memory_(std::move(memory)),
      next_(std::move(next)),
      origin_(bytes),
      device_(bytes.device()),
      put_(record_on_device(device_)),
      bytes_(bytes) {}

BackgroundEntry::~BackgroundEntry() {
  {
    const BackgroundOffloader::Lock lock(memory_->mutex_);
    memory_->by_storage_.remove(origin_);
  }
  release_bytes(State::kWritten);
}

// Called by the thread that has made it kLeaving or kInFlight.
void BackgroundEntry::forward() {
  auto forwarded = next_->put(bytes_);
  {
    const BackgroundOffloader::Lock lock(memory_->mutex_);
    forwarded_ = std::move(forwarded);
    memory_->counters_.bytes_forwarded += origin_.size();
  }
  release_bytes(State::kForwarded);
}

// An entry in flight is done when its memory is free.
void BackgroundEntry::release_bytes(State state) {
  State was = state;
  {
    at::Tensor dropped;  // freed after the lock
    const BackgroundOffloader::Lock lock(memory_->mutex_);
    was = std::exchange(state_, state);
    if (was == State::kResident) {
      memory_->queue_.remove_resident(*this);
    }
    if (state != State::kFailed) {
      dropped = std::exchange(bytes_, at::Tensor());
    }
  }
  if (was == State::kInFlight) {
    const BackgroundOffloader::Lock lock(memory_->mutex_);
    memory_->queue_.end_flight(*this);
    memory_->work_done_.notify_all();
  }
}

// In flight, no other thread changes bytes_ and place_.
void BackgroundEntry::write() {
  std::exception_ptr failure;
  bool is_written = false;
  try {
    is_written = place_->write(data_of(on_host(bytes_, put_)), origin_.size());
    if (!is_written) {
      forward();
    }
  } catch (...) {
    failure = std::current_exception();
  }
  {
    const BackgroundOffloader::Lock lock(memory_->mutex_);
    memory_->failure_ = failure ? failure : memory_->failure_;
    memory_->counters_.bytes_out += is_written ? origin_.size() : 0;
  }
  if (failure || is_written) {
    release_bytes(failure ? State::kFailed : State::kWritten);
  }
}

void BackgroundEntry::start_read() {
  is_being_read_ = true;
  run_in_background([weak = weak_from_this()] {
    if (const auto alive = weak.lock()) {
      alive->read();
    }
  });
}

void BackgroundEntry::read() {
  at::Tensor loaded;
  std::exception_ptr failure;
  try {
    loaded = at::empty({origin_.size()}, at::kByte);
    place_->read(static_cast<std::byte*>(loaded.mutable_data_ptr()), origin_.size());
  } catch (...) {
    failure = std::current_exception();
  }
  const BackgroundOffloader::Lock lock(memory_->mutex_);
  is_being_read_ = false;
  read_error_ = failure;
  if (!failure) {
    loaded_ = std::move(loaded);
    memory_->counters_.bytes_in += origin_.size();
  }
  memory_->work_done_.notify_all();
}

void BackgroundEntry::prefetch() {
  at::Tensor alive;  // released without the lock
  BackgroundOffloader::Lock lock(memory_->mutex_);
  if (state_ == State::kForwarded) {
    lock.unlock();
    forwarded_->prefetch();
    return;
  }
  if (state_ != State::kWritten || is_being_read_ || loaded_.defined()) {
    return;
  }
  alive = origin_.find_alive();
  if (!alive.defined()) {
    start_read();
  }
}

at::Tensor BackgroundEntry::bring_back(bool is_own) {
  at::Tensor found;  // released without the lock
  BackgroundOffloader::Lock lock(memory_->mutex_);
  if (state_ == State::kForwarded) {
    lock.unlock();  // for which the background thread that reads it may be waiting
    return is_own ? forwarded_->get_own() : forwarded_->get();
  }
  // It may have been modified while it was being written.
  TORCH_CHECK(origin_.is_unchanged(), "[", memory_->options_.name,
              "] a tensor needed for gradient computation has been modified by an "
              "inplace operation: ",
              origin_.size(), " bytes on ", device_, " were put at version ", origin_.version(),
              ". Clone it before changing it");
  while (true) {
    found = bytes_.defined() ? bytes_ : origin_.find_alive();
    if (found.defined()) {
      memory_->counters_.bytes_reused += origin_.size();
      lock.unlock();
      return is_own ? own_copy(found) : found;
    }
    found = std::exchange(loaded_, at::Tensor());
    if (found.defined()) {
      break;
    }
    wait_for_read(lock);
  }
  if (!device_.is_cpu()) {
    lock.unlock();
    found = found.to(device_);
    lock.lock();
  }
  if (!is_own) {
    origin_.note_given(found);
  }
  return found;
}

// Afterwards another thread may have received the bytes.
void BackgroundEntry::wait_for_read(std::unique_lock<std::mutex>& lock) {
  const auto start = std::chrono::steady_clock::now();
  if (!is_being_read_ && must_not_wait()) {
    is_being_read_ = true;
    lock.unlock();
    read();
    lock.lock();
  } else if (!is_being_read_) {
    start_read();
  }
  memory_->work_done_.wait(lock, [this] { return !is_being_read_; });
  ++memory_->counters_.waits;
  memory_->counters_.wait_time += std::chrono::steady_clock::now() - start;
  if (read_error_) {
    std::rethrow_exception(read_error_);
  }
}

std::int64_t BackgroundEntry::device_bytes() const {
  BackgroundOffloader::Lock lock(memory_->mutex_);
  if (state_ == State::kForwarded) {
    lock.unlock();
    return forwarded_->device_bytes();
  }
  if (bytes_.defined()) {
    return origin_.size();
  }
  const std::int64_t loaded = loaded_.defined() ? loaded_.numel() : 0;
  lock.unlock();
  return device_.is_cpu() ? loaded + place_->memory_bytes() : 0;
}

}  // namespace reprise::hooks_internal
