// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Shared by tests of stores on the test device.
#ifndef REPRISE_TESTS_DEVICE_DEVICE_CASES_H_
#define REPRISE_TESTS_DEVICE_DEVICE_CASES_H_

#include <c10/core/Stream.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "reprise/hooks/host_store.h"
#include "reprise/hooks/store_guard.h"
#include "tests/testing/bitwise.h"
#include "tests/testing/device/test_device.h"

namespace reprise::device_cases {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using testing::DelayGuard;
using testing::Delays;
using testing::live_device_bytes;
using testing::test_device;

// Every tensor goes.
inline HostOptions all() { return {.min_bytes = 0, .keep_last = 0}; }

inline at::Tensor on_device(const at::Tensor& tensor) { return tensor.to(test_device()); }

inline void wait() { testing::wait_for_device(0); }

inline c10::Stream default_stream() {
  return c10::impl::VirtualGuardImpl(test_device().type()).getDefaultStream(test_device());
}

inline c10::Stream side_stream() {
  return c10::impl::VirtualGuardImpl(test_device().type()).getStreamFromGlobalPool(test_device());
}

// Work queued there from now on is later than the host gets to the next few operators.
inline void hold_up(const c10::Stream& stream) {
  testing::enqueue(stream.device_index(), stream.id(), testing::Work::kKernel, 0,
                   [] { std::this_thread::sleep_for(milliseconds(15)); });
}

// Copies are done, and the store knows.
inline void settle(const HostStore& store) {
  wait();
  static_cast<void>(store.counters());
}

// A backward's thread lets go of its last tensors a moment after the backward has ended.
inline bool device_bytes_come_to(std::int64_t bytes) {
  for (int i = 0; i < 5000 && live_device_bytes() != bytes; ++i) {
    std::this_thread::sleep_for(milliseconds(1));
  }
  return live_device_bytes() == bytes;
}

// Waits until released tensors are freed.
inline std::int64_t settled_device_bytes() {
  std::int64_t bytes = live_device_bytes();
  for (int quiet = 0; quiet < 50; ++quiet) {
    std::this_thread::sleep_for(milliseconds(1));
    quiet = live_device_bytes() == bytes ? quiet : 0;
    bytes = live_device_bytes();
  }
  return bytes;
}

// Delays of each kind of work, one at a time, and of all.
inline const std::vector<Delays>& delay_cases() {
  static const std::vector<Delays> kCases = {
      {},
      {.kernel = microseconds(500)},
      {.copy_out = milliseconds(3)},
      {.copy_in = milliseconds(3)},
      {.kernel = microseconds(300), .copy_out = milliseconds(2), .copy_in = milliseconds(2)}};
  return kCases;
}

// A few layers whose saved tensors are views, masks and results.
struct Net {
  at::Tensor x, w1, w2;

  Net() {
    torch::manual_seed(4);
    x = on_device(at::randn({24, 32})).requires_grad_();
    w1 = on_device(at::randn({32, 64})).requires_grad_();
    w2 = on_device(at::randn({64, 32})).requires_grad_();
  }

  at::Tensor block(const at::Tensor& h) const {
    const at::Tensor inner = at::mm(h, w1).sin();
    const at::Tensor masked = at::where(inner > 0, inner, inner * 0.1);
    return (at::mm(masked, w2) + h).tanh();
  }

  at::Tensor forward() const { return block(block(block(x * 1))).sum(); }

  std::vector<at::Tensor> gradients(const at::Tensor& loss) const {
    std::vector<at::Tensor> found = torch::autograd::grad({loss}, {x, w1, w2});
    for (at::Tensor& gradient : found) {
      gradient = gradient.cpu();
    }
    return found;
  }
};

// Of a step with a StoreGuard around forward.
inline std::vector<at::Tensor> gradients_through(const Net& net,
                                                 const std::shared_ptr<ActivationStore>& store,
                                                 const StoreGuardOptions& options = {}) {
  at::Tensor loss;
  {
    const StoreGuard storing(store, options);
    loss = net.forward();
  }
  return net.gradients(loss);
}

inline void expect_equal(const std::vector<at::Tensor>& found,
                         const std::vector<at::Tensor>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_TRUE(testing::bitwise_equal(found[i], expected[i]));
  }
}

}  // namespace reprise::device_cases

#endif  // REPRISE_TESTS_DEVICE_DEVICE_CASES_H_
