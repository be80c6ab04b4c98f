// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// How LibTorch gets at the test device: its guard, its generators and its hooks.
#ifndef REPRISE_TESTS_TESTING_DEVICE_GUARD_H_
#define REPRISE_TESTS_TESTING_DEVICE_GUARD_H_

#include <ATen/core/Generator.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <functional>

namespace reprise::testing {

constexpr auto kDeviceType = c10::DeviceType::PrivateUse1;

// Of this thread.
c10::DeviceIndex current_device();

// Has a seed and an offset, as accelerators' generators do.
const at::Generator& default_generator(c10::DeviceIndex device);

// A new one that has neither, only a state tensor.
at::Generator generator_without_offset(c10::DeviceIndex device, std::uint64_t seed);

// Runs `draw` with the CPU generator that stands in for a generator of the device, which moves on.
void draw_from(const at::Generator& generator, const std::function<void(at::Generator&)>& draw);

// Makes the device known to LibTorch, once a process.
void register_device();

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_TESTING_DEVICE_GUARD_H_
