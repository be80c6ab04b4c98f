// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Regions captured in a CUDA graph. Linked where LibTorch's CUDA libraries are; compiled wherever
// their headers are.
#include <ATen/Context.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "reprise/engine/checkpoint.h"
#include "tests/testing/bitwise.h"

namespace reprise::device_graph_test {
namespace {

using testing::bitwise_equal;

at::Tensor noisy(const at::Tensor& t) { return t * at::rand_like(t).sigmoid() * t.tanh(); }

// Returns the gradient of one step, whose forward draws random numbers twice: in a region, and
// behind it.
at::Tensor gradient_of_step(const at::Tensor& x) {
  const at::Tensor y = noisy(checkpoint(noisy, x));
  return torch::autograd::grad({y.sum()}, {x})[0];
}

TEST(CheckpointDeviceGraphTest, C106_CapturedGradientsEqualEagerOnes) {
  if (!at::hasCUDA()) {
    GTEST_SKIP() << "needs a CUDA device";
  }
  const at::Tensor x = at::linspace(-1, 1, 1000, at::kCUDA).requires_grad_();
  const c10::cuda::CUDAStreamGuard on_stream(c10::cuda::getStreamFromPool());
  torch::manual_seed(42);
  const at::Tensor eager = gradient_of_step(x);
  at::cuda::CUDAGraph graph;
  torch::manual_seed(42);
  graph.capture_begin();
  const at::Tensor captured = gradient_of_step(x);
  graph.capture_end();
  graph.replay();
  EXPECT_TRUE(bitwise_equal(captured, eager));
  graph.replay();
  EXPECT_FALSE(bitwise_equal(captured, eager));  // each replay draws the next numbers
}

}  // namespace
}  // namespace reprise::device_graph_test
