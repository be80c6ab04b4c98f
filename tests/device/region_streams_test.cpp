// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Regions whose nodes run on several threads and streams, with kernels that are late: what a
// missing event would allow is a wrong gradient.
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "reprise/engine/checkpoint.h"
#include "reprise/engine/checkpoint_scope.h"
#include "reprise/engine/memory_report.h"
#include "reprise/policies/policies.h"
#include "tests/device/device_cases.h"
#include "tests/testing/bitwise.h"
#include "tests/testing/device/test_device.h"

namespace reprise::region_streams_test {
namespace {

using device_cases::hold_up;
using std::chrono::microseconds;
using testing::bitwise_equal;
using testing::DelayGuard;
using testing::Delays;
using testing::test_device;

using Tensors = std::vector<at::Tensor>;
using Code = std::function<Tensors(const Tensors&)>;

c10::Stream current_stream(c10::DeviceIndex device) {
  return c10::impl::VirtualGuardImpl(testing::kDeviceType).getStream(test_device(device));
}

c10::Stream new_stream(c10::DeviceIndex device) {
  return c10::impl::VirtualGuardImpl(testing::kDeviceType).getNewStream(test_device(device));
}

// Work queued on `later` from now on waits for the work queued on `first`.
void order(const c10::Stream& first, const c10::Stream& later) {
  c10::Event event(testing::kDeviceType);
  event.record(first);
  event.block(later);
}

void wait_for_devices() {
  testing::wait_for_device(0);
  testing::wait_for_device(1);
}

Tensors on_cpu(const Tensors& tensors) {
  wait_for_devices();
  Tensors copies;
  for (const at::Tensor& tensor : tensors) {
    copies.push_back(tensor.cpu());
  }
  return copies;
}

void expect_equal(const Tensors& found, const Tensors& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_TRUE(bitwise_equal(found[i], expected[i])) << "gradient " << i;
  }
}

struct Form {
  std::string name;
  bool is_region = true;
  bool is_scope = false;
  CheckpointOptions options = {};

  Tensors operator()(const Code& code, const Tensors& inputs) const {
    if (is_scope) {
      const CheckpointScope scope(options);
      return code(inputs);
    }
    return is_region ? checkpoint(options, code, inputs) : code(inputs);
  }
};

const Form& plain() {
  static const Form kPlain{.name = "plain", .is_region = false};
  return kPlain;
}

const std::vector<Form>& forms() {
  static const std::vector<Form> kForms = {
      plain(),
      {.name = "function"},
      {.name = "function to its end", .options = {.early_stop = false}},
      {.name = "function, policy", .options = {.policy = policies::save_operators({"aten::sin"})}},
      {.name = "tape", .options = {.replay = ReplayMode::kTape}},
      {.name = "tape at once", .options = {.replay = ReplayMode::kTape, .early_stop = false}},
      {.name = "tape, values",
       .options = {.replay = ReplayMode::kTape, .determinism_check = DeterminismCheck::kValues}},
      {.name = "scope", .is_scope = true},
      {.name = "scope, policy",
       .is_scope = true,
       .options = {.policy = policies::save_operators({"aten::sin"})}}};
  return kForms;
}

const std::vector<Delays>& delay_cases() {
  static const std::vector<Delays> kCases = {{}, {.kernel = microseconds(300)}};
  return kCases;
}

// `gradients` of each form equal the plain one's, without and with delays.
void expect_same_gradients(const std::function<Tensors(const Form&)>& gradients) {
  const Tensors expected = gradients(plain());
  for (const Delays& delays : delay_cases()) {
    const DelayGuard delaying(delays);
    for (const Form& form : forms()) {
      SCOPED_TRACE(c10::str(form.name, ", kernels late by ", delays.kernel.count(), " us"));
      expect_equal(gradients(form), expected);
    }
  }
}

// A stream of its own on each device, held up.
class SideStreams {
 public:
  SideStreams() {
    hold_up(streams_[0]);
    hold_up(streams_[1]);
  }

 private:
  const std::vector<c10::Stream> streams_ = {new_stream(0), new_stream(1)};
  const c10::MultiStreamGuard current_{streams_};
};

// A chain of its own on each device.
Tensors on_each(const Tensors& in) {
  Tensors out;
  for (const at::Tensor& t : in) {
    out.push_back((t.sin() * t.exp()).tanh() * t.cos());
  }
  return out;
}

struct TwoDevices {
  Tensors leaves;
  Tensors weights;  // of the outputs' elements

  TwoDevices() {
    for (const c10::DeviceIndex device : {0, 1}) {
      leaves.push_back(
          at::linspace(-1, 1, 4000).add(device).to(test_device(device)).requires_grad_());
      weights.push_back(at::linspace(1, 2, 4000).to(test_device(device)));
    }
    wait_for_devices();
  }

  // Of the outputs, which start on both devices' threads.
  Tensors gradients(const Tensors& outputs) const {
    return on_cpu(torch::autograd::grad(outputs, leaves, weights));
  }
};

TEST(DeviceThreadsTest, TwoThreadsThatAskAtOnceShareOneReplay) {
  const TwoDevices devices;
  const Tensors expected = devices.gradients(on_each(devices.leaves));
  for (const Delays& delays : delay_cases()) {
    const DelayGuard delaying(delays);
    for (int repeat = 0; repeat < 5; ++repeat) {
      std::atomic<int> replays = 0;
      std::atomic<int> asking = 0;
      const auto code = [&](const Tensors& in) {
        if (is_recomputing()) {
          ++replays;
          for (int i = 0; i < 10000 && asking < 2; ++i) {  // the other thread is on its way
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
          }
        }
        return on_each(in);
      };
      const Tensors outputs = checkpoint(code, devices.leaves);
      for (const at::Tensor& output : outputs) {
        output.register_hook([&](const at::Tensor&) { ++asking; });
      }
      expect_equal(devices.gradients(outputs), expected);
      EXPECT_EQ(asking, 2);
      EXPECT_EQ(replays, 1);
    }
  }
}

TEST(DeviceThreadsTest, TwoThreadsShareOneReplayOfATape) {
  const TwoDevices devices;
  const Tensors expected = devices.gradients(on_each(devices.leaves));
  for (const Delays& delays : delay_cases()) {
    const DelayGuard delaying(delays);
    for (int repeat = 0; repeat < 5; ++repeat) {
      const MemoryReportGuard collecting;
      const Tensors outputs =
          checkpoint({.replay = ReplayMode::kTape, .early_stop = false}, on_each, devices.leaves);
      expect_equal(devices.gradients(outputs), expected);
      EXPECT_EQ(memory_report().regions.at(0).replays, 1);
      expect_equal(
          devices.gradients(checkpoint({.replay = ReplayMode::kTape}, on_each, devices.leaves)),
          expected);
    }
  }
}

TEST(DeviceStreamsTest, TwoDevicesWithoutSideStreams) {
  const TwoDevices devices;
  expect_same_gradients(
      [&](const Form& form) { return devices.gradients(form(on_each, devices.leaves)); });
}

// The thread of one device replays for both; what the other device's half reads comes about on a
// stream that is not current there.
TEST(DeviceStreamsTest, SideStreamsOfTwoDevices) {
  const TwoDevices devices;
  expect_same_gradients([&](const Form& form) {
    const SideStreams on_side;
    const Tensors inputs = {devices.leaves[0] * 2, devices.leaves[1] * 2};
    return devices.gradients(form(on_each, inputs));
  });
}

// An input on a device whose nodes do not ask at all.
TEST(DeviceStreamsTest, WaitsForAnotherDevicesSideStream) {
  const TwoDevices devices;
  const Code code = [](const Tensors& in) {
    const at::Tensor there = in[1].sin().exp();
    return Tensors{in[0].sin() * there.to(in[0].device()), there};
  };
  expect_same_gradients([&](const Form& form) {
    const SideStreams on_side;
    const Tensors inputs = {devices.leaves[0] * 2, devices.leaves[1] * 2};
    return devices.gradients(form(code, inputs));
  });
}

struct OneDevice {
  at::Tensor leaf = at::linspace(-1, 1, 4000).to(test_device()).requires_grad_();
  at::Tensor weight = at::linspace(1, 2, 4000).to(test_device());

  Tensors gradients(const at::Tensor& output) const {
    return on_cpu(torch::autograd::grad({output}, {leaf}, {weight}));
  }
};

TEST(DeviceStreamsTest, ForwardOnASideStream) {
  const OneDevice device;
  expect_same_gradients([&](const Form& form) {
    const c10::Stream side = new_stream(0);
    at::Tensor output;
    {
      hold_up(side);
      const c10::StreamGuard on_side(side);
      output = form(on_each, form(on_each, {device.leaf * 2}))[0];
    }
    order(side, current_stream(0));
    return device.gradients(output);
  });
}

TEST(DeviceStreamsTest, RecordStreamIsNoWrite) {
  const OneDevice device;
  const c10::Stream side = new_stream(0);
  expect_same_gradients([&](const Form& form) {
    const Code code = [&](const Tensors& in) {
      const at::Tensor h = in[0].sin();
      in[0].record_stream(side);
      h.record_stream(side);
      return Tensors{h.exp() * h};
    };
    const at::Tensor x = device.leaf * 2;
    const at::Tensor y = form(code, {x})[0];
    EXPECT_EQ(x._version(), 0);
    return device.gradients(y);
  });
}

// The nodes of both streams need the tensors that replays compute. The nodes of
// `late` ask first, then those of `middle`, then those of `early`.
Tensors on_two_streams(const at::Tensor& x, const c10::Stream& outer, const c10::Stream& inner) {
  const c10::Stream main = current_stream(0);
  const at::Tensor shared = x.sin();
  const at::Tensor also = shared.cos();
  for (const c10::Stream& stream : {outer, inner}) {
    if (stream != main) {
      order(main, stream);
      for (const at::Tensor& tensor : {x, shared, also}) {
        tensor.record_stream(stream);
      }
    }
  }
  Tensors out;
  {
    const c10::StreamGuard guard(outer);
    out.push_back((also * shared).tanh());
  }
  {
    const c10::StreamGuard guard(inner);
    out.push_back((also.exp() * shared).tanh());
  }
  {
    const c10::StreamGuard guard(outer);
    out.push_back((shared.exp() * 2).tanh());
  }
  order(outer, main);
  order(inner, main);
  for (const at::Tensor& tensor : out) {
    tensor.record_stream(main);
  }
  return out;
}

TEST(DeviceStreamsTest, OneRegionOnTwoStreams) {
  const OneDevice device;
  const c10::Stream main = current_stream(0);
  const c10::Stream side = new_stream(0);
  const c10::Stream other = new_stream(0);
  for (const auto& streams : {std::pair(side, main), {main, side}, {side, other}}) {
    const auto& outer = streams.first;  // lambdas of Clang 14 capture no structured bindings
    const auto& inner = streams.second;
    for (const std::size_t late : {1, 2}) {  // the nodes of that output are held up
      SCOPED_TRACE(c10::str(outer, " and ", inner, ", output ", late, " is late"));
      expect_same_gradients([&](const Form& form) {
        const auto code = [&](const Tensors& in) { return on_two_streams(in[0], outer, inner); };
        const Tensors out = form(code, {device.leaf * 2});
        const c10::Stream& held_up = late == 1 ? inner : outer;
        out[late].register_hook([&](const at::Tensor&) { hold_up(held_up); });
        return device.gradients(out[0] + out[1] + out[2]);
      });
    }
  }
}

}  // namespace
}  // namespace reprise::region_streams_test
