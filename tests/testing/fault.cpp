// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "tests/testing/fault.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>

#include <atomic>
#include <cstddef>

namespace reprise::testing {
namespace {

constexpr std::uint8_t kPriority = 200;  // above the counter

constinit std::atomic<bool> armed{false};
constinit std::atomic<std::int64_t> remaining{0};

class FaultyAllocator final : public c10::Allocator {
 public:
  explicit FaultyAllocator(c10::Allocator* inner) : inner_(inner) {}

  c10::DataPtr allocate(std::size_t size) override {
    if (size > 0 && armed.load(std::memory_order_relaxed) && remaining.fetch_sub(1) == 1) {
      C10_THROW_ERROR(OutOfMemoryError, "injected failure of a CPU allocation");
    }
    return inner_->allocate(size);
  }

  c10::DeleterFnPtr raw_deleter() const override { return inner_->raw_deleter(); }

  void copy_data(void* destination, const void* source, std::size_t bytes) const override {
    inner_->copy_data(destination, source, bytes);
  }

 private:
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

}  // namespace reprise::testing
