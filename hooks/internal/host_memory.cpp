// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/hooks/internal/host_memory.h"

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <chrono>
#include <utility>

namespace reprise::hooks_internal {

HostMemory::HostMemory(HostOptions options)
    : options_(options), buffers_(options.pin_memory, options.max_host_bytes) {}

std::shared_ptr<HostEntry> HostMemory::keep(const at::Tensor& bytes,
                                            const std::shared_ptr<ActivationStore>& next) {
  std::shared_ptr<HostEntry> known, entry;  // destroyed after the lock
  Lock lock(mutex_);
  known = by_storage_.find(bytes);
  if (known && known->origin().is_of(bytes)) {
    return known;
  }
  entry = std::make_shared<HostEntry>(shared_from_this(), bytes, next);
  by_storage_.add(entry);
  resident_.push_back(entry.get());
  counters_.resident_bytes += bytes.nbytes();
  let_go_of_copied();
  send_oldest(lock);
  return entry;
}

const HostMemory::Streams& HostMemory::streams_of(c10::Device device) {
  const auto found = streams_.find(device.index());
  if (found != streams_.end()) {
    return found->second;
  }
  const c10::impl::VirtualGuardImpl guard(device.type());
  const Streams streams{guard.getStreamFromGlobalPool(device),
                        guard.getStreamFromGlobalPool(device)};
  return streams_.emplace(device.index(), streams).first->second;
}

void HostMemory::send_oldest(Lock& lock) {
  while (resident_.size() > options_.keep_last &&
         counters_.resident_bytes > options_.max_device_bytes) {
    start_copy_out(lock, *resident_.front());
  }
  while (counters_.in_flight_bytes > options_.max_in_flight_bytes) {
    in_flight_.front()->drop_device_bytes();
  }
}

void HostMemory::start_copy_out(Lock& lock, HostEntry& entry) {
  if (!entry.origin_.is_unchanged()) {
    entry.drop_device_bytes();
    return;
  }
  auto buffer = take_buffer(lock, entry.origin_.size());
  if (!buffer) {
    auto handed_on = entry.next_->put(entry.device_bytes_);
    entry.drop_device_bytes();
    entry.handed_on_ = std::move(handed_on);
    counters_.bytes_handed_on += static_cast<std::int64_t>(entry.origin_.size());
    return;
  }
  try {
    entry.copied_out_ = copy_out(entry, *buffer);
  } catch (...) {
    buffers_.give_back(std::move(*buffer));
    throw;  // the tensor stays where it is
  }
  entry.buffer_ = std::move(buffer);
  resident_.remove(&entry);
  counters_.resident_bytes -= entry.origin_.size();
  in_flight_.push_back(&entry);
  counters_.in_flight_bytes += entry.origin_.size();
  counters_.bytes_out += static_cast<std::int64_t>(entry.origin_.size());
}

EventPtr HostMemory::copy_out(const HostEntry& entry, HostBuffer& buffer) {
  const c10::Stream& out = streams_of(entry.put_stream_.device()).out;
  entry.put_->block(out);
  for (const EventPtr& use : buffer.uses) {
    use->block(out);
  }
  const c10::StreamGuard on_stream(out);
  buffer.bytes.copy_(entry.device_bytes_, /*non_blocking=*/true);
  return record_now(out);
}

std::optional<HostBuffer> HostMemory::take_buffer(Lock& lock, std::size_t bytes) {
  auto buffer = buffers_.take(bytes);
  const auto until = std::chrono::steady_clock::now() + options_.max_wait;
  while (!buffer && options_.max_wait.count() > 0 &&
         given_back_.wait_until(lock, until) == std::cv_status::no_timeout) {
    buffer = buffers_.take(bytes);
  }
  return buffer;
}

void HostMemory::let_go_of_copied() {
  while (!in_flight_.empty() && in_flight_.front()->copied_out_->query()) {
    in_flight_.front()->drop_device_bytes();
  }
}

void HostMemory::wait_for(const c10::Event& copy, const c10::Stream& stream,
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

void HostMemory::count_time_of_waits() {
  waits_.remove_if([this](const Wait& wait) {
    if (!wait.end->query()) {
      return false;
    }
    try {
      const std::chrono::duration<double, std::milli> time(wait.begin->elapsedTime(*wait.end));
      counters_.*wait.time += std::chrono::duration_cast<std::chrono::nanoseconds>(time);
    } catch (const c10::Error&) {
      // A device that measures no time.
    }
    return true;
  });
}

void HostMemory::count_handed_on(std::size_t bytes) {
  const Lock lock(mutex_);
  counters_.bytes_handed_on += static_cast<std::int64_t>(bytes);
}

HostCounters HostMemory::counters() {
  const Lock lock(mutex_);
  let_go_of_copied();
  count_time_of_waits();
  HostCounters counters = counters_;
  counters.host_bytes = buffers_.bytes();
  return counters;
}

void HostMemory::release_unused() {
  const Lock lock(mutex_);
  buffers_.release_unused();
}

}  // namespace reprise::hooks_internal
