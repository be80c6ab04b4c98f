// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// A build of LibTorch with CUDA, on a machine without a GPU, after something (fake tensors, for
// instance) has had c10 put a guard in place that pretends to have devices. In a program of its
// own: hooks for CUDA are registered once a process.
#include <ATen/DeviceAccelerator.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/FakeGuardImpl.h>

#include "reprise/engine/checkpoint_scope.h"
#include "reprise/rng/rng_state_tracker.h"
#include "tests/conformance/conformance_fixture.h"

namespace at {

// The answers of LibTorch's own hooks for CUDA where there is no GPU.
struct HooksWithoutGpu final : CUDAHooksInterface {
  explicit HooksWithoutGpu(CUDAHooksArgs /*args*/) {}
  bool isBuilt() const override { return true; }
  DeviceIndex deviceCount() const override { return 0; }
  bool hasPrimaryContext(DeviceIndex index) const override {
    TORCH_CHECK(false, "hasPrimaryContext expects a valid device index, but got ", int{index});
  }
  const Generator& getDefaultGenerator(DeviceIndex index) const override {
    TORCH_CHECK(false, "no CUDA generator of device ", int{index});
  }
};
C10_REGISTER_CLASS(CUDAHooksRegistry, CUDAHooks, HooksWithoutGpu);

}  // namespace at

namespace reprise::no_gpu_test {
namespace {

using testing::expect_as_plain;
using testing::leaf;
using testing::Tensors;

// LibTorch's own, which nothing else points to once it is replaced: a leak to the leak sanitizer.
[[maybe_unused]] const auto* const kReplacedGuard =
    c10::impl::device_guard_impl_registry[static_cast<std::size_t>(c10::DeviceType::CUDA)].load();

using PretendingGuard = c10::impl::FakeGuardImpl<c10::DeviceType::CUDA>;
C10_REGISTER_GUARD_IMPL(CUDA, PretendingGuard);

using NoGpuTest = testing::ConformanceTest;

TEST_F(NoGpuTest, IsAnAcceleratorWithPretendedDevices) {
  ASSERT_EQ(at::getAccelerator(), at::kCUDA);
  ASSERT_GT(c10::impl::getDeviceGuardImpl(at::kCUDA)->deviceCount(), 0);
}

TEST_F(NoGpuTest, DoesNotKeepRegionsFromRunning) {
  const auto body = [&](auto run) -> Tensors {
    const at::Tensor x = leaf({3, 4});
    const at::Tensor y =
        run([](const at::Tensor& t) { return torch::dropout(t.sin(), 0.5, true).exp(); }, x);
    return gradients(y, {x});
  };
  expect_as_plain(body);
  expect_as_plain(body, {.synchronize_boundary = true});
}

TEST_F(NoGpuTest, DoesNotKeepNamedStatesFromForking) {
  RngStateTracker tracker;
  tracker.add("named", 3);
  torch::manual_seed(3);
  const at::Tensor expected = at::randn({3});
  const RngTrackerForkGuard fork = tracker.fork("named");
  EXPECT_TRUE(at::equal(at::randn({3}), expected));
}

}  // namespace
}  // namespace reprise::no_gpu_test
