// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Several micro-batches in flight, as in pipelines, and evaluation in between, with the stores that
// keep parts of inputs, or keep them side by side.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "reprise/engine/checkpoint.h"
#include "reprise/hooks/slab_store.h"
#include "reprise/partition/partitioned_store.h"
#include "tests/distributed/ranks.h"
#include "tests/distributed/residual_model.h"
#include "tests/testing/bitwise.h"
#include "tests/testing/counting.h"
#include "tests/testing/modules.h"
#include "tests/testing/warning_log.h"

namespace reprise::schedule_test {
namespace {

using testing::bitwise_equal;
using testing::expect_same_bits;
using ::testing::HasSubstr;
using testing::on_ranks;
using testing::plainly;
using testing::Rank;
using testing::Region;
using testing::ResidualModel;

using Tensors = std::vector<at::Tensor>;

constexpr std::int64_t kRegions = 3;  // of the model
constexpr int kMicroBatches = 6;
constexpr std::int64_t kRows = 60;
constexpr std::size_t kInputBytes = kRows * ResidualModel::kWidth * 4;  // of a region

// A row of stores, and what of it can be asked.
struct Row {
  Row(const Rank& rank, std::string name_of_it, bool is_partitioned, bool has_slab,
      const SlabOptions& slab_options = {.min_bytes = 0})
      : name(std::move(name_of_it)), ranks(is_partitioned ? rank.size : 1) {
    if (is_partitioned) {
      partitioned = stores::partitioned(rank.group, {.min_bytes = 0});
      options.input_store = partitioned;
    }
    if (has_slab) {
      slab = stores::slab(slab_options);
      options.input_store = is_partitioned ? partitioned | slab : slab;
    }
  }

  Region region() const {
    return [this](const auto& code, const at::Tensor& h) { return checkpoint(options, code, h); };
  }
  std::int64_t gathers() const { return partitioned ? partitioned->counters().gathers : 0; }
  std::int64_t slab_bytes() const { return slab ? slab->counters().slab_bytes : 0; }
  // Of a region's input in the slab.
  std::int64_t slot_bytes() const {
    const auto n = static_cast<std::size_t>(ranks);
    const std::size_t part = ((kInputBytes + n - 1) / n + 15) / 16 * 16;
    return ((ranks > 1 ? part : kInputBytes) + 511) / 512 * 512;
  }

  std::string name;
  int ranks;  // that share an input
  std::shared_ptr<PartitionedStore> partitioned;
  std::shared_ptr<SlabStore> slab;
  CheckpointOptions options;
};

std::vector<Row> rows(const Rank& rank) {
  return {Row(rank, "partitioned", true, false), Row(rank, "partitioned | slab", true, true),
          Row(rank, "slab", false, true)};
}

struct Step {
  const ResidualModel model{at::kFloat};
  const at::Tensor x = at::randn({kRows, ResidualModel::kWidth});
};

bool comes_true(const std::function<bool()>& condition) {
  for (int i = 0; i < 5000 && !condition(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return condition();
}

struct Order {
  int in_flight;  // graphs at a time
  std::function<void()> after_forward = [] {};
  std::function<void(std::size_t graphs)> after_backward = [](std::size_t) {};
};

// Forward 0, forward 1, backward 0, forward 2, backward 1 and so on. The gradients of the weights,
// from a fixed seed.
Tensors one_forward_one_backward(const ResidualModel& model, const at::Tensor& x,
                                 const Region& region, const Order& order) {
  torch::manual_seed(7);
  std::deque<at::Tensor> losses;
  const auto backward = [&] {
    losses.front().backward();
    losses.pop_front();
    order.after_backward(losses.size());
  };
  for (int micro_batch = 0; micro_batch < kMicroBatches; ++micro_batch) {
    if (losses.size() == static_cast<std::size_t>(order.in_flight)) {
      backward();
    }
    losses.push_back(model.forward(x * (1 + micro_batch), region));
    order.after_forward();
  }
  while (!losses.empty()) {
    backward();
  }
  Tensors gradients;
  for (const at::Tensor& weight : model.weights) {
    gradients.push_back(weight.grad());
    weight.mutable_grad().reset();
  }
  return gradients;
}

// The same through a row of stores, which has after each backward what the other graphs have there.
// (Gloo's threads hold a part for a moment after its gather; it would take room from the next.)
Tensors step_through(
    const Row& row, const Step& step, int in_flight,
    const std::function<void()>& after_forward = [] {}) {
  const auto settle = [&row](std::int64_t graphs) {
    EXPECT_TRUE(comes_true([&] {
      return !row.slab || row.slab->counters().used_bytes == graphs * kRegions * row.slot_bytes();
    }));
  };
  return one_forward_one_backward(step.model, step.x, row.region(),
                                  {in_flight, after_forward, settle});
}

Tensors step_plainly(
    const Step& step, int in_flight, const std::function<void()>& after_forward = [] {}) {
  return one_forward_one_backward(step.model, step.x, plainly, {in_flight, after_forward});
}

// Nothing but the memory that the slab keeps for the next step.
bool has_left_nothing(const Row& row, std::int64_t bytes_before) {
  return comes_true([&] {
    return testing::live_cpu_bytes() == bytes_before + row.slab_bytes() &&
           (!row.slab || row.slab->counters().used_bytes == 0);
  });
}

class ScheduleTest : public ::testing::TestWithParam<int> {};

INSTANTIATE_TEST_SUITE_P(Ranks, ScheduleTest, ::testing::Values(2, 3),
                         ::testing::PrintToStringParamName());

TEST_P(ScheduleTest, OneForwardOneBackwardGivesPlainGradientsAndLeavesNothing) {
  on_ranks(GetParam(), [](Rank& rank) {
    const Step step;
    const Tensors expected = step_plainly(step, 2);
    for (const Row& row : rows(rank)) {
      SCOPED_TRACE(row.name);
      const std::int64_t before = testing::live_cpu_bytes();
      for (std::size_t time = 1; time <= 3; ++time) {
        expect_same_bits(step_through(row, step, 2), expected);
        EXPECT_EQ(row.gathers(), row.partitioned ? time * kMicroBatches * kRegions : 0);
        EXPECT_TRUE(has_left_nothing(row, before));
      }
      if (row.slab) {
        EXPECT_EQ(row.slab->counters().slab_bytes, 2 * kRegions * row.slot_bytes());
        EXPECT_EQ(row.slab->counters().growths, 0);
      }
    }
  });
}

// With dropout, whose draws equal a run without regions.
void evaluate(const Step& step, const Region& region) {
  {
    const at::NoGradGuard no_grad;
    EXPECT_FALSE(step.model.forward(step.x, region).requires_grad());
    const at::Tensor copy = step.x.clone();
    const auto twice = [](const at::Tensor& t) { return t * 2; };
    EXPECT_TRUE(bitwise_equal(region(twice, step.x), copy * 2));
    EXPECT_TRUE(bitwise_equal(step.x, copy));  // the caller's is unchanged
  }
  EXPECT_TRUE(step.model.forward(step.x, region).requires_grad());  // and nobody goes backward
}

TEST_P(ScheduleTest, EvaluationInBetweenChangesNothingAndLeavesNothing) {
  on_ranks(GetParam(), [](Rank& rank) {
    const Step step;
    const auto plain_evaluation = [&] { evaluate(step, plainly); };
    const Tensors expected = step_plainly(step, 2);
    const Tensors expected_with = step_plainly(step, 2, plain_evaluation);
    for (const Row& row : rows(rank)) {
      SCOPED_TRACE(row.name);
      const auto evaluation = [&] { evaluate(step, row.region()); };
      const std::int64_t before = testing::live_cpu_bytes();
      for (std::size_t time = 1; time <= 2; ++time) {
        expect_same_bits(step_through(row, step, 2), expected);
        evaluation();
        EXPECT_TRUE(has_left_nothing(row, before));
        expect_same_bits(step_through(row, step, 2, evaluation), expected_with);
        EXPECT_TRUE(has_left_nothing(row, before));
        EXPECT_EQ(row.gathers(), row.partitioned ? time * 2 * kMicroBatches * kRegions : 0);
      }
    }
  });
}

TEST_P(ScheduleTest, MoreMicroBatchesThanTheSlabHasRoomForMakeItGrow) {
  on_ranks(GetParam(), [](Rank& rank) {
    const Step step;
    const Tensors expected = step_plainly(step, 4);
    const SlabOptions for_two{.initial_tensors = 2 * kRegions, .min_bytes = 0};
    for (const Row& row : {Row(rank, "partitioned | slab", true, true, for_two),
                           Row(rank, "slab", false, true, for_two)}) {
      SCOPED_TRACE(row.name);
      const std::int64_t before = testing::live_cpu_bytes();
      step_through(row, step, 2);
      EXPECT_EQ(row.slab->counters().slab_bytes, 2 * kRegions * row.slot_bytes());
      EXPECT_EQ(row.slab->counters().growths, 0);
      {
        const testing::WarningLog log;
        expect_same_bits(step_through(row, step, 4), expected);
        EXPECT_EQ(row.slab->counters().growths, 2 * kRegions);
        EXPECT_THAT(log.messages(), ::testing::SizeIs(2 * kRegions));
        EXPECT_THAT(log.messages(), ::testing::Each(HasSubstr("is full")));
      }
      expect_same_bits(step_through(row, step, 4), expected);
      EXPECT_EQ(row.slab->counters().slabs, 1);
      EXPECT_EQ(row.slab->counters().slab_bytes, 4 * kRegions * row.slot_bytes());
      EXPECT_TRUE(has_left_nothing(row, before));
    }
  });
}

}  // namespace
}  // namespace reprise::schedule_test
