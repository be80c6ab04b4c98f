// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include <ATen/CPUGeneratorImpl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <array>
#include <cstdlib>
#include <vector>

#include "reprise/rng/rng_fork_guard.h"
#include "reprise/rng/rng_state.h"
#include "tests/rng/fake_generators.h"

namespace reprise::rng_snapshot_test {
namespace {

using ::reprise::testing::count_states;
using ::reprise::testing::draw;
using ::reprise::testing::FakeAccelerator;
using ::reprise::testing::FakePhilox;
using ::reprise::testing::FakeTensorGenerator;
using ::testing::HasSubstr;

at::Generator default_cpu() { return at::detail::getDefaultCPUGenerator(); }

RngSnapshot capture_extra(const std::vector<at::Generator>& extra) {
  return RngSnapshot::capture({}, extra);
}

RngSnapshot capture_devices(const std::vector<at::Device>& devices) {
  return RngSnapshot::capture(devices);
}

TEST(RngSnapshotTest, AlwaysHoldsTheDefaultCpuGenerator) {
  EXPECT_EQ(count_states(RngSnapshot::capture({}), default_cpu()), 1);
}

TEST(RngSnapshotTest, PassesOverDevicesWithoutGenerator) {
  const std::size_t alone = RngSnapshot::capture({}).states().size();
  EXPECT_EQ(capture_devices({at::kMeta, at::kCPU, at::kMeta}).states().size(), alone);
}

TEST(RngSnapshotTest, HoldsEachGeneratorOnce) {
  const at::Generator own = at::detail::createCPUGenerator();
  const RngSnapshot snapshot = capture_extra({own, default_cpu(), own});
  EXPECT_EQ(count_states(snapshot, own), 1);
  EXPECT_EQ(count_states(snapshot, default_cpu()), 1);
}

TEST(RngSnapshotTest, PassesOverUndefinedGenerators) {
  const at::Generator own = at::detail::createCPUGenerator();
  const std::size_t alone = RngSnapshot::capture({}).states().size();
  EXPECT_EQ(capture_extra({at::Generator(), own}).states().size(), alone + 1);
}

TEST(RngSnapshotTest, CompleteDropsStatesWhoseGeneratorHasNotMoved) {
  at::Generator moved = at::detail::createCPUGenerator();
  const at::Generator unmoved = at::detail::createCPUGenerator();
  RngSnapshot snapshot = capture_extra({unmoved, moved});
  draw(moved, 1);
  snapshot.complete();
  ASSERT_EQ(snapshot.states().size(), 1U);
  EXPECT_EQ(snapshot.states()[0].generator(), moved);
  EXPECT_TRUE(snapshot.drew_random_numbers());
}

TEST(RngSnapshotTest, CompleteDropsEverythingOfARegionWithoutRandomNumbers) {
  RngSnapshot snapshot = RngSnapshot::capture({});
  snapshot.complete();
  EXPECT_TRUE(snapshot.states().empty());
  EXPECT_FALSE(snapshot.drew_random_numbers());
}

TEST(RngSnapshotTest, CompleteAgainChangesNothing) {
  at::Generator own = at::detail::createCPUGenerator(4);
  RngSnapshot snapshot = capture_extra({own});
  draw(own, 1);
  snapshot.complete();
  own.set_current_seed(4);
  snapshot.complete();
  EXPECT_EQ(count_states(snapshot, own), 1);
}

TEST(RngSnapshotTest, KeepsTheStateOfAGeneratorThatWasDrawnFromAndPutBack) {
  at::Generator own = at::detail::createCPUGenerator();
  RngSnapshot snapshot = capture_extra({own});
  {
    const RngForkGuard fork(std::vector<at::Generator>{own});
    draw(own, 3);
  }
  snapshot.complete();
  EXPECT_EQ(count_states(snapshot, own), 1);
  EXPECT_TRUE(snapshot.drew_random_numbers());
}

TEST(RngSnapshotTest, IsWholeAfterAGeneratorRefusedToTellWhereItIs) {
  at::Generator first = at::detail::createCPUGenerator();
  at::Generator refusing = at::make_generator<FakePhilox>();
  RngSnapshot snapshot = capture_extra({first, refusing});
  refusing.get<FakePhilox>()->on_get_offset = [] { TORCH_CHECK(false, "refused"); };
  EXPECT_THAT([&] { snapshot.complete(); },
              ::testing::ThrowsMessage<c10::Error>(HasSubstr("refused")));
  refusing.get<FakePhilox>()->on_get_offset = nullptr;
  EXPECT_EQ(count_states(snapshot, first), 1);
  EXPECT_EQ(count_states(snapshot, refusing), 1);
}

class RngSnapshotOfAnAcceleratorTest : public ::testing::Test {
 protected:
  RngSnapshotOfAnAcceleratorTest() : accelerator_(FakeAccelerator::instance()) {
    accelerator_.reset();
  }
  ~RngSnapshotOfAnAcceleratorTest() override { accelerator_.reset(); }

  FakeAccelerator& accelerator_;
};

TEST_F(RngSnapshotOfAnAcceleratorTest, LeavesAnIdleDeviceAlone) {
  const RngSnapshot snapshot = RngSnapshot::capture({});
  EXPECT_EQ(snapshot.states().size(), 1U);
  EXPECT_EQ(count_states(snapshot, default_cpu()), 1);
}

TEST_F(RngSnapshotOfAnAcceleratorTest, HoldsTheCurrentDeviceThatIsInUse) {
  accelerator_.bring_into_use(0);
  accelerator_.bring_into_use(1);
  const RngSnapshot snapshot = RngSnapshot::capture({});
  EXPECT_EQ(count_states(snapshot, accelerator_.default_generator(0)), 1);
  EXPECT_EQ(count_states(snapshot, accelerator_.default_generator(1)), 0);
}

TEST_F(RngSnapshotOfAnAcceleratorTest, HoldsTheDevicesOfTensorsOnce) {
  accelerator_.bring_into_use(0);
  const at::Device one(at::kPrivateUse1, 1);
  const RngSnapshot snapshot = capture_devices({one, at::Device(at::kPrivateUse1, 0), one});
  EXPECT_EQ(snapshot.states().size(), 3U);
  EXPECT_EQ(count_states(snapshot, accelerator_.default_generator(0)), 1);
  EXPECT_EQ(count_states(snapshot, accelerator_.default_generator(1)), 1);
}

TEST_F(RngSnapshotOfAnAcceleratorTest, TakesADeviceWithoutIndexForTheCurrentOne) {
  const c10::DeviceGuard on_device_one(at::Device(at::kPrivateUse1, 1));
  const RngSnapshot snapshot = capture_devices({at::Device(at::kPrivateUse1)});
  EXPECT_EQ(count_states(snapshot, accelerator_.default_generator(1)), 1);
}

TEST_F(RngSnapshotOfAnAcceleratorTest, AddsADeviceThatCameIntoUseInsideTheRegion) {
  RngSnapshot snapshot = RngSnapshot::capture({});
  accelerator_.bring_into_use(0);
  FakePhilox& philox = accelerator_.philox(0);
  philox.set_current_seed(123);
  philox.draw();
  philox.draw();
  snapshot.complete();

  ASSERT_EQ(snapshot.states().size(), 1U);
  EXPECT_EQ(snapshot.states()[0].generator(), accelerator_.default_generator(0));
  philox.set_current_seed(5);
  snapshot.states()[0].restore();
  EXPECT_EQ(philox.current_seed(), 123U);
  EXPECT_EQ(philox.get_offset(), 0U);
}

TEST_F(RngSnapshotOfAnAcceleratorTest, AddsNothingForADeviceThatDrewNothing) {
  RngSnapshot snapshot = RngSnapshot::capture({});
  accelerator_.bring_into_use(0);
  snapshot.complete();
  EXPECT_TRUE(snapshot.states().empty());
}

TEST_F(RngSnapshotOfAnAcceleratorTest, KeepsTheStateItHasOfADeviceThatCameIntoUse) {
  accelerator_.philox(0).draw();
  RngSnapshot snapshot = capture_devices({at::Device(at::kPrivateUse1, 0)});
  accelerator_.bring_into_use(0);
  accelerator_.philox(0).draw();
  snapshot.complete();
  ASSERT_EQ(snapshot.states().size(), 1U);
  snapshot.states()[0].restore();
  EXPECT_EQ(accelerator_.philox(0).get_offset(), 4U);
}

TEST_F(RngSnapshotOfAnAcceleratorTest, DoesNotMistakeAnotherDeviceForOneThatCameIntoUse) {
  accelerator_.bring_into_use(1);
  accelerator_.philox(1).draw();
  RngSnapshot snapshot = RngSnapshot::capture({});  // device 0 is current, and idle
  const c10::DeviceGuard on_device_one(at::Device(at::kPrivateUse1, 1));
  snapshot.complete();
  EXPECT_TRUE(snapshot.states().empty());
}

TEST_F(RngSnapshotOfAnAcceleratorTest, RefusesADeviceThatCameIntoUseAndKeepsNoOffset) {
  const at::Device device(at::kPrivateUse1, 0);
  accelerator_.set_default_generator(0, at::make_generator<FakeTensorGenerator>(device));
  RngSnapshot snapshot = RngSnapshot::capture({});
  accelerator_.bring_into_use(0);
  try {
    snapshot.complete();
    FAIL() << "completed";
  } catch (const c10::Error& error) {
    EXPECT_THAT(error.what_without_backtrace(), HasSubstr("came into use inside a region"));
    EXPECT_THAT(error.what_without_backtrace(), HasSubstr("use the device once before the region"));
  }
}

// In a process of its own, because the refusal is remembered for the life of the process.
TEST(RngSnapshotDeathTest, TakesABackendThatCannotTellToBeInUse) {
  const auto captures_it = [] {
    FakeAccelerator& accelerator = FakeAccelerator::instance();
    accelerator.stop_telling_what_is_in_use();
    for (int repeat = 0; repeat < 2; ++repeat) {
      const RngSnapshot snapshot = RngSnapshot::capture({});
      if (count_states(snapshot, accelerator.default_generator(0)) != 1) std::exit(1);
    }
    std::exit(0);
  };
  EXPECT_EXIT(captures_it(), ::testing::ExitedWithCode(0), "");
}

TEST(RngSnapshotTest, HoldsTheCudaDeviceOfATensor) {
  if (!at::hasCUDA()) GTEST_SKIP() << "no CUDA device";
  const at::Tensor x = at::ones({1000}, at::TensorOptions().device(at::kCUDA));
  const at::Generator& generator = at::globalContext().defaultGenerator(x.device());
  RngSnapshot snapshot = capture_devices({x.device()});
  const at::Tensor expected = at::dropout(x, 0.5, true);
  snapshot.complete();
  ASSERT_EQ(snapshot.states().size(), 1U);
  EXPECT_EQ(snapshot.states()[0].generator(), generator);
  snapshot.states()[0].restore();
  EXPECT_TRUE(at::equal(at::dropout(x, 0.5, true), expected));
}

TEST(RngSnapshotTest, DoesNotWakeCuda) {
  if (!at::hasCUDA()) GTEST_SKIP() << "no CUDA device";
  const auto& hooks = at::globalContext().getAcceleratorHooksInterface(at::kCUDA);
  if (hooks.hasPrimaryContext(0)) GTEST_SKIP() << "an earlier test of this process woke CUDA";
  RngSnapshot snapshot = RngSnapshot::capture({});
  snapshot.complete();
  EXPECT_FALSE(hooks.hasPrimaryContext(0));
}

TEST(RngSnapshotTest, AddsCudaThatCameIntoUseInsideTheRegion) {
  if (!at::hasCUDA()) GTEST_SKIP() << "no CUDA device";
  if (c10::is_privateuse1_backend_registered()) {
    GTEST_SKIP() << "an earlier test of this process registered another accelerator";
  }
  if (at::globalContext().getAcceleratorHooksInterface(at::kCUDA).hasPrimaryContext(0)) {
    GTEST_SKIP() << "an earlier test of this process woke CUDA";
  }
  RngSnapshot snapshot = RngSnapshot::capture({});
  const auto options = at::TensorOptions().device(at::kCUDA);
  const at::Tensor expected = at::rand({100}, options);
  snapshot.complete();
  ASSERT_EQ(snapshot.states().size(), 1U);
  snapshot.states()[0].restore();
  EXPECT_TRUE(at::equal(at::rand({100}, options), expected));
}

}  // namespace
}  // namespace reprise::rng_snapshot_test
