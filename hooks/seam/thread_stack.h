// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The values that guards of one kind set on a thread. Guards may end in any order, and on any
// thread: their values end with them, and the others' stay.
#ifndef REPRISE_HOOKS_SEAM_THREAD_STACK_H_
#define REPRISE_HOOKS_SEAM_THREAD_STACK_H_

#include <atomic>
#include <memory>
#include <utility>
#include <vector>

namespace reprise::hooks_internal {

// The value of one guard.
class ThreadStackEntry {
 public:
  void end() noexcept { is_open_.store(false, std::memory_order_release); }
  bool is_open() const noexcept { return is_open_.load(std::memory_order_acquire); }

 private:
  std::atomic<bool> is_open_{true};
};

using ThreadStackEntryPtr = std::shared_ptr<ThreadStackEntry>;

// The values of one thread.
template <class T>
class ThreadStack {
 public:
  ThreadStackEntryPtr push(T value) {
    auto entry = std::make_shared<ThreadStackEntry>();
    entries_.emplace_back(entry, std::move(value));
    return entry;
  }

  // Returns the value of the innermost open entry, or null.
  const T* innermost() noexcept {
    while (!entries_.empty() && !entries_.back().first->is_open()) {
      entries_.pop_back();
    }
    return entries_.empty() ? nullptr : &entries_.back().second;
  }

  // Ends an entry of this thread or another; removes this thread's ended entries.
  void end(ThreadStackEntry& entry) noexcept {
    entry.end();
    std::erase_if(entries_, [](const auto& other) { return !other.first->is_open(); });
  }

 private:
  std::vector<std::pair<ThreadStackEntryPtr, T>> entries_;
};

}  // namespace reprise::hooks_internal

#endif  // REPRISE_HOOKS_SEAM_THREAD_STACK_H_
