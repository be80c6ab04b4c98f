// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The main function of the test programs: counts CPU memory from before the first tensor on.
#include <gmock/gmock.h>

#include "reprise/engine/cpu_memory.h"
#include "tests/testing/fault.h"

int main(int argc, char** argv) {
  reprise::install_cpu_memory_counter();
  reprise::testing::install_allocation_faults();
  ::testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
