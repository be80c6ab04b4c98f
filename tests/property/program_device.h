// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The device that random programs run on.
#ifndef REPRISE_TESTS_PROPERTY_PROGRAM_DEVICE_H_
#define REPRISE_TESTS_PROPERTY_PROGRAM_DEVICE_H_

#include <c10/core/Device.h>

#include <optional>

#include "tests/engine/under_policies.h"
#include "tests/testing/default_device.h"

namespace reprise::testing {

// The CPU, or the device that REPRISE_PROGRAM_DEVICE names: cuda, or privateuseone for the test
// device.
c10::Device program_device();

// Waits for the work that is queued there.
void synchronize_program_device();

// Engaged if that variable is set. For threads that a program starts.
std::optional<DefaultDevice> on_named_device();

// Runs the cases on that device, with deterministic kernels.
class OnProgramDevice : public UnderPolicies {
 protected:
  void SetUp() override;

 private:
  std::optional<DefaultDevice> default_device_;
};

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_PROPERTY_PROGRAM_DEVICE_H_
