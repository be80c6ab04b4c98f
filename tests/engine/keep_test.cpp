// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// keep(): a part of a region runs once, and gradients are those without a region.
#include "reprise/engine/keep.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "reprise/engine/checkpoint_scope.h"
#include "reprise/policies/policies.h"
#include "reprise/rng/rng_state_tracker.h"
#include "tests/conformance/conformance_fixture.h"

namespace reprise::testing::keep_test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

struct Split {
  at::Tensor first;
  std::optional<at::Tensor> second;
  std::vector<at::Tensor> more;
  double scale = 0;
};

class KeepTest : public ::testing::Test {
 protected:
  Split split(const at::Tensor& x) {
    ++calls_;
    return {.first = torch::dropout(x, 0.5, true),
            .second = x.exp(),
            .more = {x, x.detach().sin()},
            .scale = 2.5};
  }

  at::Tensor block(const at::Tensor& x) {
    const at::Tensor before = torch::dropout(x, 0.25, true);
    const Split parts = keep(
        "split", [this](const at::Tensor& t) { return split(t); }, before);
    const at::Tensor after = torch::dropout(parts.first.sin() * *parts.second, 0.25, true);
    return (after * parts.more[0] + parts.more[1]).tanh() * parts.scale;
  }

  // Returns the result, the gradient, and the numbers drawn next.
  template <class Form>
  std::vector<at::Tensor> run(const Form& form) {
    torch::manual_seed(7);
    const at::Tensor x = x_.clone().requires_grad_();
    const at::Tensor y = form(x);
    const int calls = calls_;
    y.square().sum().backward({}, /*retain_graph=*/true);
    y.sum().backward();
    EXPECT_EQ(calls_, calls);
    return {y.detach(), x.grad(), torch::rand({2})};
  }

  const at::Tensor x_ = torch::randn({8, 8});
  int calls_ = 0;
};

TEST_F(KeepTest, RunsOnceAndHasTheBitsOfPlainCode) {
  const auto plain = run([this](const at::Tensor& x) { return block(x); });
  const auto region = [this](CheckpointOptions options) {
    return run([&](const at::Tensor& x) {
      return checkpoint(
          options, [this](const at::Tensor& t) { return block(t); }, x);
    });
  };
  std::vector<std::vector<at::Tensor>> results;
  results.push_back(region({}));
  results.push_back(region({.policy = policies::save_matmuls()}));
  results.push_back(region({.replay = ReplayMode::kTape}));
  results.push_back(region({.early_stop = false}));
  results.push_back(region({.determinism_check = DeterminismCheck::kValues}));
  results.push_back(region({.watch_operators = false}));
  results.push_back(region({.debug = true}));
  for (const auto& result : results) {
    for (std::size_t i = 0; i < plain.size(); ++i) {
      EXPECT_TRUE(at::equal(result[i], plain[i]));
    }
  }
}

TEST_F(KeepTest, KeepsInsideOfNestedRegions) {
  const auto nested = [this](const at::Tensor& x) {
    return checkpoint(
        [this](const at::Tensor& t) {
          return checkpoint([this](const at::Tensor& u) { return block(u); }, t.cos()).sin();
        },
        x);
  };
  const auto plain = run([this](const at::Tensor& x) { return block(x.cos()).sin(); });
  const auto result = run(nested);
  EXPECT_TRUE(at::equal(result[1], plain[1]));
  EXPECT_EQ(calls_, 2);
}

TEST_F(KeepTest, AdvancesGeneratorsOfTheFunction) {
  auto generator = at::detail::createCPUGenerator(3);
  const auto noisy = [&](const at::Tensor& x) {
    const auto noise = [&] { return at::rand({8, 8}, generator); };
    const at::Tensor first = noise();
    const at::Tensor kept = keep("noise", [&] { return noise(); });
    return (x * first * kept * noise()).sin();
  };
  const auto plain = run(noisy);
  generator.set_current_seed(3);
  const auto result = run([&](const at::Tensor& x) { return checkpoint(noisy, x); });
  EXPECT_TRUE(at::equal(result[0], plain[0]));
  EXPECT_TRUE(at::equal(result[1], plain[1]));
}

TEST_F(KeepTest, RefusesNamedStatesAndWrites) {
  const at::Tensor x = x_.clone().requires_grad_();
  RngStateTracker tracker;
  tracker.add("mine", 5);
  const auto draws = [&](const at::Tensor& t) {
    return keep("draws", [&] {
      const auto fork = tracker.fork("mine");
      return torch::dropout(t, 0.5, true);
    });
  };
  EXPECT_THAT([&] { checkpoint(draws, x); },
              ThrowsMessage<CheckpointError>(HasSubstr("draws from a named generator state")));
  const auto writes = [](const at::Tensor& t) {
    return keep(
        "writes", [](const at::Tensor& u) { return u.mul_(2); }, t.sin());
  };
  EXPECT_THAT([&] { checkpoint(writes, x); },
              ThrowsMessage<MutationError>(HasSubstr("keep('writes') writes to an argument")));
}

}  // namespace
}  // namespace reprise::testing::keep_test
