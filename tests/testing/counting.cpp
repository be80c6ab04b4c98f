// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "tests/testing/counting.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "reprise/engine/cpu_memory.h"

namespace reprise::testing {

std::int64_t live_cpu_bytes() { return cpu_memory().current_bytes; }

std::int64_t settled_cpu_bytes() {
  std::int64_t bytes = live_cpu_bytes();
  for (int quiet = 0; quiet < 20; ++quiet) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    quiet = live_cpu_bytes() == bytes ? quiet : 0;
    bytes = live_cpu_bytes();
  }
  return bytes;
}

bool cpu_bytes_come_to(std::int64_t bytes) {
  for (int i = 0; i < 5000 && live_cpu_bytes() != bytes; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return live_cpu_bytes() == bytes;
}

LeakCheck::LeakCheck() : bytes_at_start_(live_cpu_bytes()) {
  EXPECT_TRUE(is_cpu_memory_counter_installed()) << "the test program lacks tests/testing/main.cpp";
}

LeakCheck::~LeakCheck() {
  if (!checked_) {
    expect_no_leak();
  }
}

void LeakCheck::expect_no_leak() {
  checked_ = true;
  const std::int64_t now = live_cpu_bytes();
  EXPECT_EQ(now, bytes_at_start_) << "CPU tensors: " << now - bytes_at_start_
                                  << " bytes more are alive than at the start";
}

}  // namespace reprise::testing
