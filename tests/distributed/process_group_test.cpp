// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/partition/process_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <vector>

#include "tests/distributed/ranks.h"

namespace reprise::process_group_test {
namespace {

using testing::on_ranks;
using testing::Rank;

TEST(ProcessGroup, OfTheEnvironmentReducesOverAllRanks) {
  on_ranks(4, [](Rank& rank) {
    EXPECT_EQ(rank.size, 4);
    std::vector<at::Tensor> tensors = {at::full({3}, rank.index + 1.0)};
    rank.group->allreduce(tensors)->wait();
    EXPECT_TRUE(at::equal(tensors[0], at::full({3}, 10.0)));
  });
}

TEST(ProcessGroup, ARankThatDoesNotComeIsAnErrorInTime) {
  if (!has_gloo()) {
    GTEST_SKIP() << "Reprise was built without Gloo";
  }
  LaunchEnvironment environment{.rank = 1, .world_size = 2, .local_rank = 0};
  environment.master_port = 1;  // where nobody listens
  EXPECT_ANY_THROW(static_cast<void>(
      init_process_group(environment, {.timeout = std::chrono::milliseconds(1000)})));
}

}  // namespace
}  // namespace reprise::process_group_test
