// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// A device for tests, at PrivateUse1, with memory, a generator and asynchronous streams of its own.
// It takes the place of an accelerator in the whole process, so it has test programs of its own.
#ifndef REPRISE_TESTS_TESTING_DEVICE_TEST_DEVICE_H_
#define REPRISE_TESTS_TESTING_DEVICE_TEST_DEVICE_H_

#include <c10/core/Device.h>

#include "tests/testing/device/guard.h"
#include "tests/testing/device/kernels.h"
#include "tests/testing/device/memory.h"
#include "tests/testing/device/streams.h"

namespace reprise::testing {

// The device, which the first call makes known to LibTorch.
inline c10::Device test_device(c10::DeviceIndex index = 0) {
  register_device();
  static const bool kOnce = (register_kernels(), true);
  static_cast<void>(kOnce);
  return {c10::DeviceType::PrivateUse1, index};
}

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_TESTING_DEVICE_TEST_DEVICE_H_
