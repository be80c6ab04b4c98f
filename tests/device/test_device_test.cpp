// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The test device itself: that it computes what the CPU does, asynchronously, and that an event
// which is left out shows.
#include "tests/testing/device/test_device.h"

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <future>
#include <utility>
#include <vector>

#include "reprise/engine/checkpoint.h"
#include "tests/testing/bitwise.h"

namespace reprise::test_device_test {
namespace {

using testing::bitwise_equal;
using testing::live_device_bytes;
using testing::test_device;

// Before any backward: LibTorch starts a thread for each device that it knows at the first one.
class KnownDevice final : public ::testing::Environment {
 public:
  void SetUp() override { test_device(); }
};
const auto* const kKnownDevice = ::testing::AddGlobalTestEnvironment(new KnownDevice);

c10::Stream new_stream() {
  return c10::impl::VirtualGuardImpl(test_device().type()).getNewStream(test_device());
}

TEST(TestDeviceTest, ComputesWhatTheCpuComputes) {
  torch::manual_seed(1);
  const at::Tensor a = at::randn({6, 8});
  const at::Tensor b = at::randn({8, 5});
  const auto compute = [](const at::Tensor& x, const at::Tensor& y) {
    at::Tensor z = at::mm(x, y).relu().add_(1.5).mul(2);
    z = at::cat({z, z.t().contiguous().view({6, 5})}, 1).softmax(1);
    return (z.sum(0, true) + z.std(0))
        .t()
        .index({at::tensor({0, 3, 3}, at::kLong).to(z.device()).remainder(5)});
  };
  const at::Tensor found = compute(a.to(test_device()), b.to(test_device()));
  EXPECT_EQ(found.device(), test_device());
  EXPECT_TRUE(bitwise_equal(found.cpu(), compute(a, b)));
}

// To rounding: some formulas are put together otherwise for devices that LibTorch does not know.
// Without modules, whose to() LibTorch refuses for such a device, and without convolutions, which
// it wants kernels of their own for.
TEST(TestDeviceTest, TrainsAsTheCpuDoes) {
  const auto gradients = [](at::Device device) {
    torch::manual_seed(2);
    std::vector<at::Tensor> parameters;
    const auto make = [&](at::IntArrayRef sizes) {
      parameters.push_back(at::randn(sizes, at::kDouble).to(device).requires_grad_());
      return parameters.back();
    };
    const at::Tensor labels = at::tensor({3, 7}, at::kLong).to(device);
    at::Tensor h =
        at::linear(at::randn({2, 6, 8}, at::kDouble).to(device), make({12, 8}), make({12}));
    h = at::layer_norm(h, {12}, make({12}), make({12}));
    h = at::matmul(at::matmul(h, h.transpose(1, 2)).softmax(-1), h).transpose(1, 2);
    h = at::batch_norm(h, make({12}), make({12}), {}, {}, true, 0.1, 1e-5, false).relu();
    h = at::linear(h.flatten(1), make({10, 12 * 6}), make({10}));
    at::cross_entropy_loss(h, labels).backward();
    std::vector<at::Tensor> found;
    for (const at::Tensor& parameter : parameters) {
      found.push_back(parameter.grad().cpu());
    }
    return found;
  };
  const auto expected = gradients(at::kCPU);
  const auto found = gradients(test_device());
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_TRUE(at::allclose(found[i], expected[i], 1e-9, 1e-12));
  }
}

// Holds a stream up until it is opened.
class Gate {
 public:
  explicit Gate(c10::StreamId stream) {
    testing::enqueue(0, stream, testing::Work::kKernel, 0,
                     [opened = opened_.get_future().share()] { opened.wait(); });
  }
  void open() { opened_.set_value(); }

 private:
  std::promise<void> opened_;
};

TEST(TestDeviceTest, KernelsAreQueued) {
  const at::Tensor x = at::ones({4}, test_device());
  Gate gate(0);
  const at::Tensor y = x + 1;
  const auto done = testing::record(0, 0);
  EXPECT_FALSE(testing::is_reached(*done));
  gate.open();
  EXPECT_EQ(y.cpu().sum().item<float>(), 8);
  EXPECT_TRUE(testing::is_reached(*done));
}

TEST(TestDeviceTest, DetectsAMissingEvent) {
  for (const bool waits : {true, false}) {
    testing::wait_for_stream(0, 0);  // freed memory is overwritten
    const at::Tensor x = at::zeros({1000}, test_device());
    const at::Tensor host = at::full({1000}, 7.0, at::TensorOptions().pinned_memory(true));
    ASSERT_TRUE(host.is_pinned());
    Gate gate(0);
    const at::Tensor y = x + 1;
    const c10::Stream other = new_stream();
    {
      c10::Event computed(test_device().type());
      computed.record(c10::impl::VirtualGuardImpl(test_device().type()).getStream(test_device()));
      const c10::StreamGuard on_other(other);
      if (waits) {
        computed.block(other);
        gate.open();
      }
      host.copy_(y, /*non_blocking=*/true);
    }
    other.synchronize();
    EXPECT_EQ((host == 1).all().item<bool>(), waits);
    if (!waits) {
      gate.open();
    }
  }
}

TEST(TestDeviceTest, MemoryThatIsFreedTooEarlyShows) {
  for (const bool keeps : {true, false}) {
    at::Tensor x = at::ones({1000}, test_device());
    const at::Tensor host = at::zeros({1000}, at::TensorOptions().pinned_memory(true));
    const c10::Stream other = new_stream();
    Gate gate(other.id());
    {
      const c10::StreamGuard on_other(other);
      host.copy_(x, /*non_blocking=*/true);
    }
    if (!keeps) {
      x.reset();
    }
    testing::wait_for_stream(0, 0);
    gate.open();
    other.synchronize();
    EXPECT_EQ((host == 1).all().item<bool>(), keeps);
  }
}

TEST(TestDeviceTest, CountsItsBytes) {
  test_device();
  const std::int64_t before = live_device_bytes();
  testing::reset_peak_device_bytes();
  {
    const at::Tensor x = at::zeros({100}, test_device());
    EXPECT_EQ(live_device_bytes() - before, 400);
    const at::Tensor y = x.sin();
    EXPECT_EQ(live_device_bytes() - before, 800);
  }
  EXPECT_EQ(live_device_bytes(), before);
  EXPECT_EQ(testing::peak_device_bytes() - before, 800);
}

TEST(TestDeviceTest, HasAGeneratorOfItsOwn) {
  const auto draw = [] { return at::rand({100}, test_device()).cpu(); };
  torch::manual_seed(5);
  at::Generator device = testing::default_generator(0);
  device.set_current_seed(5);
  const at::Tensor cpu = at::rand({10});
  const at::Tensor first = draw();
  EXPECT_FALSE(bitwise_equal(draw(), first));
  device.set_current_seed(5);
  EXPECT_TRUE(bitwise_equal(draw(), first));
  torch::manual_seed(5);
  EXPECT_TRUE(bitwise_equal(at::rand({10}), cpu));
}

TEST(TestDeviceTest, HasSeveralDevicesAndStreams) {
  const at::Tensor x = at::ones({10}, test_device(1));
  EXPECT_EQ(x.device(), test_device(1));
  EXPECT_EQ((x + 1).device(), test_device(1));
  EXPECT_TRUE(bitwise_equal(x.to(test_device(0)).cpu(), x.cpu()));
  const c10::Stream stream = new_stream();
  {
    const c10::StreamGuard guard(stream);
    EXPECT_EQ(testing::current_stream(0), stream.id());
  }
  EXPECT_EQ(testing::current_stream(0), 0);
}

// Random draws in a region on the device are those of forward again, and the generator is where
// backward found it.
TEST(TestDeviceTest, RegionsRestoreItsRandomState) {
  const at::Tensor x = at::randn({64, 8}).to(test_device()).requires_grad_();
  const auto block = [](const at::Tensor& h) { return at::dropout(h.sin(), 0.5, true).exp(); };
  at::Generator generator = testing::default_generator(0);
  const auto run = [&](const std::function<at::Tensor()>& forward) {
    generator.set_current_seed(11);
    const at::Tensor y = forward().sum();
    const at::Tensor other = at::rand({8}, test_device());
    const at::Tensor gradient = torch::autograd::grad({y}, {x})[0].cpu();
    return std::pair(gradient, at::rand({8}, test_device()).cpu());
  };
  const auto [expected, next] = run([&] { return block(x); });
  for (const ReplayMode replay : {ReplayMode::kFunction, ReplayMode::kTape}) {
    const auto [found, drawn] = run([&] { return checkpoint({.replay = replay}, block, x); });
    EXPECT_TRUE(bitwise_equal(found, expected));
    EXPECT_TRUE(bitwise_equal(drawn, next));
  }
}

}  // namespace
}  // namespace reprise::test_device_test
