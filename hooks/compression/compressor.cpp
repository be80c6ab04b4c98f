// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/hooks/compression/compressor.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <thread>

#include "reprise/hooks/compression/compressed_place.h"

namespace reprise::hooks_internal {
namespace {

using Clock = TimeBudget::Clock;

CompressedOptions checked(const CompressedOptions& options) {
  check_compression_level(options.level);
  if (!(options.max_slowdown >= 0)) {  // NaN as well
    throw std::invalid_argument("[stores.compressed] max_slowdown is " +
                                std::to_string(options.max_slowdown) + "; it must be at least 0");
  }
  return options;
}

// Called by the computation's thread, whose number of threads may be its own.
double share_of_work_noticed() {
  static const auto kCores = static_cast<double>(std::thread::hardware_concurrency());
  constexpr double kWorkers = 2;
  const double idle = kCores - static_cast<double>(at::get_num_threads());
  return std::clamp(1 - idle / kWorkers, 0.0, 1.0);
}

}  // namespace

Compressor::Compressor(const CompressedOptions& options)
    : options_(checked(options)),
      choice_(options.codec, options.level, options.max_ratio),
      budget_(options.max_slowdown, Clock::now()) {}

std::unique_ptr<Place> Compressor::find_place(const PlaceRequest& request) {
  const bool is_busy = request.in_flight_bytes + request.bytes > options_.max_in_flight_bytes;
  share_of_work_ = share_of_work_noticed();
  if (!budget_.is_unlimited() && (is_busy || !budget_.has_credit(Clock::now()))) {
    bytes_no_time += request.bytes;
    return nullptr;
  }
  if (!choice_.is_due(request.bytes)) {
    bytes_not_smaller += request.bytes;
    return nullptr;
  }
  return std::make_unique<CompressedPlace>(shared_from_this(), request);
}

void Compressor::note_wait(std::chrono::nanoseconds time) { budget_.spend(time, Clock::now()); }

void Compressor::note_work(std::chrono::nanoseconds time) {
  budget_.spend(share_of_work_.load() * TimeBudget::Seconds(time), Clock::now());
}

void Compressor::add_to(CompressedCounters& counters) const {
  counters.compressed_bytes = compressed_bytes;
  counters.bytes_not_smaller = bytes_not_smaller;
  counters.bytes_no_time = bytes_no_time;
  counters.bytes_no_room = bytes_no_room;
}

}  // namespace reprise::hooks_internal
