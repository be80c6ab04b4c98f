// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Scopes whose code launches kernels by hand, and copies that are late.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "reprise/engine/checkpoint_scope.h"
#include "reprise/engine/memory_report.h"
#include "reprise/hooks/stores.h"
#include "reprise/policies/policies.h"
#include "tests/device/device_cases.h"

namespace reprise::scope_pointer_test {
namespace {

using namespace device_cases;  // NOLINT(google-build-using-namespace)
using testing::bitwise_equal;

constexpr std::int64_t kSize = 64;

void launch_by_hand(const at::Tensor& tensor) {
  float* const data = tensor.mutable_data_ptr<float>();
  testing::enqueue(0, testing::current_stream(0), testing::Work::kKernel, 0, [data] {
    for (std::int64_t i = 0; i < kSize; ++i) {
      data[i] = static_cast<float>(i);
    }
  });
}

TEST(DeviceScopePointerTest, KeepsMemoryThatALaunchedKernelWrites) {
  using Make = std::function<at::Tensor(const at::Tensor&)>;
  const std::vector<std::pair<std::string, Make>> makes = {
      {"empty", [](const at::Tensor& like) { return at::empty({kSize}, like.options()); }},
      {"zeros", [](const at::Tensor& like) { return at::zeros({kSize}, like.options()); }},
      {"zeros_like", [](const at::Tensor& like) { return at::zeros_like(like); }},
      {"full_like", [](const at::Tensor& like) { return at::full_like(like, 2); }},
      {"new_ones", [](const at::Tensor& like) { return like.new_ones({kSize}); }},
      {"empty, zero_", [](const at::Tensor& like) { return at::empty_like(like).zero_(); }},
      {"halves filled", [](const at::Tensor& like) {
         const at::Tensor halves = at::empty_like(like);
         halves.narrow(0, 0, kSize / 2).fill_(1);
         halves.narrow(0, kSize / 2, kSize / 2).fill_(2);
         return halves;
       }}};
  const DelayGuard late({.kernel = microseconds(200)});
  for (const auto& [name, make] : makes) {
    SCOPED_TRACE(name);
    const at::Tensor x = on_device(at::linspace(0, 1, kSize)).requires_grad_();
    at::Tensor y;
    {
      const CheckpointScope scope;
      const at::Tensor table = make(x.detach());
      launch_by_hand(table);
      y = at::sin(x.exp() * table);
    }
    const at::Tensor found = torch::autograd::grad({y.sum()}, {x})[0].cpu();
    const at::Tensor table = on_device(at::arange(kSize, at::kFloat));
    const at::Tensor expected =
        torch::autograd::grad({at::sin(x.exp() * table).sum()}, {x})[0].cpu();
    EXPECT_TRUE(bitwise_equal(found, expected));
  }
}

// What has not arrived yet when its operator returns is no write through a pointer, and no store
// gets it.
TEST(DeviceScopePointerTest, CopyThatArrivesLaterIsWaitedForInAReplay) {
  const DelayGuard late({.copy_out = milliseconds(5)});
  const at::Tensor x = on_device(at::linspace(0, 1, kSize)).requires_grad_();
  const at::Tensor e = x.exp().cpu();
  const at::Tensor expected = torch::autograd::grad({at::sin(e * e.detach()).sum()}, {x})[0].cpu();
  for (const PolicyHolder& policy :
       {PolicyHolder(), PolicyHolder(policies::keep_in(stores::packed({.min_bytes = 0}),
                                                       policies::save_everything()))}) {
    const MemoryReportGuard collecting;
    at::Tensor y;
    {
      const CheckpointScope scope({.policy = policy});
      const at::Tensor made = at::empty({kSize}, at::TensorOptions().pinned_memory(true));
      made.copy_(x.detach().exp(), /*non_blocking=*/true);
      const at::Tensor given = x.exp().to(at::kCPU, at::kFloat, /*non_blocking=*/true);
      wait();
      y = at::sin(given * made);
    }
    EXPECT_EQ(memory_report().regions.at(0).untracked_bytes, 0);
    EXPECT_TRUE(bitwise_equal(torch::autograd::grad({y.sum()}, {x})[0].cpu(), expected));
  }
}

}  // namespace
}  // namespace reprise::scope_pointer_test
