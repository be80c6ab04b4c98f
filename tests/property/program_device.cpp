// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "tests/property/program_device.h"

#include <ATen/Context.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <cstdlib>
#include <utility>

#include "tests/testing/device/test_device.h"

namespace reprise::testing {
namespace {

constexpr const char* kVariable = "REPRISE_PROGRAM_DEVICE";

bool is_device_named() { return std::getenv(kVariable) != nullptr; }

// Before the first backward of the process, which starts the threads of the devices that it finds.
const bool kHasTestDevice = program_device().is_privateuseone() && test_device().has_index();

}  // namespace

c10::Device program_device() {
  return is_device_named() ? c10::Device(std::getenv(kVariable)) : c10::Device(c10::kCPU);
}

void synchronize_program_device() {
  const c10::Device device = program_device();
  if (!device.is_cpu()) {
    const c10::impl::VirtualGuardImpl guard(device.type());
    guard.synchronizeDevice(device.has_index() ? device.index() : guard.getDevice().index());
  }
}

std::optional<DefaultDevice> on_named_device() {
  if (!is_device_named()) {
    return std::nullopt;
  }
  return std::optional<DefaultDevice>(std::in_place, program_device());
}

void OnProgramDevice::SetUp() {
  const c10::Device device = program_device();
  if (device.is_cuda() && !torch::cuda::is_available()) {
    GTEST_SKIP() << "REPRISE_PROGRAM_DEVICE=" << device << " needs a GPU";
  }
  ASSERT_EQ(kHasTestDevice, device.is_privateuseone());
  if (is_device_named()) {
    at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
    default_device_.emplace(device);
  }
}

}  // namespace reprise::testing
