// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Makes an allocation of CPU memory fail on purpose, or somebody look on.
#ifndef REPRISE_TESTS_TESTING_FAULT_H_
#define REPRISE_TESTS_TESTING_FAULT_H_

#include <cstdint>
#include <functional>

namespace reprise::testing {

// Called once by the main function of the tests, after install_cpu_memory_counter().
void install_allocation_faults();

// While alive, the n-th allocation of CPU tensor memory from now on, 1 being the next one, of any
// thread, throws c10::OutOfMemoryError; the ones after it work. One at a time. To try every n:
//
//   for (std::int64_t n = 1;; ++n) {
//     AllocationFault fault(n);
//     try { run(); } catch (const c10::OutOfMemoryError&) {}
//     if (!fault.fired()) break;
//   }
class [[nodiscard]] AllocationFault {
 public:
  explicit AllocationFault(std::int64_t n);
  ~AllocationFault();
  AllocationFault(const AllocationFault&) = delete;
  AllocationFault& operator=(const AllocationFault&) = delete;

  [[nodiscard]] bool fired() const;
};

// While alive, `look` is called at each allocation of CPU tensor memory, and when what was
// allocated meanwhile is freed, on whatever thread that happens; not for what it does itself. One
// at a time.
class [[nodiscard]] AllocationObserver {
 public:
  explicit AllocationObserver(std::function<void()> look);
  ~AllocationObserver();
  AllocationObserver(const AllocationObserver&) = delete;
  AllocationObserver& operator=(const AllocationObserver&) = delete;
};

// While alive, what the calling thread allocates counts in highest_bytes(). Nests.
class [[nodiscard]] WatchedThread {
 public:
  WatchedThread();
  ~WatchedThread();
  WatchedThread(const WatchedThread&) = delete;
  WatchedThread& operator=(const WatchedThread&) = delete;

  // The most bytes of CPU tensors in use that an allocation of a watched thread has led to, since
  // the last reset.
  [[nodiscard]] static std::int64_t highest_bytes();
  static void reset();
};

// Whether `call` returns on a thread of its own, which shows that no lock that it needs is held
// here. It is let run on if it does not within 10 s: it must not refer to what may be gone.
bool returns_elsewhere(std::function<void()> call);

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_TESTING_FAULT_H_
