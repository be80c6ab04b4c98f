// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The memory that a store may use while a tensor exists twice, whole and compressed.
#ifndef REPRISE_HOOKS_COMPRESSION_ROOM_ACCOUNT_H_
#define REPRISE_HOOKS_COMPRESSION_ROOM_ACCOUNT_H_

#include <algorithm>
#include <cstdint>
#include <mutex>

namespace reprise::hooks_internal {

// Bytes of tensors as they were put, and of what the store holds of them. While tensors arrive, the
// second may not exceed the largest value of the first, in this step or the one before: at its
// peak, a step without the store needs as much. Once tensors leave, it may not exceed the first
// itself: what a backward needs besides may make that its peak. A step ends when the store is
// empty. Thread-safe.
class RoomAccount {
 public:
  // A tensor arrives, and is held whole.
  void add(std::int64_t bytes) {
    const std::lock_guard lock(mutex_);
    put_ += bytes;
    held_ += bytes;
    peak_ = std::max(peak_, put_);
    is_emptied_ = false;
  }
  // A tensor leaves, of which `held` bytes were held. is_refused: it is forwarded elsewhere, and
  // not used up.
  void remove(std::int64_t bytes, std::int64_t held, bool is_refused = false) {
    const std::lock_guard lock(mutex_);
    put_ -= bytes;
    held_ -= held;
    is_emptied_ = is_emptied_ || !is_refused;
    if (put_ == 0) {
      last_peak_ = peak_;
      peak_ = 0;
    }
  }
  // Returns whether there is room for so many more bytes, which are then held.
  bool take(std::int64_t bytes) {
    const std::lock_guard lock(mutex_);
    const std::int64_t most = is_emptied_ ? put_ : std::max(peak_, last_peak_);
    const bool has_room = held_ + bytes <= most;
    held_ += has_room ? bytes : 0;
    return has_room;
  }
  // Returns whether more is held than is allowed: tensors have left since it was granted.
  bool is_exceeded() {
    const std::lock_guard lock(mutex_);
    return is_emptied_ && held_ > put_;
  }
  // So many bytes are held less; more if it is negative.
  void give_back(std::int64_t bytes) {
    const std::lock_guard lock(mutex_);
    held_ -= bytes;
  }

 private:
  std::mutex mutex_;
  std::int64_t put_ = 0;
  std::int64_t held_ = 0;
  std::int64_t peak_ = 0;
  std::int64_t last_peak_ = 0;
  bool is_emptied_ = false;  // a tensor was used up after the last one arrived
};

}  // namespace reprise::hooks_internal

#endif  // REPRISE_HOOKS_COMPRESSION_ROOM_ACCOUNT_H_
