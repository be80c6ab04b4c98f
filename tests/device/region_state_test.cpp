// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The state around a replay on an accelerator: the current device, and the random state of each
// device. The numbers in names are from docs/semantics.md.
#include <c10/core/DeviceGuard.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdint>
#include <cstdlib>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "reprise/engine/checkpoint.h"
#include "reprise/engine/checkpoint_scope.h"
#include "reprise/engine/memory_report.h"
#include "reprise/policies/policies.h"
#include "tests/testing/bitwise.h"
#include "tests/testing/device/test_device.h"

namespace reprise::region_state_test {
namespace {

using testing::bitwise_equal;
using testing::current_device;
using testing::is_device_awake;
using testing::kDeviceType;
using testing::test_device;

using Seeds = std::vector<std::uint64_t>;

// Without an index: the device that is current.
at::TensorOptions on_current_device() { return at::TensorOptions(at::Device(kDeviceType)); }

// Where the generators of both devices stand.
Seeds generators() {
  const at::Generator& first = testing::default_generator(0);
  const at::Generator& second = testing::default_generator(1);
  return {first.current_seed(), first.get_offset(), second.current_seed(), second.get_offset()};
}

at::Tensor leaf_on(at::Device device) { return at::ones({100}, device).requires_grad_(); }

using Inputs = std::map<std::string, std::vector<at::Tensor>>;

struct Outcome {
  at::Tensor gradient;
  Seeds generators;
};

template <class Run>
Outcome on_two_devices(const Run& run) {
  torch::manual_seed(5);
  const at::Tensor x = leaf_on(test_device(0));
  const Inputs inputs{{"foo", {x}}, {"bar", {at::ones({100}, test_device(1))}}};
  const auto region = [](const Inputs& in) {
    const at::Tensor here = at::dropout(in.at("foo")[0], 0.5, true);
    const at::Tensor there = at::dropout(in.at("bar")[0], 0.5, true);
    return here.sin() * there.to(here.device());
  };
  const at::Tensor y = run(region, inputs).sum();
  torch::manual_seed(6);
  at::rand({3}, test_device(1));
  y.backward();
  return {x.grad().cpu(), generators()};
}

TEST(DeviceStateTest, C101_DevicesAreFoundInNestedContainers) {
  const Outcome expected = on_two_devices([](auto& region, auto& in) { return region(in); });
  for (const ReplayMode replay : {ReplayMode::kFunction, ReplayMode::kTape}) {
    const Outcome found = on_two_devices(
        [&](auto& region, auto& in) { return checkpoint({.replay = replay}, region, in); });
    EXPECT_TRUE(bitwise_equal(found.gradient, expected.gradient));
    EXPECT_EQ(found.generators, expected.generators);
  }
}

// In a process of its own, in which no device has been used.
class DeviceStateDeathTest : public ::testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }

  static void finish() { std::exit(HasFailure() ? EXIT_FAILURE : EXIT_SUCCESS); }

  static void expect_asleep() {
    EXPECT_FALSE(is_device_awake(0));
    EXPECT_FALSE(is_device_awake(1));
  }

  static void use_first_inside(ReplayMode replay) {
    const at::Device device = test_device();
    expect_asleep();
    torch::manual_seed(11);
    const at::Tensor x = at::ones({100}).requires_grad_();
    at::Tensor drawn;
    const auto region = [&](const at::Tensor& t) {
      const at::Tensor noise = at::rand({100}, device).cpu();
      if (!is_recomputing()) {
        drawn = noise;
      }
      return (t * noise).exp();
    };
    const at::Tensor y = checkpoint({.replay = replay}, region, x);
    EXPECT_TRUE(is_device_awake(0));
    const at::Tensor other = at::rand({100}, device).cpu();
    const Seeds before = generators();
    y.sum().backward();
    EXPECT_TRUE(bitwise_equal(x.grad(), y.detach() * drawn));
    EXPECT_FALSE(at::equal(other, drawn));
    EXPECT_EQ(generators(), before);
    EXPECT_FALSE(is_device_awake(1));
    finish();
  }

  static void use_only_the_cpu() {
    test_device();
    expect_asleep();
    const at::Tensor x = at::ones({100}).requires_grad_();
    const auto region = [](const at::Tensor& t) { return at::dropout(t, 0.5, true).sin().exp(); };
    const MemoryReportGuard collecting;
    at::Tensor y = checkpoint(region, x);
    y = checkpoint({.replay = ReplayMode::kTape}, region, y);
    y = checkpoint({.policy = policies::save_everything()}, region, y);
    {
      const CheckpointScope scope;
      y = region(y);
    }
    y.sum().backward();
    EXPECT_FALSE(memory_report().to_string().empty());
    expect_asleep();
    finish();
  }
};

TEST_F(DeviceStateDeathTest, C105_DeviceFirstUsedInsideTheRegionIsRecordedToo) {
  EXPECT_EXIT(use_first_inside(ReplayMode::kFunction), ::testing::ExitedWithCode(0), "");
}

TEST_F(DeviceStateDeathTest, C105_DeviceFirstUsedOnATapeIsRecordedToo) {
  EXPECT_EXIT(use_first_inside(ReplayMode::kTape), ::testing::ExitedWithCode(0), "");
}

TEST_F(DeviceStateDeathTest, RegionsOnTheCpuWakeNoDevice) {
  EXPECT_EXIT(use_only_the_cpu(), ::testing::ExitedWithCode(0), "");
}

TEST(DeviceStateTest, MemoryReportLeavesOutADeviceThatDoesNotCount) {
  const at::Tensor x = at::ones({8}, test_device());
  const MemoryReport report = memory_report();
  ASSERT_EQ(report.devices.size(), 1U);
  EXPECT_EQ(report.devices[0].device, "cpu");
}

// Runs `forward` with device 1 current, and its backward with device 0.
template <class Forward>
void run_across_devices(const Forward& forward, bool throws = false) {
  at::Tensor y;
  {
    const c10::DeviceGuard guard(test_device(1));
    y = forward();
  }
  const c10::DeviceGuard guard(test_device(0));
  if (throws) {
    EXPECT_THAT([&] { y.sum().backward(); }, ::testing::ThrowsMessage<std::runtime_error>(
                                                 ::testing::HasSubstr("the replay fails")));
  } else {
    y.sum().backward();
  }
  EXPECT_EQ(current_device(), 0);
}

TEST(DeviceStateTest, CurrentDeviceIsForwardsInAReplayAndBackwardsAfterIt) {
  at::ones({1}, test_device());  // a device that sleeps has no current one
  at::ones({1}, test_device(1));
  for (const at::Device device : {at::Device(at::kCPU), test_device(0), test_device(1)}) {
    for (const bool throws : {false, true}) {
      const at::Tensor x = leaf_on(device);
      std::vector<c10::DeviceIndex> seen;
      const auto region = [&](const at::Tensor& t) {
        seen.push_back(current_device());
        EXPECT_EQ(at::empty({1}, on_current_device()).device(), test_device(1));
        if (is_recomputing() && throws) {
          throw std::runtime_error("the replay fails");
        }
        return t.sin().exp();
      };
      std::vector<c10::DeviceIndex> after;
      const auto forward = [&] {
        const at::Tensor h = x * 2;
        h.register_hook([&](const at::Tensor&) { after.push_back(current_device()); });
        return checkpoint(region, h);
      };
      run_across_devices(forward, throws);
      EXPECT_EQ(seen, std::vector<c10::DeviceIndex>(2, 1));
      if (!throws) {
        EXPECT_EQ(after, std::vector<c10::DeviceIndex>(1, device == test_device(1) ? 1 : 0));
      }
    }
  }
}

template <class Run>
Outcome with_noise_of_the_current_device(at::Device device, const Run& run) {
  torch::manual_seed(8);
  const at::Tensor x = leaf_on(device);
  const auto region = [](const at::Tensor& t) {
    return (t * at::rand({100}, on_current_device()).to(t.device())).exp();
  };
  run_across_devices([&] { return run(region, x); });
  return {x.grad().cpu(), generators()};
}

TEST(DeviceStateTest, RandomNumbersOfTheCurrentDeviceAreDrawnAgain) {
  for (const at::Device device : {at::Device(at::kCPU), test_device(0), test_device(1)}) {
    const auto plain = [](auto& region, auto& x) { return region(x); };
    const Outcome expected = with_noise_of_the_current_device(device, plain);
    for (const ReplayMode replay : {ReplayMode::kFunction, ReplayMode::kTape}) {
      const Outcome found = with_noise_of_the_current_device(
          device, [&](auto& region, auto& x) { return checkpoint({.replay = replay}, region, x); });
      EXPECT_TRUE(bitwise_equal(found.gradient, expected.gradient));
      EXPECT_EQ(found.generators, expected.generators);
    }
  }
}

template <class Run>
Outcome with_another_device_inside(const Run& run) {
  torch::manual_seed(9);
  const at::Tensor x = leaf_on(test_device(0));
  const auto region = [](const at::Tensor& t, const at::Tensor& scale) {
    at::Tensor noise;
    {
      const c10::DeviceGuard other(scale.device());
      noise = at::rand({100}, on_current_device());
      EXPECT_EQ(noise.device(), scale.device());
      noise = noise * scale;
    }
    return (t * noise.to(t.device())).exp();
  };
  run(region, x, at::ones({100}, test_device(1))).sum().backward();
  return {x.grad().cpu(), generators()};
}

TEST(DeviceStateTest, AllowsCodeToChangeTheCurrentDevice) {
  const Outcome expected = with_another_device_inside(
      [](auto& region, auto& x, auto scale) { return region(x, scale); });
  for (const ReplayMode replay : {ReplayMode::kFunction, ReplayMode::kTape}) {
    const Outcome found = with_another_device_inside([&](auto& region, auto& x, auto scale) {
      return checkpoint({.replay = replay}, region, x, scale);
    });
    EXPECT_TRUE(bitwise_equal(found.gradient, expected.gradient));
    EXPECT_EQ(found.generators, expected.generators);
  }
}

}  // namespace
}  // namespace reprise::region_state_test
