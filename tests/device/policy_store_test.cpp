// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Results that a policy keeps, in host memory.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "reprise/engine/checkpoint.h"
#include "reprise/hooks/stored/offload_store.h"
#include "reprise/hooks/stores.h"
#include "reprise/policies/policies.h"
#include "tests/device/device_cases.h"

namespace reprise::policy_store_test {
namespace {

using namespace device_cases;  // NOLINT(google-build-using-namespace)

at::Tensor forward(const Net& net, const CheckpointOptions& options) {
  const auto block = [&net](const at::Tensor& h) { return net.block(h); };
  at::Tensor h = net.x * 1;
  for (int i = 0; i < 3; ++i) {
    h = checkpoint(options, block, h);
  }
  return h.sum();
}

TEST(PolicyOnHostTest, GradientsAreThoseWithoutUnderEachDelay) {
  const Net net;
  const auto expected = net.gradients(net.forward());
  const auto host = stores::host(all());
  const std::vector<PolicyHolder> policies = {
      policies::offload(policies::save_matmuls()), policies::offload(policies::save_everything()),
      policies::keep_in(host, policies::save_matmuls()),
      policies::keep_in(stores::packed({.min_bytes = 0}) | host, policies::save_everything())};
  for (const auto& delays : delay_cases()) {
    for (const PolicyHolder& policy : policies) {
      for (const ReplayMode replay : {ReplayMode::kFunction, ReplayMode::kTape}) {
        const DelayGuard guard(delays);
        expect_equal(net.gradients(forward(net, {.policy = policy, .replay = replay})), expected);
      }
    }
  }
}

TEST(PolicyOnHostTest, EachResultThatIsKeptIsCopiedOutOnceAndBackOnce) {
  const Net net;
  for (const ReplayMode replay : {ReplayMode::kFunction, ReplayMode::kTape}) {
    const auto host = stores::host(all());
    const at::Tensor loss =
        forward(net, {.policy = policies::keep_in(host, policies::save_operators({"aten::sin"})),
                      .replay = replay});
    settle(*host);
    const std::int64_t bytes = 3 * 24 * 64 * 4;
    EXPECT_EQ(host->counters().bytes_out, bytes);
    EXPECT_EQ(host->counters().resident_bytes + host->counters().in_flight_bytes, 0U);
    net.gradients(loss);
    EXPECT_EQ(host->counters().bytes_in, bytes);
  }
}

TEST(PolicyOnHostTest, OffloadAnswersShareAStore) {
  const Net net;
  const auto before = hooks_internal::offload_store()->counters();
  const at::Tensor loss =
      forward(net, {.policy = policies::offload(policies::save_operators({"aten::sin"}))});
  settle(*hooks_internal::offload_store());
  EXPECT_EQ(hooks_internal::offload_store()->counters().bytes_out - before.bytes_out,
            3 * 24 * 64 * 4);
  net.gradients(loss);
}

// The write comes while the result is being copied out, or before.
TEST(PolicyOnHostTest, WritesInPlaceAreNoChangeOfWhatIsKept) {
  const at::Tensor x = on_device(at::arange(2000.0).div(2000)).requires_grad_();
  const auto code = [](const at::Tensor& h) {
    const at::Tensor kept = h.sin();
    const at::Tensor before = kept.exp();
    kept.mul_(2);
    return (before * kept.cos()).exp_();
  };
  const auto gradient = [&](const at::Tensor& y) {
    return torch::autograd::grad({y.sum()}, {x})[0].cpu();
  };
  const at::Tensor expected = gradient(code(x));
  for (const auto& delays : delay_cases()) {
    for (const HostOptions& host : {all(), HostOptions{.max_in_flight_bytes = 0, .keep_last = 0},
                                    HostOptions{.keep_last = 4}}) {
      for (const ReplayMode replay : {ReplayMode::kFunction, ReplayMode::kTape}) {
        const DelayGuard guard(delays);
        const at::Tensor y = checkpoint(
            {.policy = policies::keep_in(stores::host(host), policies::save_everything()),
             .replay = replay},
            code, x);
        EXPECT_TRUE(testing::bitwise_equal(gradient(y), expected));
      }
    }
  }
}

}  // namespace
}  // namespace reprise::policy_store_test
