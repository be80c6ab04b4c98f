// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Compares tensors bit by bit.
#ifndef REPRISE_TESTS_TESTING_BITWISE_H_
#define REPRISE_TESTS_TESTING_BITWISE_H_

#include <ATen/core/Tensor.h>
#include <gtest/gtest.h>

namespace reprise::testing {

// Success if both are undefined, or if shape, dtype, device and the bits of each element agree: NaN
// equals NaN of the same bits, and 0.0 is not -0.0. Strides may differ. A failure names the first
// element that differs. Use as EXPECT_TRUE(bitwise_equal(a, b)).
::testing::AssertionResult bitwise_equal(const at::Tensor& a, const at::Tensor& b);

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_TESTING_BITWISE_H_
