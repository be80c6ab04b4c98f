// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The main function of the test programs: counts CPU memory from before the first tensor on.
#include <gmock/gmock.h>

#include "reprise/engine/cpu_memory.h"
#include "tests/testing/fault.h"

// ctest's SKIP_RETURN_CODE.
constexpr int kSkipped = 77;

int main(int argc, char** argv) {
  reprise::install_cpu_memory_counter();
  reprise::testing::install_allocation_faults();
  ::testing::InitGoogleMock(&argc, argv);
  const int result = RUN_ALL_TESTS();
  const ::testing::UnitTest& tests = *::testing::UnitTest::GetInstance();
  const bool are_all_skipped = tests.skipped_test_count() > 0 && tests.successful_test_count() == 0;
  return result == 0 && are_all_skipped ? kSkipped : result;
}
