// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Budgets without a number: a part of all that the device has to give.
#include <sys/resource.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>

#include "absl/cleanup/cleanup.h"
#include "reprise/engine/allocation/available_memory.h"
#include "tests/engine/budgeted_steps.h"
#include "tests/testing/sanitized.h"

namespace reprise::testing::budget_defaults_test {
namespace {

using engine_internal::AvailableMemory;
using engine_internal::bytes_held_by_malloc;
using engine_internal::ProcessLimits;
using engine_internal::SystemMemory;
using ::testing::HasSubstr;

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

class BudgetDefaultsTest : public BudgetedSteps {
 protected:
  at::Tensor forward(const Tensors& weights) const { return layers(weights, x_); }
  Outcome run(MemoryBudget* budget) const {
    return step(weights_, budget, [this](const Tensors& w) { return forward(w); });
  }

  // Runs a step with that limit on CPU tensors, and expects it to keep within and have the bits of
  // the plain step.
  BudgetedStep run_within(MemoryBudget& budget, std::int64_t limit_bytes) const {
    zero_gradients(weights_);
    set_cpu_memory_limit(limit_bytes);
    const absl::Cleanup no_limit = [] { set_cpu_memory_limit(std::nullopt); };
    const Outcome got = run(&budget);
    EXPECT_LE(got.peak_bytes, limit_bytes);
    expect_same_bits(got.gradients, plain_.gradients);
    const BudgetedStep last = budget.last_step().value();
    EXPECT_EQ(last.peak_bytes, got.peak_bytes);
    return last;
  }

  void TearDown() override {
    weights_.clear();
    x_.reset();
    plain_ = {};
    BudgetedSteps::TearDown();
  }

  Tensors weights_ = make_weights(8);
  at::Tensor x_ = torch::randn({512, kWidth});
  Outcome plain_ = run(nullptr);
};

TEST_F(BudgetDefaultsTest, AStepThatFitsRecomputesNothing) {
  MemoryBudget budget;
  EXPECT_THAT(budget.report(), HasSubstr("all that the device has to give when a step begins"));
  for (int i = 0; i < 4; ++i) {
    const Outcome got = run(&budget);
    expect_same_bits(got.gradients, plain_.gradients);
    const BudgetedStep last = budget.last_step().value();
    EXPECT_GT(last.limit_bytes.value(), plain_.peak_bytes);
    EXPECT_EQ(last.evicted_bytes, 0);
    EXPECT_EQ(last.predicted_seconds, last.plain_seconds);
  }
  EXPECT_THAT(budget.report(), HasSubstr("that the device has to give, less"));
}

TEST_F(BudgetDefaultsTest, KeepsTheLimitOnCpuTensors) {
  MemoryBudget budget;
  const std::int64_t limit = budget_bytes(weights_, 0.5, plain_);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(run_within(budget, limit).limit_bytes, limit);
  }
  EXPECT_EQ(budget.last_step()->evicted_bytes, 0);
  EXPECT_THAT(budget.report(), HasSubstr("0.00 MiB in reserve: set_cpu_memory_limit"));
}

TEST_F(BudgetDefaultsTest, AFractionLessAReserve) {
  const std::int64_t limit = budget_bytes(weights_, 1.2, plain_);
  MemoryBudget part({.fraction = 0.5});
  MemoryBudget rest({.reserve_bytes = 1000});
  MemoryBudget both({.fraction = 0.5, .reserve_bytes = 1000});
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(run_within(part, limit).limit_bytes, limit / 2);
    EXPECT_LE(part.last_step()->peak_bytes, limit / 2);
    EXPECT_EQ(run_within(rest, limit).limit_bytes, limit - 1000);
    EXPECT_EQ(run_within(both, limit).limit_bytes, (limit - 1000) / 2);
  }
}

TEST_F(BudgetDefaultsTest, ALimitThatVariesALittleKeepsThePlan) {
  const EqualTimes equal_times;
  MemoryBudget budget;
  const std::int64_t limit = budget_bytes(weights_, 0.5, plain_);
  for (int i = 0; i < 3; ++i) {
    run_within(budget, limit);
  }
  const std::string plan = budget.explain("aten::gelu");
  for (const std::int64_t change : {10, 1000, -10, 5000, 0, -20}) {
    const std::int64_t bytes = limit + change;
    EXPECT_EQ(run_within(budget, bytes).limit_bytes, bytes);
    EXPECT_EQ(budget.explain("aten::gelu"), plan) << change;
  }
}

TEST_F(BudgetDefaultsTest, ALimitThatVariesMuchIsFollowed) {
  const std::int64_t before = budget_bytes(weights_, 0, plain_);
  MemoryBudget budget;
  for (const double part : {1.0, 0.5, 1.5, 0.4, 1.1, 0.6, 0.5, 1.0, 0.4, 2.0}) {
    const std::int64_t limit = budget_bytes(weights_, part, plain_);
    const BudgetedStep last = run_within(budget, limit);
    if (last.is_planned() && part > 1) {
      EXPECT_EQ(last.predicted_seconds, last.plain_seconds) << part;
      EXPECT_GT(last.peak_bytes - before, (plain_.peak_bytes - before) * 9 / 10) << part;
    }
  }
}

TEST_F(BudgetDefaultsTest, AStepThatDoesNotFitSaysWhatLimitsIt) {
  MemoryBudget budget;
  const std::int64_t limit = budget_bytes(weights_, 0.05, plain_);
  try {
    run_within(budget, limit);
    ADD_FAILURE() << "no error";
  } catch (const BudgetExceededError& error) {
    EXPECT_THAT(error.what_without_backtrace(),
                HasSubstr("make more memory available: the limit is by set_cpu_memory_limit"));
  }
}

TEST_F(BudgetDefaultsTest, OptionsThatContradictAreErrors) {
  const auto expect_refused = [](MemoryBudgetOptions options, const char* message) {
    EXPECT_THAT([&] { MemoryBudget{options}; },
                ::testing::ThrowsMessage<std::invalid_argument>(HasSubstr(message)));
  };
  const char* const several =
      "[memory_budget] at most one of peak_bytes, max_overhead and fraction may be set";
  expect_refused({.peak_bytes = 1, .max_overhead = 0.1}, several);
  expect_refused({.peak_bytes = 1, .fraction = 0.1}, several);
  expect_refused({.max_overhead = 0.1, .fraction = 0.1}, several);
  expect_refused({.peak_bytes = 1, .reserve_bytes = 0}, "leave it out with peak_bytes");
  expect_refused({.max_overhead = 1, .reserve_bytes = 0}, "or max_overhead");
  expect_refused({.peak_bytes = 0}, "peak_bytes is 0; it must be above 0");
  expect_refused({.peak_bytes = -1}, "peak_bytes is -1; it must be above 0");
  expect_refused({.max_overhead = -0.1}, "max_overhead is -0.1; it must not be negative");
  for (const double fraction : {0.0, -1.0, 1.01, std::numeric_limits<double>::quiet_NaN()}) {
    expect_refused({.fraction = fraction}, "it must be above 0 and at most 1");
  }
  expect_refused({.reserve_bytes = -1}, "reserve_bytes is -1; it must not be negative");
}

// Whatever the machine has: a control group is made for it by `systemd-run --scope -p MemoryMax=2G`
// or a container.
TEST_F(BudgetDefaultsTest, WithinTheControlGroupOfTheProcess) {
  const SystemMemory system;
  std::optional<std::int64_t> total;
  for (const AvailableMemory& memory : system.available({}, 0)) {
    if (memory.limit.find("control group") != std::string::npos) {
      total = std::min(total.value_or(memory.total_bytes), memory.total_bytes);
    }
  }
  if (!total) {
    GTEST_SKIP() << "no control group limits the memory of this process";
  }
  MemoryBudget budget;
  run(&budget);
  EXPECT_LT(budget.last_step()->limit_bytes.value(), *total);
}

// In a process of its own, whose address space is limited to a part of what the plain step takes.
class BudgetDefaultsDeathTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (cases(1, 0) == 0) {
      GTEST_SKIP() << "the address sanitizer has an address space of its own";
    }
    GTEST_FLAG_SET(death_test_style, "threadsafe");
  }

  static constexpr std::int64_t kRows = std::int64_t{1} << 17;
  static constexpr int kLayers = 16;
  static constexpr std::int64_t kActivation = kRows * 32 * 4;  // 16 MiB
  static constexpr std::int64_t kPlainGrowth = 20 * kActivation;

  static at::Tensor gradient(const at::Tensor& weight, const at::Tensor& x, MemoryBudget* budget) {
    const at::Tensor loss = within(budget, [&] {
      at::Tensor h = x;
      for (int i = 0; i < kLayers; ++i) {
        h = at::tanh(h * weight);
      }
      return h.square().mean();
    });
    return torch::autograd::grad({loss}, {weight})[0];
  }

  // Leaves `bytes` to allocate.
  static void limit_address_space(std::int64_t bytes) {
    constexpr std::int64_t kAny = std::int64_t{1} << 50;
    const std::int64_t left =
        SystemMemory().available({.address_space_bytes = kAny}, bytes_held_by_malloc()).at(0).bytes;
    rlimit limit{};
    getrlimit(RLIMIT_AS, &limit);
    limit.rlim_cur = static_cast<rlim_t>(kAny - left + bytes);
    setrlimit(RLIMIT_AS, &limit);
  }

  static bool is_out_of_memory(const at::Tensor& weight, const at::Tensor& x) {
    try {
      gradient(weight, x, nullptr);
      return false;
    } catch (const std::exception&) {
      return true;
    }
  }

  // Ends the process, with 0 if all is as it should be.
  [[noreturn]] static void train_in_limited_address_space() {
    at::set_num_threads(1);
    install_cpu_memory_counter();
    torch::manual_seed(1);
    const at::Tensor x = torch::randn({kRows, 32});
    const at::Tensor weight = torch::randn({32}).requires_grad_();
    const at::Tensor expected = gradient(weight, x, nullptr);
    limit_address_space(64 * kMiB + kPlainGrowth * 6 / 10);
    if (!is_out_of_memory(weight, x)) {
      std::_Exit(2);
    }
    MemoryBudget budget;
    for (int i = 0; i < 5; ++i) {
      const at::Tensor got = gradient(weight, x, &budget);
      if (!bitwise_equal(got, expected) || budget.report().find("RLIMIT_AS") == std::string::npos) {
        std::_Exit(3);
      }
    }
    std::_Exit(budget.last_step()->is_planned() ? 0 : 4);
  }
};

TEST_F(BudgetDefaultsDeathTest, KeepsTheLimitOfTheAddressSpace) {
  EXPECT_EXIT(train_in_limited_address_space(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace reprise::testing::budget_defaults_test
