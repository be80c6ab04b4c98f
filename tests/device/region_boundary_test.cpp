// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Regions that wait for the device at their boundaries.
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <chrono>
#include <memory>
#include <thread>

#include "reprise/engine/checkpoint.h"
#include "tests/device/device_cases.h"

namespace reprise::region_boundary_test {
namespace {

using namespace device_cases;  // NOLINT(google-build-using-namespace)

constexpr auto kKernel = milliseconds(200);

// Whether all kernels that the device's default stream was given have run: freed memory, which is
// overwritten at once, may still be queued.
bool is_idle() {
  const c10::impl::VirtualGuardImpl guard(test_device().type());
  const auto until = std::chrono::steady_clock::now() + kKernel / 2;
  while (!guard.queryStream(guard.getDefaultStream(test_device()))) {
    if (std::chrono::steady_clock::now() > until) {
      return false;
    }
    std::this_thread::yield();
  }
  return true;
}

struct Idle {
  bool after_forward = false;
  bool after_replay = false;
};

class NotesWhetherIdle final : public RegionContext {
 public:
  explicit NotesWhetherIdle(bool& idle) : idle_(idle) {}
  void enter() override {}
  void exit() noexcept override { idle_ = is_idle(); }

 private:
  bool& idle_;
};

Idle run(CheckpointOptions options) {
  const at::Tensor x = on_device(at::ones({8})).requires_grad_();
  Idle idle;
  options.context_fn = [&idle] {
    return RegionContexts{.forward = nullptr,
                          .recompute = std::make_shared<NotesWhetherIdle>(idle.after_replay)};
  };
  const DelayGuard late({.kernel = kKernel, .free_at_once = true});
  const at::Tensor y = checkpoint(
      options, [](const at::Tensor& t) { return t.sin().cos(); }, x * 1);
  idle.after_forward = is_idle();
  torch::autograd::grad({y.sum()}, {x});
  return idle;
}

TEST(RegionBoundaryTest, ForwardAndReplayWaitIfAsked) {
  for (const ReplayMode replay : {ReplayMode::kFunction, ReplayMode::kTape}) {
    SCOPED_TRACE(replay == ReplayMode::kTape ? "tape" : "function");
    const Idle as_ever = run({.replay = replay});
    EXPECT_FALSE(as_ever.after_forward);
    EXPECT_FALSE(as_ever.after_replay);
    const Idle asked = run({.replay = replay, .synchronize_boundary = true});
    EXPECT_TRUE(asked.after_forward);
    EXPECT_TRUE(asked.after_replay);
  }
}

}  // namespace
}  // namespace reprise::region_boundary_test
