// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/policies/operators/flops.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "tests/policies/operator_call.h"

namespace reprise::flops_test {
namespace {

using testing::OperatorCall;

std::vector<c10::IValue> convolution_arguments(const at::Tensor& input, const at::Tensor& weight,
                                               std::vector<std::int64_t> stride, bool transposed,
                                               std::int64_t groups) {
  return {input,
          weight,
          at::Tensor(),
          std::move(stride),
          std::vector<std::int64_t>{0, 0},
          std::vector<std::int64_t>{1, 1},
          transposed,
          std::vector<std::int64_t>{0, 0},
          groups};
}

TEST(FlopsTest, CountsTwoPerProductOfMatrices) {
  const at::Tensor a = at::ones({2, 3});
  const at::Tensor b = at::ones({3, 4});
  EXPECT_EQ(OperatorCall("aten::mm", "", {a, b}).context().flops(), 48);
  EXPECT_EQ(OperatorCall("aten::addmm", "", {at::ones({4}), a, b, 1, 1}).context().flops(), 48);
  EXPECT_EQ(OperatorCall("aten::addmm_", "", {at::ones({2, 4}), a, b, 1, 1}).context().flops(), 48);
}

TEST(FlopsTest, CountsEachMatrixOfABatch) {
  const at::Tensor a = at::ones({5, 2, 3});
  const at::Tensor b = at::ones({5, 3, 4});
  EXPECT_EQ(OperatorCall("aten::bmm", "", {a, b}).context().flops(), 240);
  EXPECT_EQ(OperatorCall("aten::baddbmm", "", {at::ones({5, 2, 4}), a, b, 1, 1}).context().flops(),
            240);
}

TEST(FlopsTest, CountsProductsOfVectors) {
  EXPECT_EQ(OperatorCall("aten::mv", "", {at::ones({2, 3}), at::ones({3})}).context().flops(), 12);
  EXPECT_EQ(OperatorCall("aten::dot", "", {at::ones({3}), at::ones({3})}).context().flops(), 6);
}

TEST(FlopsTest, CountsTheWeightsPerOutputElementOfAConvolution) {
  // Output (2, 6, 4, 5): 240 elements, each of 3 channels x 2 x 2 weights.
  const OperatorCall plain(
      "aten::convolution", "",
      convolution_arguments(at::ones({2, 3, 5, 6}), at::ones({6, 3, 2, 2}), {1, 1}, false, 1));
  EXPECT_EQ(plain.context().flops(), 2 * 240 * 12);
  // Three groups: each output element meets one channel.
  const OperatorCall grouped(
      "aten::convolution", "",
      convolution_arguments(at::ones({2, 3, 5, 6}), at::ones({6, 1, 2, 2}), {1, 1}, false, 3));
  EXPECT_EQ(grouped.context().flops(), 2 * 240 * 4);
  // Stride 2: output (1, 6, 2, 3).
  const OperatorCall strided(
      "aten::convolution", "",
      convolution_arguments(at::ones({1, 3, 5, 6}), at::ones({6, 3, 2, 2}), {2, 2}, false, 1));
  EXPECT_EQ(strided.context().flops(), 2 * 36 * 12);
}

TEST(FlopsTest, CountsTheWeightsPerInputElementOfATransposedConvolution) {
  // Input of 2 x 4 x 3 x 3 = 72 elements, each spread by 6 channels x 2 x 2 weights.
  const OperatorCall plain(
      "aten::convolution", "",
      convolution_arguments(at::ones({2, 4, 3, 3}), at::ones({4, 6, 2, 2}), {2, 2}, true, 1));
  EXPECT_EQ(plain.context().flops(), 2 * 72 * 24);
  // Two groups: 3 channels of output each.
  const OperatorCall grouped(
      "aten::convolution", "",
      convolution_arguments(at::ones({2, 4, 3, 3}), at::ones({4, 3, 2, 2}), {2, 2}, true, 2));
  EXPECT_EQ(grouped.context().flops(), 2 * 72 * 12);
}

// Two batches, 3 heads, 5 queries of 8, 7 keys, values of 4 (all variants: the same shapes).
constexpr std::int64_t kAttentionFlops = 2 * 2 * 3 * 5 * 7 * (8 + 4);

std::vector<c10::IValue> attention_inputs(std::int64_t key_heads = 3) {
  return {at::ones({2, 3, 5, 8}), at::ones({2, key_heads, 7, 8}), at::ones({2, key_heads, 7, 4})};
}

TEST(FlopsTest, CountsTheTwoProductsOfAttention) {
  for (const char* op : {"aten::_scaled_dot_product_flash_attention",
                         "aten::_scaled_dot_product_efficient_attention",
                         "aten::_scaled_dot_product_cudnn_attention",
                         "aten::_scaled_dot_product_flash_attention_for_cpu",
                         "aten::_scaled_dot_product_fused_attention_overrideable",
                         "aten::scaled_dot_product_attention"}) {
    const OperatorCall call = OperatorCall::without_running(op, "", attention_inputs());
    EXPECT_EQ(call.context().flops(), kAttentionFlops) << op;
  }
}

TEST(FlopsTest, CountsTheQueryHeadsOfGroupedQueryAttention) {
  const OperatorCall call = OperatorCall::without_running(
      "aten::_scaled_dot_product_flash_attention", "", attention_inputs(1));
  EXPECT_EQ(call.context().flops(), kAttentionFlops);
}

TEST(FlopsTest, CountsAttentionOnTheCpuAsItRuns) {
  const at::Tensor q = at::ones({1, 2, 4, 8});
  const OperatorCall call("aten::_scaled_dot_product_flash_attention_for_cpu", "",
                          {q, q, q, 0.0, true, c10::IValue(), c10::IValue()});
  EXPECT_EQ(call.context().flops(), 2 * 2 * 4 * 4 * 16);
}

TEST(FlopsTest, CountsZeroForOtherOperators) {
  EXPECT_EQ(testing::relu_call().context().flops(), 0);
  const OperatorCall backward = OperatorCall::without_running(
      "aten::_scaled_dot_product_flash_attention_backward", "", attention_inputs());
  EXPECT_EQ(backward.context().flops(), 0);
}

TEST(FlopsTest, CountsZeroForEmptyTensors) {
  EXPECT_EQ(OperatorCall("aten::mm", "", {at::ones({0, 3}), at::ones({3, 4})}).context().flops(),
            0);
  const OperatorCall no_channels = OperatorCall::without_running(
      "aten::convolution", "",
      convolution_arguments(at::ones({2, 3, 5, 6}), at::ones({0, 3, 2, 2}), {1, 1}, true, 1));
  EXPECT_EQ(no_channels.context().flops(), 0);
  const OperatorCall no_width = OperatorCall::without_running(
      "aten::_scaled_dot_product_flash_attention", "",
      {at::ones({1, 1, 5, 0}), at::ones({1, 1, 5, 0}), at::ones({1, 1, 5, 0})});
  EXPECT_EQ(no_width.context().flops(), 0);
}

TEST(FlopsTest, CountsZeroForNestedTensors) {
  const at::Tensor nested =
      at::_nested_tensor_from_tensor_list({at::ones({2, 3}), at::ones({4, 3})});
  EXPECT_EQ(OperatorCall::without_running("aten::bmm", "", {nested, nested}).context().flops(), 0);
}

}  // namespace
}  // namespace reprise::flops_test
