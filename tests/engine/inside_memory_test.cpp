// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Code that reads a workspace through a pointer, and fills memory of the region's own with it.
#include <algorithm>
#include <functional>
#include <random>

#include "reprise/engine/errors.h"
#include "tests/conformance/conformance_fixture.h"

namespace reprise::testing::inside_memory_test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

struct Case {
  const char* name;
  std::function<at::Tensor(const at::Tensor& x)> make;
};

using InsideMemoryTest = ConformanceTest;

class InsideMemoryOfTest : public ConformanceTest, public ::testing::WithParamInterface<Case> {
 protected:
  // The workspace holds `x` before the pointer reads it. changed: the only element that is copied.
  at::Tensor run(const at::Tensor& x, std::int64_t changed) const {
    workspace_.copy_(x.detach());
    const at::Tensor made = GetParam().make(x.detach());
    made.mutable_data_ptr<float>()[changed] = workspace_.const_data_ptr<float>()[changed];
    return (x * made).sin();
  }

  void TearDown() override {
    workspace_.reset();
    ConformanceTest::TearDown();
  }

  at::Tensor workspace_ = at::zeros({kElements});
  static constexpr std::int64_t kElements = 3000;
};

TEST_P(InsideMemoryOfTest, IsAsInPlainWhileTheWorkspaceHoldsForwardsContents) {
  for (const bool early_stop : {true, false}) {
    const at::Tensor x = leaf({kElements});
    const at::Tensor y = checkpoint(
        {.early_stop = early_stop}, [this](const at::Tensor& t) { return run(t, 7); }, x);
    const at::Tensor plain = torch::autograd::grad({run(x, 7).sum()}, {x})[0];
    workspace_.copy_(x.detach());
    EXPECT_TRUE(at::equal(torch::autograd::grad({y.sum()}, {x})[0], plain));
  }
}

TEST_P(InsideMemoryOfTest, IsAnErrorThatNamesTheTensorOtherwise) {
  std::mt19937 random(3);
  const CheckpointOptions policy{
      .policy = [](const PolicyContext&) { return CheckpointPolicy::PREFER_RECOMPUTE; }};
  for (const CheckpointOptions& options : {CheckpointOptions{}, policy}) {
    for (int round = 0; round < 20; ++round) {
      const at::Tensor x = leaf({kElements});
      const auto changed = static_cast<std::int64_t>(random() % kElements);
      const auto code = [this, changed](const at::Tensor& t) { return run(t, changed); };
      const at::Tensor y = checkpoint(options, code, x);
      workspace_.fill_(round % 2 == 0 ? 2 : 0);  // perhaps what is there already
      EXPECT_THAT([&] { y.sum().backward(); },
                  ThrowsMessage<MutationError>(AllOf(
                      HasSubstr("aten::mul.Tensor reads a tensor that the region has made, Float "
                                "[3000]"),
                      HasSubstr("filled through a pointer, with other values than in forward"))));
    }
  }
}

TEST_P(InsideMemoryOfTest, IsRightOnATape) {
  const at::Tensor x = leaf({kElements});
  const auto code = [this](const at::Tensor& t) { return run(t, 7); };
  const at::Tensor plain = torch::autograd::grad({code(x).sum()}, {x})[0];
  const at::Tensor y = checkpoint({.replay = ReplayMode::kTape}, code, x);
  workspace_.fill_(2);
  EXPECT_TRUE(at::equal(torch::autograd::grad({y.sum()}, {x})[0], plain));
}

// A replay may receive memory that an earlier replay has filled.
TEST_F(InsideMemoryTest, IsAnErrorInUnsetMemoryToo) {
  const at::Tensor workspace = at::zeros({24});
  const auto code = [&workspace](const at::Tensor& t) {
    workspace.copy_(t.detach());
    const at::Tensor made = at::empty({24});
    std::copy_n(workspace.const_data_ptr<float>(), 24, made.mutable_data_ptr<float>());
    return (t * made).sin();
  };
  for (int round = 0; round < 20; ++round) {
    const at::Tensor x = at::full({24}, 3.0F).requires_grad_();
    const at::Tensor y = checkpoint(code, x);
    workspace.fill_(2);
    EXPECT_THROW(y.sum().backward(), MutationError);
  }
}

// Only the sizes of the unset memory are read: other contents are no change.
TEST_F(InsideMemoryTest, UnsetMemoryThatNoCodeFillsIsNotCompared) {
  const at::Tensor workspace = at::zeros({24});
  const auto code = [&workspace](const at::Tensor& t) {
    workspace.copy_(t.detach());
    return (t * workspace.clone() * at::ones_like(at::empty({24}))).sin();
  };
  for (int round = 0; round < 20; ++round) {
    const at::Tensor x = leaf({24});
    const at::Tensor plain = torch::autograd::grad({code(x).sum()}, {x})[0];
    const at::Tensor y = checkpoint(code, x);
    workspace.fill_(round);
    const at::Tensor garbage = at::full({24}, round);
    EXPECT_TRUE(at::equal(torch::autograd::grad({y.sum()}, {x})[0], plain));
  }
}

INSTANTIATE_TEST_SUITE_P(
    , InsideMemoryOfTest,
    ::testing::Values(Case{"zeros", [](const at::Tensor& x) { return at::zeros_like(x); }},
                      Case{"numbers", [](const at::Tensor&) { return at::full({3000}, 0.5); }}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace reprise::testing::inside_memory_test
