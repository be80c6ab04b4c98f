// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The host store on a GPU; tests/device/ has its promises, on the test device.
#include <ATen/Context.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "reprise/hooks/host_store.h"
#include "reprise/hooks/store_guard.h"
#include "reprise/hooks/stores.h"
#include "tests/testing/bitwise.h"

namespace reprise::host_store_cuda_test {
namespace {

using testing::bitwise_equal;

// Wide layers, so that copies and kernels take their time.
struct Layers {
  at::Tensor x = at::randn({512, 1024}, at::kCUDA).requires_grad_();
  std::vector<at::Tensor> weights;

  Layers() {
    for (int i = 0; i < 6; ++i) {
      weights.push_back((at::randn({1024, 1024}, at::kCUDA) / 32).requires_grad_());
    }
  }

  at::Tensor forward() const {
    at::Tensor h = x * 1;
    for (const at::Tensor& weight : weights) {
      h = h + at::where(h > 0, at::mm(h, weight).tanh(), h.t().t() * 0.5);
    }
    return h.sum();
  }

  std::vector<at::Tensor> gradients(const at::Tensor& loss) const {
    std::vector<at::Tensor> inputs = weights;
    inputs.push_back(x);
    return torch::autograd::grad({loss}, inputs);
  }
};

TEST(HostStoreOnCudaTest, GradientsAreThoseWithout) {
  if (!at::hasCUDA()) {
    GTEST_SKIP() << "needs a CUDA device";
  }
  torch::manual_seed(1);
  const Layers layers;
  const std::vector<at::Tensor> expected = layers.gradients(layers.forward());
  const HostOptions all{.min_bytes = 0, .keep_last = 0};
  const auto host = stores::host(all);
  const std::vector<std::shared_ptr<ActivationStore>> cases = {
      host, stores::packed() | stores::host(all),
      stores::host({.max_in_flight_bytes = 0, .keep_last = 0}),
      stores::host({.pin_memory = false, .min_bytes = 0, .keep_last = 0})};
  for (int step = 0; step < 3; ++step) {
    for (const auto& store : cases) {
      for (const int depth : {0, 1, 4}) {
        at::Tensor loss;
        {
          const StoreGuard guard(store, {.prefetch_depth = depth});
          loss = layers.forward();
        }
        const std::vector<at::Tensor> found = layers.gradients(loss);
        for (std::size_t i = 0; i < found.size(); ++i) {
          EXPECT_TRUE(bitwise_equal(found[i], expected[i]));
        }
      }
    }
  }
  EXPECT_GT(host->counters().bytes_out, 0);
  EXPECT_EQ(host->counters().bytes_forwarded, 0);
}

}  // namespace
}  // namespace reprise::host_store_cuda_test
