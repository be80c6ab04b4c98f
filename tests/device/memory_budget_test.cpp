// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Budgets for the memory of an accelerator: kept between operators, by the reports of its
// allocator.
#include "reprise/engine/memory_budget.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/profiler.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <thread>
#include <vector>

#include "reprise/engine/cpu_memory.h"
#include "reprise/engine/region/frame.h"
#include "reprise/engine/step_profile_guard.h"
#include "reprise/hooks/seam/torch_version.h"
#include "tests/device/device_cases.h"
#include "tests/testing/within_budget.h"

namespace reprise::device_budget_test {
namespace {

using namespace device_cases;  // NOLINT(google-build-using-namespace)
using ::testing::HasSubstr;

constexpr std::int64_t kRows = 512;
constexpr std::int64_t kWidth = 64;
constexpr std::int64_t kActivation = kRows * kWidth * 4;

using Tensors = std::vector<at::Tensor>;
using Forward = std::function<at::Tensor(const Tensors&)>;

at::Tensor layers(const Tensors& weights, at::Tensor h) {
  for (const at::Tensor& weight : weights) {
    h = h + h.mm(weight).tanh().sin() * 0.5;
  }
  return h.square().mean();
}

struct Outcome {
  Tensors gradients;            // on the CPU
  std::int64_t peak_bytes = 0;  // of all devices together
};

class DeviceBudgetTest : public ::testing::Test {
 protected:
  static Tensors weights(int count, c10::Device device = test_device()) {
    torch::manual_seed(3);
    Tensors weights;
    for (int i = 0; i < count; ++i) {
      weights.push_back((at::randn({kWidth, kWidth}) / 8).to(device).requires_grad_());
    }
    return weights;
  }

  static at::Tensor batch(c10::Device device = test_device()) {
    torch::manual_seed(4);
    return at::randn({kRows, kWidth}).to(device);
  }

  static void reset(const Tensors& weights) {
    for (at::Tensor weight : weights) {
      weight.mutable_grad().reset();
    }
  }

  static Tensors gradients(const Tensors& weights) {
    Tensors found;
    for (const at::Tensor& weight : weights) {
      found.push_back(weight.grad().cpu());
    }
    return found;
  }

  static Outcome step(const Tensors& weights, MemoryBudget* budget, const Forward& forward) {
    reset(weights);
    settled_device_bytes();
    testing::reset_peak_device_bytes();
    at::Tensor loss = testing::within(budget, [&] { return forward(weights); });
    loss.backward();
    loss.reset();
    const std::int64_t peak = testing::peak_device_bytes();
    return {gradients(weights), peak};
  }

  // The most that an operator, or a node, of the plain step allocates at once.
  static std::int64_t largest_operator(const Tensors& weights, const Forward& forward) {
    reset(weights);
    StepProfileGuard profile(test_device());
    forward(weights).backward();
    const planner::Trace trace = std::move(profile).finish();
    std::int64_t largest = 0;
    for (const planner::Operator& op : trace.operators) {
      std::int64_t bytes = op.workspace_bytes;
      for (const planner::ValueId result : op.results) {
        bytes += trace.values[result].bytes;
      }
      largest = std::max(largest, bytes);
    }
    return largest;
  }

  void expect_to_fit(const Tensors& weights, double part, const Forward& forward) {
    const Outcome plain = step(weights, nullptr, forward);
    const std::int64_t most = largest_operator(weights, forward);
    reset(weights);
    const std::int64_t before = settled_device_bytes();
    const auto budget_bytes =
        before + static_cast<std::int64_t>(part * static_cast<double>(plain.peak_bytes - before));
    MemoryBudget budget({.peak_bytes = budget_bytes, .device = test_device()});
    for (int i = 0; i < 5; ++i) {
      SCOPED_TRACE(c10::str("part ", part, ", step ", i));
      const Outcome got = step(weights, &budget, forward);
      const BudgetedStep last = *budget.last_step();
      expect_equal(got.gradients, plain.gradients);
      EXPECT_EQ(last.peak_bytes, got.peak_bytes);
      EXPECT_EQ(last.is_planned(), i > 0);
      EXPECT_EQ(last.is_recorded, i < 2);
      EXPECT_LE(got.peak_bytes, budget_bytes + (i == 0 ? most : 0));
      if (i > 0) {
        EXPECT_EQ(got.peak_bytes, *last.predicted_peak_bytes);
        EXPECT_EQ(last.evicted_bytes, 0);
      }
    }
    EXPECT_EQ(engine_internal::Frame::live_count(), 0);
  }
};

TEST_F(DeviceBudgetTest, StaysWithinTheBudgetWithTheBitsOfThePlainStep) {
  const Tensors weights = this->weights(10);
  const at::Tensor x = batch();
  for (const double part : {1.0, 0.7, 0.5, 0.35}) {
    expect_to_fit(weights, part, [&](const Tensors& w) { return layers(w, x); });
  }
}

TEST_F(DeviceBudgetTest, KernelsThatComeLateChangeNothing) {
  const Tensors weights = this->weights(4);
  const at::Tensor x = batch();
  const DelayGuard late({.kernel = microseconds(200)});
  expect_to_fit(weights, 0.6, [&](const Tensors& w) { return layers(w, x); });
}

TEST_F(DeviceBudgetTest, AllocatorsWithStatistics) {
  const testing::DeviceStatisticsGuard statistics;
  const Tensors weights = this->weights(6);
  const at::Tensor x = batch();
  expect_to_fit(weights, 0.6, [&](const Tensors& w) { return layers(w, x); });
}

// The cache counts as available, but for what is beside blocks in use.
TEST_F(DeviceBudgetTest, AllThatTheDeviceHasToGive) {
  const testing::DeviceStatisticsGuard statistics;
  if (!hooks_internal::memory_info(*c10::getDeviceAllocator(test_device().type()), 0)) {
    EXPECT_THAT([] { MemoryBudget budget({.device = test_device()}); },
                ::testing::ThrowsMessage<c10::Error>(HasSubstr("set peak_bytes")));
    GTEST_SKIP() << "this LibTorch does not ask allocators how much memory there is";
  }
  const Tensors weights = this->weights(6);
  const at::Tensor x = batch();
  const auto forward = [&](const Tensors& w) { return layers(w, x); };
  const Outcome plain = step(weights, nullptr, forward);
  reset(weights);
  const std::int64_t before = settled_device_bytes();
  const std::int64_t offered = testing::kDeviceBytes - testing::kSplitBytes;
  MemoryBudget all({.device = test_device()});
  EXPECT_EQ(step(weights, &all, forward).peak_bytes, plain.peak_bytes);
  EXPECT_EQ(*all.last_step()->limit_bytes, offered - (std::int64_t{64} << 20));
  const std::int64_t limit = before + (plain.peak_bytes - before) * 6 / 10;
  MemoryBudget part({.reserve_bytes = offered - limit, .device = test_device()});
  for (int i = 0; i < 4; ++i) {
    const Outcome got = step(weights, &part, forward);
    expect_equal(got.gradients, plain.gradients);
    EXPECT_EQ(*part.last_step()->limit_bytes, limit);
    EXPECT_LE(got.peak_bytes, limit + (i == 0 ? largest_operator(weights, forward) : 0));
  }
  EXPECT_THAT(part.report(), HasSubstr(c10::str("free memory of ", test_device())));
}

TEST_F(DeviceBudgetTest, AnAllocatorThatDoesNotTellNeedsANumber) {
  weights(1);
  EXPECT_THAT([] { MemoryBudget budget({.fraction = 0.5, .device = test_device()}); },
              ::testing::ThrowsMessage<c10::Error>(HasSubstr("set peak_bytes")));
}

TEST_F(DeviceBudgetTest, MemoryOfTheHostDoesNotCount) {
  const Tensors weights = this->weights(6);
  const at::Tensor x = batch();
  const at::Tensor scale = at::full({}, 0.5);
  const auto forward = [&](const Tensors& w) {
    const at::Tensor host = at::ones({kRows, 100 * kWidth});
    return layers(w, x * (host * scale).mean().item<float>());
  };
  expect_to_fit(weights, 0.6, forward);
}

TEST_F(DeviceBudgetTest, ABudgetThatIsTooSmallIsAnError) {
  const Tensors weights = this->weights(4);
  const at::Tensor x = batch();
  const auto forward = [&](const Tensors& w) { return layers(w, x); };
  const Outcome plain = step(weights, nullptr, forward);
  const std::int64_t most = largest_operator(weights, forward);
  reset(weights);
  const std::int64_t before = settled_device_bytes();
  const std::int64_t budget_bytes = before + kActivation * 3 / 2;
  MemoryBudget budget({.peak_bytes = budget_bytes, .device = test_device()});
  for (int i = 0; i < 3; ++i) {
    testing::reset_peak_device_bytes();
    try {
      step(weights, &budget, forward);
      ADD_FAILURE() << "no error";
    } catch (const BudgetExceededError& error) {
      EXPECT_THAT(error.what_without_backtrace(), HasSubstr("a step does not fit into its budget"));
      EXPECT_THAT(error.what_without_backtrace(), HasSubstr(c10::str(budget_bytes, " bytes")));
    }
    EXPECT_LE(testing::peak_device_bytes(), budget_bytes + most);
    EXPECT_EQ(engine_internal::Frame::live_count(), 0);
  }
  expect_equal(step(weights, nullptr, forward).gradients, plain.gradients);
}

// From budgets that forward does not fit into, through those that only backward exceeds, to those
// that both fit into.
TEST_F(DeviceBudgetTest, AStepThatFailsLeavesTheNextOneClean) {
  const Tensors weights = this->weights(6);
  const at::Tensor x = batch();
  const auto forward = [&](const Tensors& w) { return layers(w, x); };
  const Outcome plain = step(weights, nullptr, forward);
  reset(weights);
  const std::int64_t before = settled_device_bytes();
  int failures = 0;
  for (int activations = 1; activations <= 12; ++activations) {
    SCOPED_TRACE(activations);
    MemoryBudget budget(
        {.peak_bytes = before + kActivation * activations, .device = test_device()});
    int failed = 0;
    for (int i = 0; i < 3; ++i) {
      try {
        expect_equal(step(weights, &budget, forward).gradients, plain.gradients);
      } catch (const BudgetExceededError&) {
        ++failed;
      }
      reset(weights);
      EXPECT_EQ(engine_internal::Frame::live_count(), 0);
      EXPECT_EQ(settled_device_bytes(), before);
    }
    failures += failed;
    EXPECT_TRUE(activations > 1 || failed == 3);
    EXPECT_TRUE(activations < 12 || failed == 0);
  }
  EXPECT_GT(failures, 3);
}

TEST_F(DeviceBudgetTest, SeveralBackwards) {
  const Tensors weights = this->weights(5);
  const at::Tensor x = batch();
  const auto grads = [&](MemoryBudget* budget) {
    const at::Tensor loss = testing::within(budget, [&] { return layers(weights, x); });
    Tensors found = torch::autograd::grad({loss}, weights, {}, /*retain_graph=*/true);
    for (const at::Tensor& again : torch::autograd::grad({loss}, weights)) {
      found.push_back(again);
    }
    for (at::Tensor& gradient : found) {
      gradient = gradient.cpu();
    }
    return found;
  };
  const std::int64_t before = settled_device_bytes();
  testing::reset_peak_device_bytes();
  const Tensors plain = grads(nullptr);
  for (const bool has_statistics : {true, false}) {
    std::optional<testing::DeviceStatisticsGuard> statistics;
    if (has_statistics) {
      statistics.emplace();
    }
    MemoryBudget budget({.peak_bytes = before + (testing::peak_device_bytes() - before) * 3 / 4,
                         .device = test_device()});
    for (int i = 0; i < 4; ++i) {
      expect_equal(grads(&budget), plain);
      settled_device_bytes();
    }
  }
}

// LibTorch's profiler needs the place of the reports for itself.
TEST_F(DeviceBudgetTest, AStepUnderTheProfiler) {
  const testing::DeviceStatisticsGuard statistics;
  const Tensors weights = this->weights(6);
  const at::Tensor x = batch();
  const auto forward = [&](const Tensors& w) { return layers(w, x); };
  const Outcome plain = step(weights, nullptr, forward);
  reset(weights);
  const std::int64_t before = settled_device_bytes();
  const std::int64_t budget_bytes = before + (plain.peak_bytes - before) * 6 / 10;
  MemoryBudget budget({.peak_bytes = budget_bytes, .device = test_device()});
  const auto profiled = [&] {
    const torch::autograd::profiler::RecordProfile profile(::testing::TempDir() + "profile");
    return step(weights, &budget, forward);
  };
  const Outcome unknown = profiled();
  expect_equal(unknown.gradients, plain.gradients);
  EXPECT_FALSE(budget.last_step()->is_recorded);
  step(weights, &budget, forward);
  step(weights, &budget, forward);
  const Outcome known = profiled();
  expect_equal(known.gradients, plain.gradients);
  EXPECT_TRUE(budget.last_step()->is_planned());
  EXPECT_LE(known.peak_bytes, budget_bytes);
}

TEST_F(DeviceBudgetTest, OneBudgetForTheHostAndOneForEachDevice) {
  const auto train = [](c10::Device device, std::int64_t bytes) {
    at::set_num_threads(1);
    const Tensors weights = DeviceBudgetTest::weights(8, device);
    const at::Tensor x = batch(device);
    layers(weights, x).backward();
    const Tensors plain = gradients(weights);
    MemoryBudget budget({.peak_bytes = bytes, .device = device});
    for (int i = 0; i < 6; ++i) {
      reset(weights);
      at::Tensor loss;
      {
        const BudgetScope scope(budget);
        loss = layers(weights, x);
      }
      loss.backward();
      expect_equal(gradients(weights), plain);
      ASSERT_TRUE(budget.last_step().has_value());
    }
    EXPECT_GT(budget.last_step()->peak_bytes, 0);
  };
  settled_device_bytes();
  const std::int64_t room = 16 * kActivation;
  std::thread host([&] { train(at::kCPU, cpu_memory().current_bytes + 4 * room); });
  std::thread other([&] { train(test_device(1), testing::live_device_bytes_on(1) + room); });
  train(test_device(0), testing::live_device_bytes_on(0) + room);
  host.join();
  other.join();
}

TEST_F(DeviceBudgetTest, WithoutAnIndexItIsTheCurrentDevice) {
  const Tensors weights = this->weights(3);
  const at::Tensor x = batch();
  MemoryBudget budget(
      {.peak_bytes = std::int64_t{1} << 30, .device = c10::Device(test_device().type())});
  step(weights, &budget, [&](const Tensors& w) { return layers(w, x); });
  EXPECT_GE(budget.last_step()->peak_bytes, 3 * kActivation);
}

}  // namespace
}  // namespace reprise::device_budget_test
