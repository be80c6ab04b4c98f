// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Ranks that do not come together: every other one gets an error, and none waits for ever.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <torch/torch.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "reprise/engine/checkpoint.h"
#include "reprise/engine/recomputing.h"
#include "reprise/partition/partition_error.h"
#include "reprise/partition/partitioned_store.h"
#include "tests/distributed/ranks.h"

namespace reprise::partition_failures_test {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::on_ranks;
using testing::Rank;
using ::testing::ThrowsMessage;

// Three regions, of which the last, the first in backward, does `in_replay` when it is recomputed.
at::Tensor chain(const CheckpointOptions& options, const std::function<void()>& in_replay) {
  at::Tensor h = at::randn({2000}).requires_grad_().exp();
  for (int i = 0; i < 3; ++i) {
    h = checkpoint(
        options,
        [in_replay, i](const at::Tensor& t) {
          if (i == 2 && is_recomputing()) {
            in_replay();
          }
          return t.sin();
        },
        h);
  }
  return h.sum();
}

TEST(PartitionFailuresTest, RankThatThrowsInAReplayLeavesNobodyWaiting) {
  on_ranks(3,
           [](Rank& rank) {
             const CheckpointOptions options{.input_store = stores::partitioned(rank.group)};
             if (rank.index == 1) {
               const at::Tensor loss =
                   chain(options, [] { throw std::runtime_error("out of paper"); });
               EXPECT_THAT([&] { loss.backward(); },
                           ThrowsMessage<std::runtime_error>(HasSubstr("out of paper")));
               rank.wait_for("0");
               rank.wait_for("2");
               rank.tell("1");
             } else {
               const at::Tensor loss = chain(options, [] {});
               EXPECT_THAT([&] { loss.backward(); },
                           ThrowsMessage<PartitionError>(AllOf(
                               HasSubstr("gathering put #0 of region"), HasSubstr("Float [2000]"),
                               HasSubstr("failed on rank " + std::to_string(rank.index)))));
               rank.tell(std::to_string(rank.index));
               rank.wait_for("1");
             }
           },
           {.group_timeout = milliseconds(5000)});
}

TEST(PartitionFailuresTest, ThrowsForRankThatIsKilledOnTheOthers) {
  on_ranks(3,
           [](Rank& rank) {
             const CheckpointOptions options{.input_store = stores::partitioned(rank.group)};
             const bool is_last = rank.index == 2;
             const at::Tensor loss = chain(options, [&] {
               if (is_last) {
                 ::raise(SIGKILL);
               }
             });
             EXPECT_THAT(
                 [&] { loss.backward(); },
                 ThrowsMessage<PartitionError>(HasSubstr("[stores.partitioned] gathering")));
           },
           {.group_timeout = milliseconds(10000), .killed = 2});
}

// Gradients of two regions, of equal shapes, in the order that is asked for.
void backward_through(const Rank& rank, const PartitionedOptions& checks, bool is_swapped) {
  const auto store = stores::partitioned(rank.group, checks);
  const at::Tensor x = at::randn({2000}).requires_grad_();
  const auto region = [&](const std::string& name, const at::Tensor& h) {
    return checkpoint(
               {.name = name, .input_store = store}, [](const at::Tensor& t) { return t.sin(); }, h)
        .sum();
  };
  std::vector<at::Tensor> losses = {region("left", x.exp()), region("right", x.cos())};
  if (is_swapped) {
    std::swap(losses[0], losses[1]);
  }
  losses[0].backward();
  losses[1].backward();
}

PartitionedOptions checked(milliseconds timeout) {
  return {.check_order = true, .check_timeout = timeout};
}

TEST(PartitionChecksTest, RegionsInTheSameOrderPass) {
  on_ranks(3, [](Rank& rank) {
    for (int step = 0; step < 3; ++step) {
      backward_through(rank, checked(std::chrono::minutes(1)), false);
    }
  });
}

TEST(PartitionChecksTest, RegionsInAnotherOrderAreAnErrorThatNamesThem) {
  on_ranks(3, [](Rank& rank) {
    EXPECT_THAT([&] { backward_through(rank, checked(std::chrono::minutes(1)), rank.index == 1); },
                ThrowsMessage<PartitionError>(AllOf(
                    HasSubstr("different tensors as gather #0"),
                    HasSubstr("rank 0: put #0 of region 'left': Float [2000] (8000 bytes), values"),
                    HasSubstr("rank 1: put #1 of region 'right'"),
                    HasSubstr("rank 2: put #0 of region 'left'"))));
  });
}

TEST(PartitionChecksTest, TensorsThatDifferAreAnError) {
  on_ranks(2, [](Rank& rank) {
    const auto store = stores::partitioned(rank.group, checked(std::chrono::minutes(1)));
    const auto stored = store->put(at::full({2000}, rank.index));
    EXPECT_THAT([&] { stored->prefetch(); },
                ThrowsMessage<PartitionError>(AllOf(HasSubstr("must put equal tensors"),
                                                    HasSubstr("rank 0: put #0: Long [2000]"),
                                                    HasSubstr("rank 1: put #0: Long [2000]"))));
  });
}

TEST(PartitionChecksTest, RankThatDoesNotComeIsNamedWithItsLastGather) {
  on_ranks(3, [](Rank& rank) {
    const auto store = stores::partitioned(rank.group, checked(milliseconds(3000)));
    const at::Tensor x = at::randn({2000});
    store->put_all({x}, "first")[0]->get();
    if (rank.index == 2) {
      rank.wait_for("0");
      rank.wait_for("1");
      rank.tell("2");
      return;
    }
    const auto stored = store->put_all({x}, "second");
    EXPECT_THAT(
        [&] { stored[0]->get(); },
        ThrowsMessage<PartitionError>(AllOf(
            HasSubstr("not all ranks have come to gather #1 within 3000 ms"),
            HasSubstr("rank 0: put #1 of region 'second'"),
            HasSubstr("rank 2: has not come; its last gather was put #0 of region 'first'"))));
    rank.tell(std::to_string(rank.index));
    rank.wait_for("2");
  });
}

TEST(PartitionChecksTest, ThrowsInTimeForRankThatIsGone) {
  on_ranks(3,
           [](Rank& rank) {
             const auto store = stores::partitioned(rank.group, checked(milliseconds(3000)));
             const auto stored = store->put(at::randn({2000}));
             if (rank.index == 1) {
               ::raise(SIGKILL);
             }
             EXPECT_THAT([&] { stored->get(); },
                         ThrowsMessage<PartitionError>(HasSubstr("rank 1: has not come")));
           },
           {.killed = 1});
}

}  // namespace
}  // namespace reprise::partition_failures_test
