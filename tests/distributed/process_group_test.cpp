// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/partition/process_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <vector>

#include "reprise/engine/checkpoint.h"
#include "reprise/hooks/seam/torch_version.h"
#include "reprise/partition/partitioned_store.h"
#include "tests/distributed/ranks.h"

namespace reprise::process_group_test {
namespace {

using testing::on_ranks;
using testing::Rank;

TEST(ProcessGroupTest, ReducesOverAllRanksOfTheEnvironment) {
  on_ranks(4, [](Rank& rank) {
    EXPECT_EQ(rank.size, 4);
    std::vector<at::Tensor> tensors = {at::full({3}, rank.index + 1.0)};
    rank.group->allreduce(tensors)->wait();
    EXPECT_TRUE(at::equal(tensors[0], at::full({3}, 10.0)));
  });
}

TEST(ProcessGroupTest, OverNcclInAGroupOfOne) {
  if (!has_nccl()) {
    GTEST_SKIP() << "needs a GPU, and Reprise built with NCCL";
  }
  on_ranks(1, [](Rank& rank) {
    std::vector<at::Tensor> tensors = {at::full({3}, 2.0, at::kCUDA)};
    rank.group->allreduce(tensors)->wait();
    EXPECT_TRUE(at::equal(tensors[0].cpu(), at::full({3}, 2.0)));
    at::Tensor whole = at::empty({3}, at::kCUDA);
    hooks_internal::all_gather_into(*rank.group, whole, tensors[0])->wait();
    EXPECT_TRUE(at::equal(whole.cpu(), at::full({3}, 2.0)));
    const CheckpointOptions options{.input_store = stores::partitioned(rank.group)};
    const at::Tensor x = at::randn({50, 30}, at::kCUDA).requires_grad_();
    const auto code = [](const at::Tensor& t) { return t.sin().exp(); };
    const at::Tensor found =
        torch::autograd::grad({checkpoint(options, code, code(x)).sum()}, {x})[0];
    EXPECT_TRUE(at::equal(found, torch::autograd::grad({code(code(x)).sum()}, {x})[0]));
  });
}

TEST(ProcessGroupTest, ThrowsInTimeForRankThatDoesNotCome) {
  if (!has_gloo()) {
    GTEST_SKIP() << "Reprise was built without Gloo";
  }
  LaunchEnvironment environment{.rank = 1, .world_size = 2, .local_rank = 0};
  environment.master_port = 1;  // where nobody listens
  EXPECT_THAT(
      [&] {
        static_cast<void>(
            init_process_group(environment, {.timeout = std::chrono::milliseconds(1000)}));
      },
      ::testing::ThrowsMessage<c10::Error>(::testing::HasSubstr("timed out after 1000ms")));
}

}  // namespace
}  // namespace reprise::process_group_test
