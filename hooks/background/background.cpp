// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/hooks/background/background.h"

#include <c10/core/thread_pool.h>
#include <pthread.h>

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <utility>

#include "reprise/hooks/seam/unseen_scope.h"

namespace reprise::hooks_internal {
namespace {

thread_local bool t_is_background = false;

class Pool {
 public:
  void run(std::function<void()> task) {
    {
      const std::lock_guard lock(mutex_);
      ++unfinished_;
    }
    threads_.run([this, task = std::move(task)]() mutable {
      t_is_background = true;
      {
        const UnseenScope unseen;
        std::exchange(task, nullptr)();
      }
      const std::lock_guard lock(mutex_);
      --unfinished_;
      all_done_.notify_all();
    });
  }

  bool wait(std::chrono::milliseconds timeout) {
    std::unique_lock lock(mutex_);
    return all_done_.wait_for(lock, timeout, [this] { return unfinished_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable all_done_;
  int unfinished_ = 0;  // guarded by mutex_
  c10::ThreadPool threads_{2};
};

// Never destroyed: a task may release the last store.
std::atomic<Pool*> g_pool{nullptr};

void before_fork() {
  if (!t_is_background) {
    wait_for_background(kForkPatience);
  }
}

void in_child() { g_pool.store(nullptr); }  // its threads do not exist here

Pool& pool() {
  [[maybe_unused]] static const int registered = pthread_atfork(&before_fork, nullptr, &in_child);
  Pool* existing = g_pool.load();
  if (existing == nullptr) {
    auto made = std::make_unique<Pool>();
    if (g_pool.compare_exchange_strong(existing, made.get())) {
      existing = made.release();
    }
  }
  return *existing;
}

}  // namespace

bool must_not_wait() { return t_is_background; }

bool wait_for_background(std::chrono::milliseconds timeout) {
  Pool* const existing = g_pool.load();
  return existing == nullptr || existing->wait(timeout);
}

void run_in_background(std::function<void()> task) { pool().run(std::move(task)); }

}  // namespace reprise::hooks_internal
