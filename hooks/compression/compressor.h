// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The state of a compressed store: what it measures, and why it has refused tensors.
#ifndef REPRISE_HOOKS_COMPRESSION_COMPRESSOR_H_
#define REPRISE_HOOKS_COMPRESSION_COMPRESSOR_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>

#include "reprise/hooks/background/background_offloader.h"
#include "reprise/hooks/compressed_store.h"
#include "reprise/hooks/compression/codec_choice.h"
#include "reprise/hooks/compression/room_account.h"
#include "reprise/hooks/compression/time_budget.h"

namespace reprise::hooks_internal {

// Note [What compression may cost]: a tensor is compressed if
// - a sample becomes smaller (CodecChoice), and so does the whole;
// - time is left (TimeBudget): waits of forward and backward count in full, the background's work
//   in part, less with cores that the computation leaves idle;
// - memory is left (RoomAccount). The first megabyte of the compressed bytes needs none: it goes to
//   a buffer of the thread's until the tensor's own memory is free. More goes to pieces in the next
//   store while the tensor still exists, and has to fit.
// Others are forwarded as they are. Work is abandoned between chunks when the tensor is requested,
// or has no owner but the worker.
class Compressor : public std::enable_shared_from_this<Compressor> {
 public:
  // Throws std::invalid_argument for options out of range.
  explicit Compressor(const CompressedOptions& options);

  // For BackgroundOptions::find_place. Returns null if the tensor is not to be compressed.
  std::unique_ptr<Place> find_place(const PlaceRequest& request);

  // Forward or backward has waited.
  void note_wait(std::chrono::nanoseconds time);
  // A thread of the background has worked.
  void note_work(std::chrono::nanoseconds time);

  void add_to(CompressedCounters& counters) const;

  CodecChoice& choice() { return choice_; }
  RoomAccount& room() { return room_; }
  const CompressedOptions& options() const { return options_; }

  std::atomic<std::int64_t> compressed_bytes{0};
  std::atomic<std::int64_t> bytes_not_smaller{0};
  std::atomic<std::int64_t> bytes_no_time{0};
  std::atomic<std::int64_t> bytes_no_room{0};

 private:
  const CompressedOptions options_;
  CodecChoice choice_;
  TimeBudget budget_;
  RoomAccount room_;
  std::atomic<double> share_of_work_{1};  // that the computation notices
};

}  // namespace reprise::hooks_internal

#endif  // REPRISE_HOOKS_COMPRESSION_COMPRESSOR_H_
