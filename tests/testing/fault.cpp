// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "tests/testing/fault.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <future>
#include <mutex>
#include <thread>
#include <utility>

#include "reprise/engine/cpu_memory.h"

namespace reprise::testing {
namespace {

constexpr std::uint8_t kPriority = 200;  // above the counter

constinit std::atomic<bool> armed{false};
constinit std::atomic<std::int64_t> remaining{0};

// The observer, and whether it is looking just now.
std::mutex observing;
std::function<void()>& observer() {
  static auto& look = *new std::function<void()>;
  return look;
}
constinit std::atomic<bool> is_observed{false};
constinit std::atomic<bool> is_looking{false};

void observe() {
  if (!is_observed.load(std::memory_order_relaxed) || is_looking.exchange(true)) {
    return;
  }
  std::function<void()> look;
  {
    const std::lock_guard lock(observing);
    look = observer();
  }
  if (look) {
    look();
  }
  is_looking = false;
}

constinit thread_local int watched = 0;
constinit std::atomic<std::int64_t> highest{0};

// What other threads allocate and free meanwhile is in one of the two sums at most.
void note_allocation(std::int64_t bytes_before, std::int64_t bytes) {
  const std::int64_t now = std::min(bytes_before + bytes, cpu_memory().current_bytes);
  std::int64_t known = highest.load();
  while (known < now && !highest.compare_exchange_weak(known, now)) {
  }
}

void free_observed(void* context) {
  observe();
  delete static_cast<c10::DataPtr*>(context);
}

class FaultyAllocator final : public c10::Allocator {
 public:
  explicit FaultyAllocator(c10::Allocator* inner) : inner_(inner) {}

  c10::DataPtr allocate(std::size_t size) override {
    if (size > 0 && armed.load(std::memory_order_relaxed) && remaining.fetch_sub(1) == 1) {
      C10_THROW_ERROR(OutOfMemoryError, "injected failure of a CPU allocation");
    }
    if (!is_observed.load(std::memory_order_relaxed)) {
      return allocate_watched(size);
    }
    observe();
    auto* const memory = new c10::DataPtr(allocate_watched(size));
    return {memory->get(), memory, &free_observed, memory->device()};
  }

  c10::DeleterFnPtr raw_deleter() const override { return inner_->raw_deleter(); }

  void copy_data(void* destination, const void* source, std::size_t bytes) const override {
    inner_->copy_data(destination, source, bytes);
  }

 private:
  c10::DataPtr allocate_watched(std::size_t size) {
    const std::int64_t bytes_before = cpu_memory().current_bytes;
    c10::DataPtr memory = inner_->allocate(size);
    if (watched > 0 && size > 0) {
      note_allocation(bytes_before, static_cast<std::int64_t>(size));
    }
    return memory;
  }

  c10::Allocator* inner_;
};

}  // namespace

void install_allocation_faults() {
  // Never destroyed: LibTorch keeps the pointer.
  c10::SetCPUAllocator(new FaultyAllocator(c10::GetCPUAllocator()), kPriority);
}

AllocationFault::AllocationFault(std::int64_t n) {
  TORCH_CHECK(n >= 1, "allocations are counted from 1, but n is ", n);
  TORCH_CHECK(!armed.load(), "only one AllocationFault can exist at a time");
  remaining.store(n);
  armed.store(true);
}

AllocationFault::~AllocationFault() { armed.store(false); }

bool AllocationFault::fired() const { return remaining.load() <= 0; }

AllocationObserver::AllocationObserver(std::function<void()> look) {
  const std::lock_guard lock(observing);
  TORCH_CHECK(!is_observed, "only one AllocationObserver can exist at a time");
  observer() = std::move(look);
  is_observed = true;
}

AllocationObserver::~AllocationObserver() {
  std::function<void()> look;  // destroyed after the lock
  const std::lock_guard lock(observing);
  look.swap(observer());
  is_observed = false;
}

WatchedThread::WatchedThread() { ++watched; }
WatchedThread::~WatchedThread() { --watched; }
std::int64_t WatchedThread::highest_bytes() { return highest.load(); }
void WatchedThread::reset() { highest.store(0); }

bool returns_elsewhere(std::function<void()> call) {
  std::promise<void> promise;
  const std::future<void> returned = promise.get_future();
  std::thread([call = std::move(call), promise = std::move(promise)]() mutable {
    call();
    promise.set_value_at_thread_exit();
  }).detach();
  return returned.wait_for(std::chrono::seconds(10)) == std::future_status::ready;
}

}  // namespace reprise::testing
