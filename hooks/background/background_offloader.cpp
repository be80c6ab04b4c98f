// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/hooks/background/background_offloader.h"

#include <c10/util/Exception.h>

#include <chrono>
#include <utility>
#include <vector>

#include "reprise/hooks/background/background.h"
#include "reprise/hooks/stored/option_checks.h"

namespace reprise::hooks_internal {
namespace {

void warn(const c10::Error& error) {
  TORCH_WARN_ONCE(error.what_without_backtrace(),
                  ". The tensor stays in memory. This warning appears once");
}

}  // namespace

BackgroundOffloader::BackgroundOffloader(BackgroundOptions options) : options_(std::move(options)) {
  check_not_negative(options_.name, {{"min_bytes", options_.min_bytes},
                                     {"max_in_flight_bytes", options_.max_in_flight_bytes},
                                     {"keep_last", options_.keep_last}});
}

std::shared_ptr<BackgroundEntry> BackgroundOffloader::keep(
    const at::Tensor& bytes, const std::shared_ptr<ActivationStore>& next) {
  report_failure();
  std::shared_ptr<BackgroundEntry> known, entry;  // destroyed after the lock
  {
    const Lock lock(mutex_);
    if (by_storage_.find(bytes, known)) {
      return known;
    }
    entry = owned(std::make_shared<BackgroundEntry>(shared_from_this(), bytes, next));
    by_storage_.add(entry);
    queue_.add(*entry);
  }
  send_oldest();
  wait_for_room();
  return entry;
}

std::shared_ptr<BackgroundEntry> BackgroundOffloader::owned(
    std::shared_ptr<BackgroundEntry> entry) {
  BackgroundEntry* const address = entry.get();
  return {address, [entry = std::move(entry)](BackgroundEntry* released) { released->release(); }};
}

void BackgroundOffloader::send_oldest() {
  while (const auto oldest = take_oldest()) {
    send(*oldest);
  }
}

// Returns null if enough have left.
std::shared_ptr<BackgroundEntry> BackgroundOffloader::take_oldest() {
  std::vector<std::shared_ptr<BackgroundEntry>> released;  // destroyed after the lock
  const Lock lock(mutex_);
  if (queue_.resident_count() <= options_.keep_last) {
    return nullptr;
  }
  auto oldest = queue_.take_oldest();
  while (oldest && !oldest->begin_work(lock)) {
    released.push_back(std::exchange(oldest, queue_.take_oldest()));
  }
  if (oldest) {
    oldest->state_ = BackgroundEntry::State::kLeaving;
  }
  return oldest;
}

// The caller has begun the work, which ends before another thread may begin its own.
void BackgroundOffloader::send(BackgroundEntry& entry) {
  try {
    auto place = find_place_or_forward(entry);
    if (place) {
      start_flight(entry, std::move(place));
    }
  } catch (...) {
    const Lock lock(mutex_);
    queue_.add_first(entry);
    entry.state_ = BackgroundEntry::State::kResident;
    throw;
  }
}

std::unique_ptr<Place> BackgroundOffloader::find_place_or_forward(BackgroundEntry& entry) {
  const BackgroundEntry::Work work(entry);
  auto place = find_place(entry);
  if (!place) {
    entry.forward();
  }
  return place;
}

// Its owners may be gone by now; then the background finds nothing to do.
void BackgroundOffloader::start_flight(BackgroundEntry& entry, std::unique_ptr<Place> place) {
  {
    const Lock lock(mutex_);
    entry.place_ = std::move(place);
    entry.state_ = BackgroundEntry::State::kInFlight;
    queue_.start_flight(entry);
  }
  try {
    run_in_background([weak = entry.weak_from_this()] { BackgroundEntry::write(weak); });
  } catch (...) {
    const Lock lock(mutex_);
    queue_.end_flight(entry);
    throw;
  }
}

std::unique_ptr<Place> BackgroundOffloader::find_place(const BackgroundEntry& entry) {
  try {
    return options_.find_place(
        {entry.origin_.size(), entry.device_, in_flight_bytes(), entry.next_});
  } catch (const c10::Error& error) {
    if (options_.throws_failures) {
      throw;
    }
    warn(error);
    return nullptr;
  }
}

// Others may be written or released meanwhile. The background does not wait for itself.
void BackgroundOffloader::wait_for_room() {
  std::chrono::nanoseconds waited{0};
  {
    Lock lock(mutex_);
    const auto has_room = [this] {
      return queue_.in_flight_bytes() <= options_.max_in_flight_bytes;
    };
    if (has_room() || must_not_wait()) {
      return;
    }
    const auto start = std::chrono::steady_clock::now();
    work_done_.wait(lock, has_room);
    waited = std::chrono::steady_clock::now() - start;
    counters_.put_time += waited;
  }
  options_.note_wait(waited);
}

std::int64_t BackgroundOffloader::in_flight_bytes() {
  const Lock lock(mutex_);
  return queue_.in_flight_bytes();
}

void BackgroundOffloader::report_failure() {
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

void BackgroundOffloader::count_forwarded(std::int64_t bytes) {
  const Lock lock(mutex_);
  counters_.bytes_forwarded += bytes;
}

BackgroundCounters BackgroundOffloader::counters() {
  const Lock lock(mutex_);
  BackgroundCounters counters = counters_;
  counters.in_flight_bytes = queue_.in_flight_bytes();
  counters.resident_bytes = queue_.resident_bytes();
  return counters;
}

void BackgroundOffloader::flush() {
  Lock lock(mutex_);
  work_done_.wait(lock, [this] { return queue_.in_flight_bytes() == 0; });
}

}  // namespace reprise::hooks_internal
