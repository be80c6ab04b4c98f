// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// How LibTorch gets at the test device: its guard, its generators and its hooks.
#ifndef REPRISE_TESTS_TESTING_DEVICE_GUARD_H_
#define REPRISE_TESTS_TESTING_DEVICE_GUARD_H_

#include <ATen/core/Generator.h>
#include <c10/core/Device.h>

namespace reprise::testing {

constexpr auto kDeviceType = c10::DeviceType::PrivateUse1;

// Of this thread.
c10::DeviceIndex current_device();

// A CPU generator that says it is the device's.
const at::Generator& default_generator(c10::DeviceIndex device);

// Makes the device known to LibTorch, once a process.
void register_device();

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_TESTING_DEVICE_GUARD_H_
