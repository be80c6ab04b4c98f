// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Regions and forks of named generator states on an accelerator.
#include <ATen/CPUGeneratorImpl.h>
#include <c10/core/DeviceGuard.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "reprise/engine/checkpoint.h"
#include "reprise/engine/checkpoint_scope.h"
#include "reprise/policies/policies.h"
#include "reprise/rng/rng_state_tracker.h"
#include "tests/testing/bitwise.h"
#include "tests/testing/device/test_device.h"

namespace reprise::region_rng_tracker_test {
namespace {

using testing::bitwise_equal;
using testing::is_device_awake;
using testing::test_device;

using Tensors = std::vector<at::Tensor>;

enum class Form { kPlain, kFunction, kTape, kScope };
constexpr std::array kForms = {Form::kFunction, Form::kTape, Form::kScope};

template <class Code>
at::Tensor run(Form form, CheckpointOptions options, const Code& code, const at::Tensor& x) {
  if (form == Form::kPlain) {
    return code(x);
  }
  if (form == Form::kScope) {
    const CheckpointScope scope(std::move(options));
    return code(x);
  }
  options.replay = form == Form::kTape ? ReplayMode::kTape : ReplayMode::kFunction;
  return checkpoint(std::move(options), code, x);
}

at::Tensor drop(const at::Tensor& x) { return at::dropout(x, 0.4, true); }

RngStateTracker& tracker() { return default_rng_state_tracker(); }

struct Outcome {
  Tensors tensors;
  std::vector<RngStateTracker::States> states;

  void note(const at::Tensor& tensor) { tensors.push_back(tensor.detach().cpu()); }
  void note_random() {
    note(testing::default_generator(0).get_state());
    note(testing::default_generator(1).get_state());
    note(at::detail::getDefaultCPUGenerator().get_state());
    states.push_back(tracker().states());
  }
};

void expect_equal(const Outcome& found, const Outcome& expected) {
  ASSERT_EQ(found.tensors.size(), expected.tensors.size());
  for (std::size_t i = 0; i < expected.tensors.size(); ++i) {
    EXPECT_TRUE(bitwise_equal(found.tensors[i], expected.tensors[i])) << "tensor " << i;
  }
  EXPECT_TRUE(found.states == expected.states);
}

// Draws on the device, inside and outside of forks, and on the CPU inside of one.
at::Tensor noisy(const at::Tensor& x) {
  at::Tensor h = drop(x.sin());
  {
    const auto fork = tracker().fork();
    h = drop(at::mm(h, x)) + at::rand({8}).to(x.device());
    const auto other = tracker().fork("other");
    h = drop(h.tanh());
    const auto again = tracker().fork();
    h = std::get<0>(at::native_dropout(h.exp(), 0.3, true));
  }
  return drop(h.cos()).sin();
}

Outcome train(Form form, const CheckpointOptions& options) {
  model_parallel_manual_seed(3, 1);
  tracker().add("other", 4);
  const at::Tensor x = at::randn({8, 8}).to(test_device()).requires_grad_();
  Outcome outcome;
  at::Tensor y = run(form, options, noisy, run(form, options, noisy, x * 1));
  {
    const auto fork = tracker().fork();
    y = run(form, options, noisy, y).sum();
  }
  outcome.note_random();
  drop(x);
  outcome.note(torch::autograd::grad({y}, {x}, {}, /*retain_graph=*/true)[0]);
  outcome.note_random();
  {
    const auto fork = tracker().fork("other");
    outcome.note(drop(x));
    outcome.note(torch::autograd::grad({y}, {x})[0]);
  }
  outcome.note_random();
  return outcome;
}

TEST(DeviceRngTrackerTest, RegionsAndForksDrawWhatForwardDrew) {
  const Outcome expected = train(Form::kPlain, {});
  EXPECT_FALSE(at::equal(expected.tensors[0], expected.tensors.back()));
  const std::vector<PolicyHolder> policies = {
      {},
      policies::save_nothing(),
      policies::save_matmuls(),
      policies::save_everything(),
      PolicyHolder([](const PolicyContext& context) { return context.ordinal() % 2 == 0; })};
  for (const Form form : kForms) {
    for (std::size_t i = 0; i < policies.size(); ++i) {
      SCOPED_TRACE(c10::str("form ", static_cast<int>(form), ", policy ", i));
      expect_equal(train(form, {.policy = policies[i]}), expected);
    }
  }
}

// By an operator that takes a generator: on the test device the others draw from the CPU's default
// one, which two threads must not do inside forks.
at::Tensor mask_out(const at::Tensor& x) { return x * at::empty_like(x).bernoulli_(0.9); }

// Two devices whose threads replay at the same time, each inside forks.
Outcome train_on_two_devices(Form form) {
  constexpr int kRegions = 6;
  model_parallel_manual_seed(8, 0);
  tracker().add("other", 4);
  const at::Tensor x = at::randn({8, 8}).requires_grad_();
  std::vector<at::Tensor> sums;
  for (const c10::DeviceIndex index : {0, 1}) {
    const auto code = [index](const at::Tensor& t) {
      const c10::DeviceGuard guard(test_device(index));
      at::Tensor h = mask_out(t.sin());
      const auto fork = tracker().fork();
      h = mask_out(h.exp()).sin();
      const auto other = tracker().fork("other");
      return mask_out(h).exp();
    };
    at::Tensor h = x.to(test_device(index));
    for (int region = 0; region < kRegions; ++region) {
      h = run(form, {}, code, h);
    }
    sums.push_back(h.sum().cpu());
  }
  Outcome outcome;
  outcome.note_random();
  outcome.note(torch::autograd::grad({sums[0] + sums[1]}, {x})[0]);
  outcome.note_random();
  return outcome;
}

TEST(DeviceRngTrackerTest, ThreadsOfTwoDevicesReplayForksAtOnce) {
  const Outcome expected = train_on_two_devices(Form::kPlain);
  for (const Form form : kForms) {
    for (int round = 0; round < 10; ++round) {
      SCOPED_TRACE(c10::str("form ", static_cast<int>(form), ", round ", round));
      expect_equal(train_on_two_devices(form), expected);
    }
  }
}

TEST(DeviceRngTrackerTest, ForkIsOfTheCurrentDevice) {
  test_device();
  model_parallel_manual_seed(8, 0);
  const at::Tensor before = testing::default_generator(0).get_state();
  {
    const c10::DeviceGuard guard(test_device(1));
    const auto fork = tracker().fork();
    EXPECT_EQ(testing::default_generator(1).current_seed(), 8U + 2718U);
    EXPECT_TRUE(bitwise_equal(testing::default_generator(0).get_state(), before));
    drop(at::ones({3}, test_device(1)));
  }
  EXPECT_EQ(testing::default_generator(1).current_seed(), 8U);
  EXPECT_EQ(testing::default_generator(1).get_offset(), 0U);
  const auto states = tracker().states();
  ASSERT_EQ(states.at("model-parallel-rng").generators.size(), 1U);
  EXPECT_EQ(states.at("model-parallel-rng").generators[0].device(), test_device(1));
}

// In a process of its own, in which no device has been used.
class DeviceRngTrackerDeathTest : public ::testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }

  static void use_first_inside_a_fork() {
    const at::Device device = test_device();
    model_parallel_manual_seed(11, 2);
    const at::Tensor x = at::ones({100}).requires_grad_();
    at::Tensor drawn;
    const auto region = [&](const at::Tensor& t) {
      const auto fork = tracker().fork();
      EXPECT_EQ(is_device_awake(0), is_recomputing());
      const at::Tensor noise = at::rand({100}, device).cpu();
      if (!is_recomputing()) {
        drawn = noise;
      }
      return (t * noise).exp();
    };
    EXPECT_FALSE(is_device_awake(0));
    const at::Tensor y = checkpoint(region, x);
    EXPECT_TRUE(is_device_awake(0));
    EXPECT_FALSE(is_device_awake(1));
    EXPECT_EQ(testing::default_generator(0).current_seed(), 11U);
    EXPECT_EQ(testing::default_generator(0).get_offset(), 0U);
    at::rand({100}, device);
    const auto states = tracker().states();
    y.sum().backward();
    EXPECT_TRUE(bitwise_equal(x.grad(), y.detach() * drawn));
    EXPECT_TRUE(tracker().states() == states);
    EXPECT_EQ(testing::default_generator(0).current_seed(), 11U);
    EXPECT_EQ(testing::default_generator(0).get_offset(), 4U);
    torch::manual_seed(11 + 2718 + 2);
    EXPECT_TRUE(bitwise_equal(at::rand({100}, device).cpu(), drawn));
    std::exit(::testing::Test::HasFailure() ? EXIT_FAILURE : EXIT_SUCCESS);
  }
};

TEST_F(DeviceRngTrackerDeathTest, DeviceFirstUsedInsideAForkDrawsFromTheNamedState) {
  EXPECT_EXIT(use_first_inside_a_fork(), ::testing::ExitedWithCode(EXIT_SUCCESS), "");
}

}  // namespace
}  // namespace reprise::region_rng_tracker_test
