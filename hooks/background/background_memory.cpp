// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/hooks/background/background_memory.h"

#include <c10/util/Exception.h>

#include <chrono>
#include <utility>

#include "reprise/hooks/background/background.h"

namespace reprise::hooks_internal {
namespace {

void warn(const c10::Error& error) {
  TORCH_WARN_ONCE(error.what_without_backtrace(),
                  ". The tensor stays in memory. This warning appears once");
}

}  // namespace

std::shared_ptr<BackgroundEntry> BackgroundMemory::keep(
    const at::Tensor& bytes, const std::shared_ptr<ActivationStore>& next) {
  tell_failure();
  std::shared_ptr<BackgroundEntry> known, entry;  // destroyed after the lock
  {
    const Lock lock(mutex_);
    known = by_storage_.find(bytes);
    if (known && known->origin().is_of(bytes)) {
      return known;
    }
    entry = std::make_shared<BackgroundEntry>(shared_from_this(), bytes, next);
    by_storage_.add(entry);
    resident_.push_back(entry.get());
    counters_.resident_bytes += bytes.nbytes();
  }
  send_oldest();
  wait_for_room();
  return entry;
}

void BackgroundMemory::send_oldest() {
  while (const auto oldest = take_oldest()) {
    send(*oldest);
  }
}

// Returns null if enough have left, or are being destroyed by other threads, which wait for the
// lock.
std::shared_ptr<BackgroundEntry> BackgroundMemory::take_oldest() {
  const Lock lock(mutex_);
  for (BackgroundEntry* const entry : resident_) {
    if (resident_.size() <= options_.keep_last) {
      return nullptr;
    }
    if (auto oldest = entry->weak_from_this().lock()) {
      resident_.remove(entry);
      counters_.resident_bytes -= entry->origin_.size();
      entry->state_ = BackgroundEntry::State::kLeaving;
      return oldest;
    }
  }
  return nullptr;
}

void BackgroundMemory::send(BackgroundEntry& entry) {
  const std::size_t size = entry.origin_.size();
  try {
    auto place = find_place(entry);
    if (!place) {
      entry.forward();
      return;
    }
    const Lock lock(mutex_);
    entry.place_ = std::move(place);
    entry.state_ = BackgroundEntry::State::kInFlight;
    counters_.in_flight_bytes += size;
  } catch (...) {
    const Lock lock(mutex_);
    resident_.push_front(&entry);
    counters_.resident_bytes += size;
    entry.state_ = BackgroundEntry::State::kResident;
    throw;
  }
  run_in_background([weak = entry.weak_from_this()] {
    if (const auto alive = weak.lock()) {
      alive->write();
    }
  });
}

std::unique_ptr<Place> BackgroundMemory::find_place(const BackgroundEntry& entry) {
  try {
    return options_.find_place(entry.origin_.size(), entry.next_);
  } catch (const c10::Error& error) {
    if (options_.throws_failures) {
      throw;
    }
    warn(error);
    return nullptr;
  }
}

// Others may be written or released meanwhile. The background does not wait for itself.
void BackgroundMemory::wait_for_room() {
  Lock lock(mutex_);
  const auto has_room = [this] {
    return counters_.in_flight_bytes <= options_.max_in_flight_bytes;
  };
  if (!has_room() && !must_not_wait()) {
    const auto start = std::chrono::steady_clock::now();
    work_done_.wait(lock, has_room);
    counters_.put_time += std::chrono::steady_clock::now() - start;
  }
}

void BackgroundMemory::tell_failure() {
  std::exception_ptr failure;
  {
    const Lock lock(mutex_);
    failure = std::exchange(failure_, nullptr);
  }
  if (!failure) {
    return;
  }
  try {
    std::rethrow_exception(failure);
  } catch (const c10::Error& error) {
    if (options_.throws_failures) {
      throw;
    }
    warn(error);
  }
}

void BackgroundMemory::count_forwarded(std::size_t bytes) {
  const Lock lock(mutex_);
  counters_.bytes_forwarded += static_cast<std::int64_t>(bytes);
}

BackgroundCounters BackgroundMemory::counters() {
  const Lock lock(mutex_);
  return counters_;
}

void BackgroundMemory::flush() {
  Lock lock(mutex_);
  work_done_.wait(lock, [this] { return counters_.in_flight_bytes == 0; });
}

}  // namespace reprise::hooks_internal
