// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// A std::mutex with thread annotations. Not absl::Mutex: as Debian builds it, each lock looks for
// cycles in the order of all locks, which made a tenth of a region's cost.
#ifndef REPRISE_BASE_THREADING_MUTEX_H_
#define REPRISE_BASE_THREADING_MUTEX_H_

#include <mutex>

#include "absl/base/thread_annotations.h"

namespace reprise::engine_internal {

class ABSL_LOCKABLE Mutex {
 public:
  void lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mutex_.lock(); }
  void unlock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex) : mutex_(mutex) {
    mutex_.lock();
  }
  ~MutexLock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_BASE_THREADING_MUTEX_H_
