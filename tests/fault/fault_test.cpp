// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// An exception at the n-th pack, unpack or allocation of a training step, for every n. Afterwards
// nothing is left of the step, and the next one is right.
#include <ATen/CPUGeneratorImpl.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "reprise/engine/checkpoint.h"
#include "reprise/engine/region/frame.h"
#include "reprise/hooks/saved_tensor_hooks.h"
#include "reprise/hooks/seam/hook_stack.h"
#include "reprise/rng/rng_state.h"
#include "tests/testing/bitwise.h"
#include "tests/testing/counting.h"
#include "tests/testing/fault.h"
#include "tests/testing/node_counter.h"

namespace reprise::fault_test {
namespace {

using engine_internal::Frame;
using testing::AllocationFault;
using testing::bitwise_equal;
using testing::live_cpu_bytes;
using testing::NodeCounter;

struct InjectedError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

RngState generator_state() { return RngState::capture(at::detail::getDefaultCPUGenerator()); }

// Throws at the n-th call; never, if n is 0.
class Fault {
 public:
  explicit Fault(std::int64_t n) : n_(n) {}

  void pass() {
    if (++calls_ == n_) {
      generator_ = generator_state();
      throw InjectedError("injected at call " + std::to_string(n_));
    }
  }
  [[nodiscard]] bool fired() const { return n_ > 0 && calls_ >= n_; }
  // Where the default generator stood when it fired.
  [[nodiscard]] const std::optional<RngState>& generator() const { return generator_; }

 private:
  std::int64_t n_;
  std::int64_t calls_ = 0;
  std::optional<RngState> generator_;
};

struct UserHooks {
  at::Tensor pack(const at::Tensor& tensor) {
    packs.pass();
    return tensor;
  }
  at::Tensor unpack(const at::Tensor& packed) {
    unpacks.pass();
    return packed;
  }
  Fault packs{0};
  Fault unpacks{0};
};

using HooksPtr = std::shared_ptr<UserHooks>;

// Nested regions with dropout, and the user's hooks around and inside of them.
class Step {
 public:
  explicit Step(CheckpointOptions options) : options_(std::move(options)) {
    torch::manual_seed(1);
    for (int i = 0; i < 4; ++i) {
      leaves_.push_back(at::randn({6, 6}).requires_grad_());
    }
  }

  // Without regions and hooks: the truth.
  std::vector<at::Tensor> plain() {
    as_regions_ = false;
    torch::manual_seed(2);
    draws_ = {generator_state()};
    return torch::autograd::grad({forward(nullptr)}, leaves_);
  }

  // Watches the graph in `nodes`.
  std::vector<at::Tensor> run(const HooksPtr& hooks, NodeCounter& nodes) {
    as_regions_ = true;
    before_backward_.reset();
    torch::manual_seed(2);
    const at::Tensor loss = forward(hooks);
    nodes.watch(loss);
    before_backward_ = generator_state();
    return torch::autograd::grad({loss}, leaves_);
  }

  // Where the generator may stand after the failure of a forward: where a dropout of it began.
  [[nodiscard]] const std::vector<RngState>& draws() const { return draws_; }
  // Nothing if backward was not reached.
  [[nodiscard]] const std::optional<RngState>& before_backward() const { return before_backward_; }

 private:
  using Function = std::function<at::Tensor(const at::Tensor&)>;

  at::Tensor region(const Function& function, const at::Tensor& x) const {
    return as_regions_ ? checkpoint(options_, function, x) : function(x);
  }

  at::Tensor masked(const at::Tensor& x) {
    auto y = torch::dropout(x, 0.3, true);
    if (!as_regions_) {
      draws_.push_back(generator_state());
    }
    return y;
  }

  at::Tensor inner(const at::Tensor& x) { return masked(x.sin()).mm(leaves_[2]).tanh(); }

  at::Tensor outer(const at::Tensor& x, const HooksPtr& hooks) {
    const auto call_inner = [this](const at::Tensor& t) { return inner(t); };
    const at::Tensor a = masked(x.mm(leaves_[1]));
    const at::Tensor b = region(call_inner, a);
    std::optional<SavedTensorHooksGuard> guard;
    if (hooks) {
      guard.emplace(hooks);
    }
    return a * region(call_inner, b).exp();
  }

  at::Tensor forward(const HooksPtr& hooks) {
    std::optional<SavedTensorHooksGuard> guard;
    if (hooks) {
      guard.emplace(hooks);
    }
    const at::Tensor h = leaves_[0].mm(leaves_[3]).sigmoid();
    return region([this, hooks](const at::Tensor& t) { return outer(t, hooks); }, h).sum();
  }

  CheckpointOptions options_;
  bool as_regions_ = false;
  std::vector<at::Tensor> leaves_;
  std::vector<RngState> draws_;
  std::optional<RngState> before_backward_;
};

void expect_nothing_left(NodeCounter& nodes, std::int64_t bytes_before) {
  EXPECT_EQ(nodes.alive(), 0U);
  EXPECT_EQ(live_cpu_bytes(), bytes_before);
  EXPECT_EQ(Frame::live_count(), 0);
  EXPECT_EQ(hooks_internal::innermost_provider(), nullptr);
  EXPECT_EQ(c10::ThreadLocalDebugInfo::current(), nullptr);
  EXPECT_FALSE(is_recomputing());
  EXPECT_TRUE(at::GradMode::is_enabled());
}

void expect_right_step(Step& step, const std::vector<at::Tensor>& expected) {
  NodeCounter nodes;
  const auto actual = step.run(std::make_shared<UserHooks>(), nodes);
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(bitwise_equal(actual[i], expected[i])) << "gradient " << i;
  }
}

struct Case {
  const char* name;
  bool early_stop;
  DeterminismCheck check;
};

void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }

class FaultTest : public ::testing::TestWithParam<Case> {
 protected:
  FaultTest()
      : step_({.early_stop = GetParam().early_stop, .determinism_check = GetParam().check}),
        expected_(step_.plain()) {
    expect_right_step(step_, expected_);  // and fills the caches of LibTorch
    bytes_before_ = live_cpu_bytes();
  }

  void expect_generator_at(const RngState& state) { EXPECT_TRUE(state.is_current()); }

  // The n-th call of one of the two hooks throws. False if there are fewer.
  bool fails_at(Fault UserHooks::*which, std::int64_t n) {
    SCOPED_TRACE(n);
    NodeCounter nodes;
    const auto hooks = std::make_shared<UserHooks>();
    (*hooks).*which = Fault(n);
    try {
      step_.run(hooks, nodes);
      EXPECT_FALSE(((*hooks).*which).fired()) << "the exception was lost";
      return false;
    } catch (const InjectedError& error) {
      EXPECT_EQ(error.what(), "injected at call " + std::to_string(n));
    }
    expect_nothing_left(nodes, bytes_before_);
    const auto& before_backward = step_.before_backward();
    expect_generator_at(before_backward ? *before_backward : *((*hooks).*which).generator());
    expect_right_step(step_, expected_);
    return true;
  }

  std::int64_t count_failures(Fault UserHooks::*which) {
    std::int64_t n = 1;
    while (fails_at(which, n)) {
      ++n;
    }
    return n - 1;
  }

  // The n-th allocation of a step fails. False if there are fewer.
  bool allocation_fails_at(std::int64_t n) {
    SCOPED_TRACE(n);
    NodeCounter nodes;
    {
      const AllocationFault fault(n);
      bool threw = false;
      try {
        step_.run(std::make_shared<UserHooks>(), nodes);
      } catch (const c10::OutOfMemoryError& error) {
        threw = true;
        EXPECT_STREQ(error.what_without_backtrace(), "injected failure of a CPU allocation");
      }
      EXPECT_EQ(threw, fault.fired());
      if (!threw) {
        return false;
      }
    }
    expect_nothing_left(nodes, bytes_before_);
    if (step_.before_backward()) {
      expect_generator_at(*step_.before_backward());
    } else {
      EXPECT_TRUE(std::any_of(step_.draws().begin(), step_.draws().end(),
                              [](const RngState& state) { return state.is_current(); }));
    }
    expect_right_step(step_, expected_);
    return true;
  }

  Step step_;
  const std::vector<at::Tensor> expected_;
  std::int64_t bytes_before_ = 0;
};

TEST_P(FaultTest, PlainStepDrawsThreeMasks) { EXPECT_EQ(step_.draws().size(), 4U); }

TEST_P(FaultTest, ExceptionAtAnyPackLeavesNothingBehind) {
  EXPECT_GE(count_failures(&UserHooks::packs), 5);
}

TEST_P(FaultTest, ExceptionAtAnyUnpackLeavesNothingBehind) {
  EXPECT_GE(count_failures(&UserHooks::unpacks), 5);
}

TEST_P(FaultTest, ExceptionAtAnyAllocationLeavesNothingBehind) {
  std::int64_t n = 1;
  while (allocation_fails_at(n)) {
    ++n;
  }
  EXPECT_GE(n, 30);
}

INSTANTIATE_TEST_SUITE_P(Regions, FaultTest,
                         ::testing::Values(Case{"EarlyStop", true, DeterminismCheck::kMetadata},
                                           Case{"RunToTheEnd", false, DeterminismCheck::kMetadata},
                                           Case{"CheckOfValues", true, DeterminismCheck::kValues}),
                         [](const ::testing::TestParamInfo<Case>& info) {
                           return info.param.name;
                         });

}  // namespace
}  // namespace reprise::fault_test
