// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// An entry on its way to its place; see also background_offloader_read.cpp.
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "reprise/hooks/background/background_offloader.h"
#include "reprise/hooks/storage/current_stream.h"

namespace reprise::hooks_internal {
namespace {

EventPtr record_on_device(c10::Device device) {
  const auto stream = current_stream_of(device);
  return stream ? record_now(*stream) : nullptr;
}

// Waits for the copy.
at::Tensor on_host(const at::Tensor& bytes, const EventPtr& put) {
  if (!put || !bytes.defined()) {
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
  drop_bytes();
  set_stored(State::kWritten);
}

// Frees the bytes on the owner's thread, also while another one works with the entry.
void BackgroundEntry::release() {
  at::Tensor dropped, loaded;  // freed after the lock
  BackgroundOffloader::Lock lock(memory_->mutex_);
  is_released_ = true;
  memory_->by_storage_.remove(origin_);
  const bool is_own_work = busy_thread_ == std::this_thread::get_id();
  memory_->work_done_.wait(lock, [&] { return is_own_work || !busy_thread_; });
  if (state_ == State::kResident) {
    memory_->queue_.remove_resident(*this);
    state_ = State::kStays;
  }
  if (!is_own_work) {
    dropped = std::exchange(bytes_, at::Tensor());
    loaded = std::exchange(loaded_, at::Tensor());
  }
}

bool BackgroundEntry::begin_work(const BackgroundOffloader::Lock& /*lock*/) {
  if (!is_released_) {
    busy_thread_ = std::this_thread::get_id();
  }
  return !is_released_;
}

void BackgroundEntry::end_work() {
  const BackgroundOffloader::Lock lock(memory_->mutex_);
  busy_thread_.reset();
  memory_->work_done_.notify_all();
}

class BackgroundEntry::Source final : public ByteSource {
 public:
  explicit Source(std::weak_ptr<BackgroundEntry> entry) : entry_(std::move(entry)) {}

  bool copy(std::int64_t offset, std::int64_t size, std::byte* to) override {
    const auto entry = entry_.lock();
    if (entry == nullptr) {
      return false;
    }
    if (!on_host_.defined() && !entry->device_.is_cpu()) {
      on_host_ = on_host(entry->find_bytes(), entry->put_);
    }
    {
      const BackgroundOffloader::Lock lock(entry->memory_->mutex_);
      const bool is_unneeded = entry->memory_->options_.moves_back && entry->is_requested_;
      if (is_unneeded || !entry->begin_work(lock)) {
        return false;
      }
    }
    const Work work(*entry);
    std::copy_n(data_of(on_host_.defined() ? on_host_ : entry->bytes_) + offset, size, to);
    return true;
  }

 private:
  const std::weak_ptr<BackgroundEntry> entry_;
  at::Tensor on_host_;  // of an accelerator's bytes
};

at::Tensor BackgroundEntry::find_bytes() const {
  const BackgroundOffloader::Lock lock(memory_->mutex_);
  return bytes_;
}

// Called by the thread that has made it kLeaving or kInFlight. A reader finds it with its bytes, or
// forwarded.
void BackgroundEntry::forward() {
  auto forwarded = next_->put(bytes_);
  State was = State::kLeaving;
  {
    at::Tensor dropped;  // freed after the lock
    const BackgroundOffloader::Lock lock(memory_->mutex_);
    forwarded_ = std::move(forwarded);
    memory_->counters_.bytes_forwarded += origin_.size();
    dropped = std::exchange(bytes_, at::Tensor());
    was = std::exchange(state_, State::kForwarded);
  }
  leave_queue(was, BackgroundOffloader::Lock(memory_->mutex_));
}

void BackgroundEntry::drop_bytes() {
  at::Tensor dropped;  // freed after the lock
  const BackgroundOffloader::Lock lock(memory_->mutex_);
  dropped = std::exchange(bytes_, at::Tensor());
}

void BackgroundEntry::set_stored(State state) {
  const BackgroundOffloader::Lock lock(memory_->mutex_);
  leave_queue(std::exchange(state_, state), lock);
}

// An entry in flight is done when its memory is free.
void BackgroundEntry::leave_queue(State was, const BackgroundOffloader::Lock& /*lock*/) {
  if (was == State::kResident) {
    memory_->queue_.remove_resident(*this);
  } else if (was == State::kInFlight) {
    memory_->queue_.end_flight(*this);
    memory_->work_done_.notify_all();
  }
}

bool BackgroundEntry::drop_bytes_if_written(Place::Outcome outcome) {
  at::Tensor dropped;           // freed after the lock
  std::shared_ptr<Place> left;  // as well
  const BackgroundOffloader::Lock lock(memory_->mutex_);
  const bool is_dropped =
      outcome == Place::Outcome::kWritten && !(is_requested_ && memory_->options_.moves_back);
  if (is_dropped) {
    dropped = std::exchange(bytes_, at::Tensor());
  } else {
    left = std::move(place_);
  }
  return is_dropped;
}

// In flight, no other thread changes bytes_ and place_.
void BackgroundEntry::write(const std::weak_ptr<BackgroundEntry>& weak) {
  auto entry = weak.lock();
  if (entry == nullptr) {
    return;
  }
  const std::int64_t size = entry->origin_.size();
  const std::shared_ptr<Place> place = entry->place_;
  auto outcome = Place::Outcome::kAbandoned;
  std::exception_ptr failure;
  {
    Source source(weak);
    entry.reset();
    try {
      outcome = place->write(source, size);
    } catch (...) {
      failure = std::current_exception();
    }
  }
  entry = weak.lock();
  if (entry != nullptr && entry->begin_work(BackgroundOffloader::Lock(entry->memory_->mutex_))) {
    const Work work(*entry);
    entry->end_write(outcome, failure);
  }
}

void BackgroundEntry::end_write(Place::Outcome outcome, std::exception_ptr failure) {
  const bool is_written = drop_bytes_if_written(outcome);
  try {
    if (is_written) {
      place_->finish();
    } else if (outcome == Place::Outcome::kRefused) {
      forward();
      return;
    }
  } catch (...) {
    failure = std::current_exception();
  }
  {
    const BackgroundOffloader::Lock lock(memory_->mutex_);
    memory_->failure_ = failure ? failure : memory_->failure_;
    memory_->counters_.bytes_out += is_written ? origin_.size() : 0;
  }
  set_stored(is_written ? State::kWritten : State::kStays);
}

}  // namespace reprise::hooks_internal
