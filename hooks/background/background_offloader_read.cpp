// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// An entry on its way back from its place.
#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include <chrono>
#include <exception>
#include <memory>
#include <utility>

#include "reprise/hooks/background/background.h"
#include "reprise/hooks/background/background_offloader.h"
#include "reprise/hooks/storage/memory_layout.h"

namespace reprise::hooks_internal {

// Releases the lock. The memory is the caller's, whose limits apply to it, unless the place
// releases some first.
void BackgroundEntry::start_read(std::unique_lock<std::mutex>& lock) {
  is_being_read_ = true;
  lock.unlock();
  try {
    at::Tensor memory =
        moves_back() ? at::Tensor()
                     : at::empty({origin_.size()}, at::TensorOptions(at::kByte).device(at::kCPU));
    run_in_background([weak = weak_from_this(), memory = std::move(memory)]() mutable {
      if (const auto alive = weak.lock()) {
        alive->read(std::move(memory));
      }
    });
  } catch (...) {
    lock.lock();
    is_being_read_ = false;
    memory_->work_done_.notify_all();
    throw;
  }
}

bool BackgroundEntry::moves_back() const {
  return memory_->options_.moves_back && device_.is_cpu();
}

// Until it is done, no other thread changes place_. loaded: its memory, if there is any yet.
void BackgroundEntry::read(at::Tensor loaded) {
  std::shared_ptr<Place> left;  // destroyed after the lock
  std::exception_ptr failure;
  try {
    if (moves_back()) {
      place_->start_last_read();
    }
    if (!loaded.defined()) {
      loaded = at::empty({origin_.size()}, at::TensorOptions(at::kByte).device(at::kCPU));
    }
    place_->read(static_cast<std::byte*>(loaded.mutable_data_ptr()), origin_.size());
  } catch (...) {
    failure = std::current_exception();
  }
  const BackgroundOffloader::Lock lock(memory_->mutex_);
  is_being_read_ = false;
  read_error_ = failure;
  if (!failure) {
    memory_->counters_.bytes_in += origin_.size();
    if (moves_back()) {
      bytes_ = std::move(loaded);
      state_ = State::kStays;
      left = std::move(place_);
    } else {
      loaded_ = std::move(loaded);
    }
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
  is_requested_ = true;
  if (state_ != State::kWritten || is_being_read_ || loaded_.defined()) {
    return;
  }
  alive = origin_.find_alive();
  if (!alive.defined()) {
    start_read(lock);
  }
}

at::Tensor BackgroundEntry::bring_back(bool is_own) {
  at::Tensor found;  // released without the lock
  BackgroundOffloader::Lock lock(memory_->mutex_);
  is_requested_ = true;
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
    if (state_ == State::kInFlight) {  // its thread is finishing, and waits for nobody
      memory_->work_done_.wait(lock, [this] { return state_ != State::kInFlight; });
    } else {
      wait_for_read(lock);
    }
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
    read(at::Tensor());
    lock.lock();
  } else if (!is_being_read_) {
    start_read(lock);
    lock.lock();
  }
  memory_->work_done_.wait(lock, [this] { return !is_being_read_; });
  const std::chrono::nanoseconds waited = std::chrono::steady_clock::now() - start;
  ++memory_->counters_.waits;
  memory_->counters_.wait_time += waited;
  memory_->options_.note_wait(waited);
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
  if (!device_.is_cpu()) {
    return 0;
  }
  if (state_ != State::kWritten) {
    return loaded;
  }
  const std::shared_ptr<Place> place = place_;
  lock.unlock();
  return loaded + place->memory_bytes();
}

}  // namespace reprise::hooks_internal
