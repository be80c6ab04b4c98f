// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Conformance rows 1, 2, 6, 28 and 50, beyond one whole backward: several backwards, parts of one,
// reads outside of one, and backwards inside regions.
#include <torch/csrc/autograd/generated/Functions.h>

#include <cstdint>
#include <functional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/conformance/conformance_fixture.h"

namespace reprise::testing::sessions_test {
namespace {

using ::testing::HasSubstr;
using torch::autograd::generated::ExpBackward0;
using torch::autograd::generated::SinBackward0;

class CheckpointSessionsTest : public ConformanceTest {};

at::Tensor f(const at::Tensor& x) { return torch::dropout(x.sin().exp(), 0.5, true).mm(x).sin(); }

// A region of exp after sin, which counts its runs.
at::Tensor exp_of_sin(const at::Tensor& x, int& runs) {
  return checkpoint(
      [&runs](const at::Tensor& t) {
        ++runs;
        return t.sin().exp();
      },
      x);
}

TEST_F(CheckpointSessionsTest, C001b_RetainedGraphsGiveTheSameGradientEachTime) {
  expect_as_plain([&](auto run) -> Tensors {
    const at::Tensor x = leaf({4, 4});
    const at::Tensor y = run(f, run(f, x));
    const at::Tensor loss = watch(y.sum());
    const std::int64_t bytes = live_cpu_bytes();
    Tensors found;
    for (int i = 0; i < 4; ++i) {
      const bool retain = i < 3;
      found.push_back(torch::autograd::grad({loss}, {x}, {}, retain)[0]);
      if (retain) {
        EXPECT_EQ(live_cpu_bytes(), bytes + (i + 1) * x.nbytes()) << "backward " << i;
      }
    }
    return found;
  });
}

TEST_F(CheckpointSessionsTest, C001c_SecondBackwardOfAFreedGraphIsLibTorchsError) {
  int runs = 0;
  const at::Tensor x = leaf({4});
  const at::Tensor loss = watch(exp_of_sin(x, runs).sum());
  loss.backward();
  EXPECT_EQ(live_frames(), 0);
  try {
    loss.backward();
    FAIL() << "no error";
  } catch (const c10::Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("after they have already been freed"));
  }
  EXPECT_EQ(runs, 2);
}

TEST_F(CheckpointSessionsTest, C002b_FreesRemainingTensorsWhenAPartialBackwardEnds) {
  expect_as_plain([&](auto run) -> Tensors {
    const at::Tensor x = leaf({4, 4});
    const auto [first, second] = run(
        [](const at::Tensor& t) {
          const at::Tensor shared = t.exp();
          return std::make_tuple(f(shared), shared.sin().exp().cos());
        },
        x);
    watch(first + second);
    const std::int64_t bytes = live_cpu_bytes();
    const auto part = [&](const at::Tensor& result) {
      const at::Tensor gradient =
          torch::autograd::grad({result}, {x}, {at::ones_like(result)}, /*retain_graph=*/true)[0];
      EXPECT_EQ(live_cpu_bytes(), bytes + x.nbytes());
      return gradient.clone().add_(0);
    };
    Tensors found;
    at::Tensor kept = part(first).sum();
    EXPECT_EQ(live_cpu_bytes(), bytes + kept.nbytes());
    found.push_back(kept);
    kept = at::Tensor();
    found.push_back(gradients(second, {x})[0]);
    return found;
  });
}

TEST_F(CheckpointSessionsTest, C002c_BackwardToAResultInsideAsksForNoMoreThanItNeeds) {
  int runs = 0;
  const at::Tensor x = leaf({4});
  const auto [y, z] = checkpoint(
      [&runs](const at::Tensor& t) {
        const at::Tensor first = t.sin();
        ++runs;
        return std::make_pair(first, first.exp().sin());
      },
      x);
  const std::int64_t bytes = live_cpu_bytes();
  watch(z);
  torch::autograd::grad({z}, {y}, {at::ones_like(z)});
  EXPECT_EQ(live_cpu_bytes(), bytes);
  EXPECT_TRUE(bitwise_equal(gradients(y, {x})[0], gradients(x.sin(), {x})[0]));
  EXPECT_EQ(runs, 2) << "the second replay ends before";
}

TEST_F(CheckpointSessionsTest, C006b_AllowsSavedTensorToBeReadOutsideOfBackward) {
  int runs = 0;
  const at::Tensor x = leaf({4});
  const at::Tensor y = watch(exp_of_sin(x, runs));
  auto* const exp = dynamic_cast<ExpBackward0*>(y.grad_fn().get());
  auto* const sin = dynamic_cast<SinBackward0*>(y.grad_fn()->next_edge(0).function.get());
  ASSERT_NE(exp, nullptr);
  ASSERT_NE(sin, nullptr);
  const std::int64_t bytes = live_cpu_bytes();
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(bitwise_equal(exp->result_.unpack(y.grad_fn()), y));
    EXPECT_TRUE(bitwise_equal(sin->self_.unpack(), x));
    EXPECT_EQ(live_cpu_bytes(), bytes);
  }
  EXPECT_EQ(runs, 5) << "each read is a replay of its own";
  gradients(y, {x});
  EXPECT_EQ(runs, 6);
  EXPECT_THAT([&] { sin->self_.unpack(); }, ::testing::ThrowsMessage<c10::Error>(
                                                HasSubstr("after they have already been freed")));
}

TEST_F(CheckpointSessionsTest, C006c_ReadOutsideKnowsItsGraph) {
  const at::Tensor x = leaf({4});
  const at::Tensor y = checkpoint([](const at::Tensor& t) { return t.sin().sin(); }, x);
  auto* const outer = dynamic_cast<SinBackward0*>(y.grad_fn().get());
  ASSERT_NE(outer, nullptr);
  const at::Tensor saved = outer->self_.unpack();
  EXPECT_EQ(saved.grad_fn(), y.grad_fn()->next_edge(0).function);
  EXPECT_TRUE(bitwise_equal(gradients(saved, {x})[0], gradients(x.sin(), {x})[0]));
}

TEST_F(CheckpointSessionsTest, C050b_TripleBackwardThroughTwoRegions) {
  expect_as_plain([&](auto run) -> Tensors {
    const at::Tensor x = leaf({4, 4});
    Tensors found = {run(f, run(f, x))};
    for (int order = 1; order <= 3; ++order) {
      found.push_back(gradients(found.back(), {x}, /*create_graph=*/order < 3)[0]);
    }
    for (at::Tensor& tensor : found) {
      tensor = tensor.detach();
    }
    return found;
  });
}

// As without regions, where they are the tensors of the region's graph.
TEST_F(CheckpointSessionsTest, C050e_SecondOrderGraphsRetainRecomputedTensorsOnce) {
  constexpr std::int64_t kResultBytes = 64 * 64 * 4;
  const auto body = [](const at::Tensor& t) { return t.sin().exp().tanh().exp().tanh(); };
  const auto bytes_of = [&](const std::function<at::Tensor(const at::Tensor&)>& run) {
    torch::manual_seed(3);
    const at::Tensor x = leaf({64, 64});
    const std::int64_t before = live_cpu_bytes();
    const at::Tensor y = run(x);
    Tensors slopes;
    for (int i = 0; i < 3; ++i) {
      slopes.push_back(gradients(y.narrow(0, i, 8), {x}, /*create_graph=*/true)[0]);
    }
    const std::int64_t bytes = live_cpu_bytes() - before;
    return std::pair(bytes, gradients(slopes[0] + slopes[1] + slopes[2], {x})[0]);
  };
  const auto [plain, expected] = bytes_of(body);
  const CheckpointOptions tape{.replay = ReplayMode::kTape};
  for (const CheckpointOptions& options : {CheckpointOptions(), tape}) {
    const auto [bytes, found] =
        bytes_of([&](const at::Tensor& t) { return checkpoint(options, body, t); });
    EXPECT_LE(bytes, plain + kResultBytes);  // which the graph holds as it was recomputed
    EXPECT_TRUE(bitwise_equal(found, expected));
  }
}

TEST_F(CheckpointSessionsTest, C050c_ComputesAGradientPenaltyInsideARegion) {
  for (const bool early_stop : {true, false}) {
    expect_as_plain(
        [&](auto run) -> Tensors {
          const at::Tensor weight = leaf({4, 4});
          const at::Tensor x = leaf({4, 4});
          const auto penalised = [weight](const at::Tensor& t) {
            const at::Tensor y = f(t.mm(weight));
            const Tensors slope =
                torch::autograd::grad({y.sum()}, {t}, {}, std::nullopt, /*create_graph=*/true);
            return y.exp() + slope[0].square().sum();
          };
          const at::Tensor y = run(penalised, run(penalised, x));
          return gradients(y, {x, weight});
        },
        {.early_stop = early_stop});
  }
}

TEST_F(CheckpointSessionsTest, C050d_BackwardCallInsideARegionAccumulatesOnce) {
  for (const bool early_stop : {true, false}) {
    expect_as_plain(
        [&](auto run) -> Tensors {
          const at::Tensor weight = leaf({4, 4});
          const at::Tensor x = leaf({4, 4});
          const at::Tensor y = run(
              [weight](const at::Tensor& t) {
                f(t.detach().mm(weight)).square().sum().backward();
                return f(t.mm(weight));
              },
              x);
          const at::Tensor of_inner = weight.grad().clone();
          watch(y).sum().backward();
          return {of_inner, weight.grad(), x.grad()};
        },
        {.early_stop = early_stop});
  }
}

TEST_F(CheckpointSessionsTest, C028_AfterForwardARegionKeepsItsInputAndNothingElse) {
  torch::nn::Sequential mlp(torch::nn::Linear(64, 256), torch::nn::GELU(),
                            torch::nn::Linear(256, 64), torch::nn::Tanh());
  const at::Tensor x = leaf({32, 64});
  auto code = [mlp](const at::Tensor& t) mutable { return mlp->forward(t); };
  const auto kept_after_forward = [&](auto run) {
    const std::int64_t before = live_cpu_bytes();
    const at::Tensor loss = watch(run(code, x.exp()).sum());
    const auto kept = live_cpu_bytes() - before - static_cast<std::int64_t>(loss.nbytes());
    loss.backward();
    return kept;
  };
  const std::int64_t of_plain = kept_after_forward(Plain{});
  const Tensors expected = {x.grad().clone(),
                            mlp[0]->as<torch::nn::Linear>()->weight.grad().clone()};
  mlp->zero_grad();
  x.mutable_grad() = at::Tensor();
  const std::int64_t of_region = kept_after_forward(InRegion{});
  expect_same_bits({x.grad(), mlp[0]->as<torch::nn::Linear>()->weight.grad()}, expected);
  EXPECT_EQ(of_region, static_cast<std::int64_t>(x.nbytes()));
  EXPECT_LT(of_region, of_plain);
}

}  // namespace
}  // namespace reprise::testing::sessions_test
