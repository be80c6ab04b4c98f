// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/hooks/host/host_offloader.h"
#include "reprise/hooks/stored/option_checks.h"

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>

#include <chrono>
#include <utility>

namespace reprise::hooks_internal {

HostOffloader::HostOffloader(HostOptions options)
    : options_(options), pins_(options.pin_memory), buffers_(options.max_host_bytes) {
  check_not_negative("stores.host", {{"min_bytes", options.min_bytes},
                                     {"max_host_bytes", options.max_host_bytes},
                                     {"max_in_flight_bytes", options.max_in_flight_bytes},
                                     {"max_device_bytes", options.max_device_bytes},
                                     {"keep_last", options.keep_last}});
}

std::shared_ptr<HostEntry> HostOffloader::keep(const at::Tensor& bytes,
                                               const std::shared_ptr<ActivationStore>& next) {
  std::shared_ptr<HostEntry> known, entry;  // destroyed after the lock
  {
    HostEntry::Tensors dropped;
    const Lock lock(mutex_);
    if (by_storage_.find(bytes, known)) {
      return known;
    }
    entry = std::make_shared<HostEntry>(shared_from_this(), bytes, next);
    by_storage_.add(entry);
    queue_.add(*entry);
    release_copied(dropped);
  }
  send_oldest();
  return entry;
}

HostOffloader::Streams HostOffloader::streams_of(c10::Device device) {
  const Lock lock(mutex_);
  const auto found = streams_.find(device.index());
  if (found != streams_.end()) {
    return found->second;
  }
  const c10::impl::VirtualGuardImpl guard(device.type());
  const Streams streams{guard.getStreamFromGlobalPool(device),
                        guard.getStreamFromGlobalPool(device)};
  return streams_.emplace(device.index(), streams).first->second;
}

void HostOffloader::send_oldest() {
  while (true) {
    std::shared_ptr<HostEntry> oldest;
    {
      const Lock lock(mutex_);
      if (queue_.resident_count() > options_.keep_last &&
          queue_.resident_bytes() > options_.max_device_bytes) {
        oldest = queue_.take_oldest();
      }
      if (oldest) {
        oldest->state_ = HostEntry::State::kLeaving;
      }
    }
    if (!oldest) {
      break;
    }
    send(*oldest);
  }
  HostEntry::Tensors dropped;
  const Lock lock(mutex_);
  while (queue_.in_flight_bytes() > options_.max_in_flight_bytes) {
    queue_.oldest_in_flight()->drop_device_bytes(dropped);
  }
}

void HostOffloader::return_to_queue(HostEntry& entry) {
  queue_.add_first(entry);
  entry.state_ = HostEntry::State::kResident;
}

void HostOffloader::send(HostEntry& entry) {
  HostEntry::Tensors dropped;
  std::vector<HostBuffer> to_release;
  std::optional<HostBuffers::Place> place;
  {
    Lock lock(mutex_);
    if (!entry.origin_.is_unchanged()) {
      entry.drop_device_bytes(dropped);
      return;
    }
    place = take_place(lock, entry.origin_.size(), to_release);
  }
  HostBuffers::release(std::move(to_release));
  if (place) {
    start_copy_out(entry, std::move(*place));
  } else {
    forward(entry);
  }
}

// Systems limit page-locked memory. Copies to and from pageable memory are as right, but slower.
HostBuffer HostOffloader::make_buffer(std::int64_t bytes) {
  if (pins_) {
    try {
      return HostBuffers::make(bytes, /*pin_memory=*/true);
    } catch (const c10::Error& error) {
      if (pins_.exchange(false)) {
        TORCH_WARN(
            "[stores.host] no page-locked memory for ", bytes,
            " bytes: ", error.what_without_backtrace(),
            ". From now on this store uses pageable memory, whose copies do not overlap with "
            "the computation. Limit it by HostOptions::max_host_bytes, or set pin_memory to "
            "false");
      }
    }
  }
  return HostBuffers::make(bytes, /*pin_memory=*/false);
}

void HostOffloader::start_copy_out(HostEntry& entry, HostBuffers::Place place) {
  const std::int64_t size = entry.origin_.size();
  EventPtr copied_out;
  try {
    if (!place) {
      place = make_buffer(size);
    }
    copied_out = copy_out(entry, *place);
  } catch (...) {
    const Lock lock(mutex_);
    if (place) {
      buffers_.give_back(std::move(*place));
    } else {
      buffers_.give_back_room(size);
    }
    return_to_queue(entry);
    throw;
  }
  const Lock lock(mutex_);
  queue_.start_flight(entry);
  entry.copied_out_ = std::move(copied_out);
  entry.buffer_ = std::move(place);
  entry.state_ = HostEntry::State::kInFlight;
  counters_.bytes_out += size;
}

void HostOffloader::forward(HostEntry& entry) {
  HostEntry::Tensors dropped;
  std::unique_ptr<StoredTensor> forwarded;
  try {
    forwarded = entry.next_->put(entry.device_bytes_);
  } catch (...) {
    const Lock lock(mutex_);
    return_to_queue(entry);
    throw;
  }
  const Lock lock(mutex_);
  entry.drop_device_bytes(dropped);
  entry.forwarded_ = std::move(forwarded);
  counters_.bytes_forwarded += entry.origin_.size();
}

EventPtr HostOffloader::copy_out(const HostEntry& entry, HostBuffer& buffer) {
  const c10::Stream out = streams_of(entry.put_stream_.device()).out;
  entry.put_->block(out);
  for (const EventPtr& use : buffer.uses) {
    use->block(out);
  }
  const c10::StreamGuard on_stream(out);
  buffer.bytes.copy_(entry.device_bytes_, /*non_blocking=*/true);
  return record_now(out);
}

std::optional<HostBuffers::Place> HostOffloader::take_place(Lock& lock, std::int64_t bytes,
                                                            std::vector<HostBuffer>& to_release) {
  auto place = buffers_.take(bytes, to_release);
  const auto until = std::chrono::steady_clock::now() + options_.max_wait;
  while (!place && options_.max_wait.count() > 0 &&
         buffer_returned_.wait_until(lock, until) == std::cv_status::no_timeout) {
    place = buffers_.take(bytes, to_release);
  }
  return place;
}

void HostOffloader::release_copied(HostEntry::Tensors& dropped) {
  HostEntry* oldest = queue_.oldest_in_flight();
  while (oldest != nullptr && oldest->copied_out_->query()) {
    oldest->drop_device_bytes(dropped);
    oldest = queue_.oldest_in_flight();
  }
}

void HostOffloader::wait_for(const c10::Event& copy, const c10::Stream& stream,
                             std::int64_t HostCounters::*waits,
                             std::chrono::nanoseconds HostCounters::*time) {
  if (copy.query()) {
    copy.block(stream);
    return;
  }
  const auto timed_now = [&stream] {
    auto event =
        std::make_shared<c10::Event>(stream.device_type(), c10::EventFlag::BACKEND_DEFAULT);
    event->record(stream);
    return event;
  };
  EventPtr begin = timed_now();
  copy.block(stream);
  waits_.push_back({std::move(begin), timed_now(), time});
  ++(counters_.*waits);
  count_time_of_waits();
}

void HostOffloader::count_time_of_waits() {
  waits_.remove_if([this](const Wait& wait) {
    if (!wait.end->query()) {
      return false;
    }
    try {
      const std::chrono::duration<double, std::milli> time(wait.begin->elapsedTime(*wait.end));
      counters_.*wait.time += std::chrono::duration_cast<std::chrono::nanoseconds>(time);
    } catch (const c10::Error&) {
      // The device does not measure time.
    }
    return true;
  });
}

void HostOffloader::count_forwarded(std::int64_t bytes) {
  const Lock lock(mutex_);
  counters_.bytes_forwarded += bytes;
}

HostCounters HostOffloader::counters() {
  HostEntry::Tensors dropped;
  const Lock lock(mutex_);
  release_copied(dropped);
  count_time_of_waits();
  HostCounters counters = counters_;
  counters.host_bytes = buffers_.bytes();
  counters.in_flight_bytes = queue_.in_flight_bytes();
  counters.resident_bytes = queue_.resident_bytes();
  return counters;
}

void HostOffloader::release_unused() {
  std::vector<HostBuffer> unused;
  {
    const Lock lock(mutex_);
    unused = buffers_.take_unused();
  }
  HostBuffers::release(std::move(unused));
}

}  // namespace reprise::hooks_internal
