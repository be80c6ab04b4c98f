// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Gives a Python process the test device, as "testdevice": called through ctypes.
#include <chrono>
#include <cstdint>
#include <optional>

#include "tests/testing/device/test_device.h"

namespace {
std::optional<reprise::testing::DelayGuard> g_delays;
}

extern "C" {

[[gnu::visibility("default")]] void reprise_register_device() {
  static_cast<void>(reprise::testing::test_device());
}

[[gnu::visibility("default")]] void reprise_wait_for_device() {
  reprise::testing::wait_for_device(0);
}

// The duration of each kernel, and the speed of copies.
[[gnu::visibility("default")]] void reprise_set_delays(double kernel_us, double copy_bytes_per_us) {
  g_delays.reset();
  g_delays.emplace(reprise::testing::Delays{
      .kernel = std::chrono::microseconds(static_cast<std::int64_t>(kernel_us)),
      .copy_bytes_per_microsecond = copy_bytes_per_us,
      .free_at_once = true});
}

}  // extern "C"
