// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Copies of CPU tensors: the layout is the same as for an accelerator's, the bytes can be counted.
#include "reprise/hooks/internal/host_copy.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdint>
#include <vector>

#include "tests/testing/bitwise.h"
#include "tests/testing/counting.h"

namespace reprise::hooks_internal::host_copy_test {
namespace {

using testing::bitwise_equal;
using testing::live_cpu_bytes;

// Checks that the copy has bytes of its own, as many as given, and comes back with the same values.
at::Tensor expect_values_back(const at::Tensor& tensor, std::int64_t expected_bytes) {
  const at::Tensor original = tensor.clone();
  const std::int64_t version = tensor._version();
  const std::int64_t before = live_cpu_bytes();
  const HostCopy copy(tensor, /*pin_memory=*/false);
  EXPECT_EQ(live_cpu_bytes() - before, expected_bytes);
  at::Tensor restored = copy.restore();
  EXPECT_TRUE(bitwise_equal(restored, tensor));
  EXPECT_EQ(restored.scalar_type(), tensor.scalar_type());
  EXPECT_EQ(restored.device(), tensor.device());
  EXPECT_FALSE(restored.is_alias_of(tensor));
  EXPECT_FALSE(restored.is_alias_of(copy.host()));
  EXPECT_TRUE(bitwise_equal(tensor, original));
  EXPECT_EQ(tensor._version(), version);
  return restored;
}

at::Tensor expect_round_trip(const at::Tensor& tensor, std::int64_t expected_bytes) {
  at::Tensor restored = expect_values_back(tensor, expected_bytes);
  EXPECT_EQ(restored.strides(), tensor.strides());
  return restored;
}

TEST(HostCopy, DenseTensors) {
  expect_round_trip(at::randn({5, 7}), 5 * 7 * 4);
  expect_round_trip(at::randn({5, 7}, at::kDouble), 5 * 7 * 8);
  expect_round_trip(at::randint(0, 2, {9}, at::kBool), 9);
  expect_round_trip(at::randn({3}, at::kComplexFloat), 3 * 8);
}

TEST(HostCopy, TransposedTensorsKeepTheirStrides) {
  const at::Tensor tensor = at::randn({5, 7}).t();
  EXPECT_EQ(expect_round_trip(tensor, 5 * 7 * 4).stride(0), 1);
  expect_round_trip(at::randn({2, 3, 4}).permute({2, 0, 1}), 2 * 3 * 4 * 4);
}

TEST(HostCopy, ChannelsLastTensorsKeepTheirStrides) {
  const at::Tensor tensor = at::randn({2, 3, 4, 5}).contiguous(at::MemoryFormat::ChannelsLast);
  EXPECT_TRUE(
      expect_round_trip(tensor, 2 * 3 * 4 * 5 * 4).is_contiguous(at::MemoryFormat::ChannelsLast));
}

std::vector<at::Tensor> views_with_gaps() {
  const at::Tensor base = at::randn({10, 20});
  return {base.narrow(1, 3, 5), base.slice(0, 0, 10, 2).slice(1, 0, 20, 4), base.select(1, 3),
          base.t().narrow(0, 2, 7)};
}

TEST(HostCopy, AViewWithGapsIsStoredWithoutThem) {
  for (const at::Tensor& view : views_with_gaps()) {
    expect_values_back(view, view.numel() * 4);
  }
}

TEST(HostCopy, AViewWithGapsComesBackWithItsStrides) {
  for (const at::Tensor& view : views_with_gaps()) {
    EXPECT_EQ(HostCopy(view, false).restore().strides(), view.strides());
  }
}

TEST(HostCopy, ABroadcastDimensionIsStoredOnce) {
  expect_round_trip(at::randn({1, 8}).expand({1000, 8}), 8 * 4);
  expect_round_trip(at::randn({8, 1}).expand({8, 1000}), 8 * 4);
  expect_round_trip(at::randn({4, 1, 6}).expand({3, 4, 50, 6}), 4 * 6 * 4);
  expect_round_trip(at::ones({}).expand({100, 100}), 4);
}

TEST(HostCopy, ADimensionOfOneElementKeepsItsStride) {
  expect_round_trip(at::ones({1, 1}), 4);
  expect_round_trip(at::ones({3, 4}).select(0, 1).unsqueeze(0), 4 * 4);
  expect_round_trip(at::ones({1, 3}).expand({1, 3}), 3 * 4);
}

TEST(HostCopy, ATensorOfNoDimensions) {
  const at::Tensor tensor = at::scalar_tensor(3.5);
  EXPECT_EQ(expect_round_trip(tensor, 4).dim(), 0);
}

TEST(HostCopy, EmptyTensors) {
  expect_round_trip(at::empty({0}), 0);
  expect_round_trip(at::empty({3, 0, 2}), 0);
  expect_round_trip(at::empty({0}).expand({4, 0}), 0);
}

TEST(HostCopy, OverlappingWindowsComeBackWithTheirValues) {
  const at::Tensor windows = at::randn({10}).unfold(0, 4, 1);
  const HostCopy copy(windows, false);
  EXPECT_TRUE(bitwise_equal(copy.restore(), windows));
}

TEST(HostCopy, ConjugateAndNegativeViewsComeBackWithTheirValues) {
  const at::Tensor tensor = at::randn({4}, at::kComplexDouble);
  for (const at::Tensor& view : {tensor.conj(), at::imag(tensor.conj())}) {
    const at::Tensor restored = HostCopy(view, false).restore();
    EXPECT_TRUE(at::equal(restored, view));
    EXPECT_EQ(restored.sizes(), view.sizes());
  }
}

TEST(HostCopy, SparseTensorsKeepIndicesValuesAndWhetherTheyAreCoalesced) {
  const at::Tensor indices = at::tensor({0, 1, 1, 2, 0, 0}, at::kLong).view({2, 3});
  const at::Tensor values = at::tensor({1.0, 2.0, 3.0}, at::kDouble);
  for (const bool coalesced : {false, true}) {
    at::Tensor tensor = at::sparse_coo_tensor(indices, values, {3, 3});
    if (coalesced) {
      tensor = tensor.coalesce();
    }
    const at::Tensor restored = HostCopy(tensor, false).restore();
    EXPECT_EQ(restored.layout(), at::kSparse);
    EXPECT_EQ(restored.is_coalesced(), coalesced);
    EXPECT_TRUE(bitwise_equal(restored._indices(), tensor._indices()));
    EXPECT_TRUE(bitwise_equal(restored._values(), tensor._values()));
    EXPECT_FALSE(restored._values().is_alias_of(tensor._values()));
    EXPECT_EQ(restored.sizes(), tensor.sizes());
  }
}

TEST(HostCopy, AHybridSparseTensorKeepsItsDenseDimensions) {
  const at::Tensor indices = at::tensor({0, 2}, at::kLong).view({1, 2});
  const at::Tensor tensor = at::sparse_coo_tensor(indices, at::randn({2, 4}), {3, 4});
  const at::Tensor restored = HostCopy(tensor, false).restore();
  EXPECT_EQ(restored.sparse_dim(), 1);
  EXPECT_EQ(restored.dense_dim(), 1);
  EXPECT_TRUE(bitwise_equal(restored.to_dense(), tensor.to_dense()));
}

TEST(HostCopy, LaterChangesOfTheOriginalAreNotSeen) {
  const at::Tensor tensor = at::ones({4});
  const HostCopy copy(tensor, false);
  tensor.zero_();
  EXPECT_TRUE(bitwise_equal(copy.restore(), at::ones({4})));
}

}  // namespace
}  // namespace reprise::hooks_internal::host_copy_test
