// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Tests of stores that work in the background.
#ifndef REPRISE_TESTS_HOOKS_BACKGROUND_TEST_H_
#define REPRISE_TESTS_HOOKS_BACKGROUND_TEST_H_

#include <gtest/gtest.h>

#include "tests/testing/counting.h"

namespace reprise::testing {

// Waits until background threads hold nothing, before the next test counts bytes.
class BackgroundTest : public ::testing::Test {
 protected:
  void TearDown() override { settled_cpu_bytes(); }
};

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_HOOKS_BACKGROUND_TEST_H_
