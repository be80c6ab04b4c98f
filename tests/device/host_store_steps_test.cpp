// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Whole steps with a HostStore.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <vector>

#include "reprise/engine/checkpoint.h"
#include "reprise/hooks/disk_store.h"
#include "reprise/hooks/host_store.h"
#include "reprise/hooks/save_on_cpu.h"
#include "reprise/hooks/store_guard.h"
#include "reprise/hooks/stores.h"
#include "tests/device/device_cases.h"

namespace reprise::host_store_steps_test {
namespace {

using namespace device_cases;  // NOLINT(google-build-using-namespace)
using testing::live_pinned_bytes;

TEST(HostStoreTest, GradientsAreThoseWithoutUnderEachDelay) {
  const Net net;
  const auto expected = net.gradients(net.forward());
  const std::vector<std::shared_ptr<ActivationStore>> stores = {
      stores::host(all()), stores::host({.min_bytes = 0, .max_in_flight_bytes = 0}),
      stores::host({.min_bytes = 0, .max_device_bytes = 20000}),
      stores::packed({.min_bytes = 0}) | stores::host(all())};
  for (const auto& delays : delay_cases()) {
    for (const auto& store : stores) {
      for (const int depth : {0, 1, 3}) {
        const DelayGuard guard(delays);
        expect_equal(gradients_through(net, store, {.prefetch_depth = depth}), expected);
      }
    }
  }
}

TEST(DiskStoreTest, GradientsAreThoseWithoutUnderEachDelay) {
  const Net net;
  const auto expected = net.gradients(net.forward());
  const std::vector<std::shared_ptr<ActivationStore>> stores = {
      stores::disk({.min_bytes = 0, .keep_last = 0}),
      stores::host({.min_bytes = 0, .max_host_bytes = 20000, .keep_last = 0}) |
          stores::disk({.min_bytes = 0})};
  for (const auto& delays : delay_cases()) {
    for (const auto& store : stores) {
      const DelayGuard guard(delays);
      expect_equal(gradients_through(net, store), expected);
    }
  }
}

// Lossy, but the same wherever the bytes are.
TEST(QuantizedStoreTest, QuantizesOnTheHostAsOnTheDevice) {
  const Net net;
  for (const bool stochastic : {false, true}) {
    const auto quantized = [stochastic] {
      return stores::quantized({.stochastic_rounding = stochastic, .seed = 3, .min_bytes = 0});
    };
    const auto expected = gradients_through(net, quantized());
    EXPECT_FALSE(testing::bitwise_equal(expected[0], net.gradients(net.forward())[0]));
    for (const auto& delays : delay_cases()) {
      const DelayGuard guard(delays);
      expect_equal(gradients_through(net, quantized() | stores::host(all())), expected);
    }
  }
}

TEST(HostStoreTest, InputsOfRegionsUnderEachDelay) {
  const Net net;
  const auto expected = net.gradients(net.forward());
  for (const auto& delays : delay_cases()) {
    for (const ReplayMode replay : {ReplayMode::kFunction, ReplayMode::kTape}) {
      const DelayGuard guard(delays);
      const auto store = stores::host(all());
      const CheckpointOptions options{.replay = replay, .input_store = store};
      const auto block = [&net](const at::Tensor& h) { return net.block(h); };
      at::Tensor h = net.x * 1;
      for (int i = 0; i < 3; ++i) {
        h = checkpoint(options, block, h);
      }
      const at::Tensor loss = h.sum();
      h.reset();
      expect_equal(net.gradients(loss), expected);
      EXPECT_EQ(store->counters().bytes_out, 3 * 24 * 32 * 4);
      EXPECT_EQ(store->counters().bytes_in + store->counters().bytes_reused, 3 * 24 * 32 * 4);
    }
  }
}

// Each copy of a step fails once: the error surfaces, and the next step is clean.
TEST(HostStoreTest, AfterAFailedCopyTheNextStepIsClean) {
  const Net net;
  const std::int64_t device_bytes = settled_device_bytes();
  const auto expected = net.gradients(net.forward());
  const auto store = stores::host(all());
  const auto step = [&] {
    at::Tensor loss;
    {
      const StoreGuard storing(store);
      loss = net.forward();
    }
    return torch::autograd::grad({loss}, {net.x, net.w1, net.w2});
  };
  step();
  settle(*store);
  const std::int64_t host_bytes = store->counters().host_bytes;
  int failures = 0;
  for (bool has_failed = true; has_failed; ++failures) {
    {
      const testing::CopyFaultGuard fault(failures);
      try {
        step();
      } catch (const c10::Error& error) {
        EXPECT_THAT(error.what(), ::testing::HasSubstr("the test device fails to copy"));
      }
      has_failed = fault.has_failed();
    }
    settle(*store);
    EXPECT_TRUE(device_bytes_come_to(device_bytes));
    EXPECT_EQ(store->counters().host_bytes, host_bytes);
    std::vector<at::Tensor> found = step();
    for (at::Tensor& gradient : found) {
      gradient = gradient.cpu();
    }
    expect_equal(found, expected);
  }
  EXPECT_GT(failures, 10);
}

TEST(HostStoreTest, FailureOfTheNextStoreLosesNothing) {
  class Failing final : public ActivationStore {
   public:
    std::unique_ptr<StoredTensor> put(const at::Tensor& /*tensor*/) override {
      throw std::runtime_error("full as well");
    }
  };
  const auto host = stores::host({.max_host_bytes = 8000, .keep_last = 1});
  const auto store = host | std::make_shared<Failing>();
  const auto first = store->put(on_device(at::ones({2000})));
  const auto second = store->put(on_device(at::ones({2000})));  // the first goes to the host
  EXPECT_THAT([&] { store->put(on_device(at::ones({2000}))); },
              ::testing::ThrowsMessage<std::runtime_error>(::testing::HasSubstr("full as well")));
  EXPECT_EQ(first->get().cpu().sum().item<float>(), 2000);
  EXPECT_EQ(second->get().cpu().sum().item<float>(), 2000);
}

TEST(HostStoreTest, TwoHundredStepsDoNotGrow) {
  const Net net;
  const auto store = stores::host(all());
  const std::int64_t device_bytes = settled_device_bytes();
  std::int64_t pinned_bytes = 0;
  for (int step = 0; step < 200; ++step) {
    at::Tensor loss;
    {
      const StoreGuard storing(store);
      loss = net.forward();
    }
    net.gradients(loss);
    loss.reset();
    wait();
    if (step == 2) {
      pinned_bytes = live_pinned_bytes();
    }
  }
  EXPECT_TRUE(device_bytes_come_to(device_bytes));
  EXPECT_EQ(live_pinned_bytes(), pinned_bytes);
  store->release_unused();
  EXPECT_EQ(store->counters().host_bytes, 0U);
}

TEST(SaveOnCpuGuardTest, GradientsAreThoseWithoutUnderEachDelay) {
  const Net net;
  const auto expected = net.gradients(net.forward());
  for (const auto& delays : delay_cases()) {
    for (const SaveOnCpuOptions& options :
         {SaveOnCpuOptions{}, SaveOnCpuOptions{.pin_memory = true},
          SaveOnCpuOptions{.pin_memory = true, .max_device_bytes = 20000}}) {
      const DelayGuard guard(delays);
      at::Tensor loss;
      {
        const SaveOnCpuGuard offload(options);
        loss = net.forward();
      }
      expect_equal(net.gradients(loss), expected);
    }
  }
}

TEST(SaveOnCpuGuardTest, KeepsAsMuchOnTheDeviceAsItMay) {
  const at::Tensor x = on_device(at::ones({1000})).requires_grad_();
  for (const std::int64_t budget : {0, 4000, 11999, 12000}) {
    const std::int64_t before = settled_device_bytes();
    at::Tensor y = x;
    {
      const SaveOnCpuGuard offload({.max_device_bytes = budget});
      for (int i = 0; i < 6; ++i) {
        y = y.exp();  // saves its result
      }
    }
    const at::Tensor loss = y.sum();
    y.reset();
    EXPECT_TRUE(device_bytes_come_to(before + budget / 4000 * 4000 + 4));
  }
}

TEST(SaveOnCpuGuardTest, ChangeInPlaceAfterwardsIsNotSeen) {
  const at::Tensor x = on_device(at::ones({1000})).requires_grad_();
  const DelayGuard delays({.copy_out = milliseconds(10)});
  at::Tensor y;
  {
    const SaveOnCpuGuard offload;
    y = x.exp();
  }
  const at::Tensor expected = y.detach().cpu();
  {
    const at::NoGradGuard no_grad;
    y.mul_(2);
  }
  EXPECT_TRUE(testing::bitwise_equal(torch::autograd::grad({y.sum()}, {x})[0].cpu(), expected));
}

}  // namespace
}  // namespace reprise::host_store_steps_test
