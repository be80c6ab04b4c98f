// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Conformance rows 1 to 15: a region as its caller sees it.
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "tests/conformance/conformance_fixture.h"

namespace reprise::testing::core_test {
namespace {

class CheckpointCoreTest : public ConformanceTest {};

at::Tensor exp_with_dropout(const at::Tensor& x) { return torch::dropout(x.exp(), 0.5, true); }

torch::nn::Sequential make_mlp() {
  return torch::nn::Sequential(torch::nn::Linear(4, 8), torch::nn::ReLU(), torch::nn::Linear(8, 4));
}

Tensors gradients_of(const torch::nn::Sequential& module) {
  Tensors found;
  for (const at::Tensor& parameter : module->parameters()) {
    found.push_back(parameter.grad());
  }
  return found;
}

TEST_F(CheckpointCoreTest, C001_BackwardGivesTheGradientOfThePlainRun) {
  expect_as_plain([&](auto run) -> Tensors {
    const at::Tensor x = leaf({3, 4});
    const at::Tensor y = run(exp_with_dropout, x);
    watch(y).sum().backward();
    return {y.detach(), x.grad()};
  });
}

TEST_F(CheckpointCoreTest, C002_GradGivesTheGradientOfThePlainRun) {
  expect_as_plain([&](auto run) -> Tensors {
    const at::Tensor x = leaf({3, 4});
    const at::Tensor y = run(exp_with_dropout, x);
    return {y.detach(), gradients(y, {x})[0]};
  });
}

struct BlockInput {
  std::int64_t index;
  at::Tensor x;
};

TEST_F(CheckpointCoreTest, C003_TwoThousandRegionsShareOneBackward) {
  expect_as_plain([&](auto run) -> Tensors {
    torch::nn::Sequential mlp = make_mlp();
    Tensors inputs;
    Tensors outputs;
    for (std::int64_t i = 0; i < 2000; ++i) {
      inputs.push_back(leaf({2, 4}));
      outputs.push_back(
          run([mlp](const BlockInput& input) mutable { return mlp->forward(input.x); },
              BlockInput{i, inputs.back()}));
    }
    watch(torch::stack(outputs).mean()).backward();
    Tensors found = gradients_of(mlp);
    found.push_back(inputs.front().grad());
    found.push_back(inputs.back().grad());
    return found;
  });
}

TEST_F(CheckpointCoreTest, C003b_CapturedInputGetsItsGradient) {
  expect_as_plain([&](auto run) -> Tensors {
    const at::Tensor x = leaf({2, 4});
    torch::nn::Sequential mlp = make_mlp();
    watch(run([mlp, x]() mutable { return mlp->forward(x.sin()); })).mean().backward();
    Tensors found = gradients_of(mlp);
    found.push_back(x.grad());
    return found;
  });
}

TEST_F(CheckpointCoreTest, C004_ParametersAloneMayRequireGrad) {
  expect_as_plain([&](auto run) -> Tensors {
    torch::nn::Sequential mlp = make_mlp();
    const at::Tensor x = torch::randn({2, 4});
    watch(run([mlp](const at::Tensor& t) mutable { return mlp->forward(t); }, x)).mean().backward();
    EXPECT_FALSE(x.grad().defined());
    return gradients_of(mlp);
  });
}

TEST_F(CheckpointCoreTest, C005_ChainOfTwoThousandRegionsRunsBackward) {
  expect_as_plain([&](auto run) -> Tensors {
    const at::Tensor x = leaf({4});
    at::Tensor y = x;
    for (int i = 0; i < 2000; ++i) {
      y = run([](const at::Tensor& t) { return t.sin().cos(); }, y);
    }
    watch(y).sum().backward();
    return {x.grad()};
  });
}

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

// Saves its inputs, an intermediate and its output, and reads all of them twice.
struct ReadsTwice : torch::autograd::Function<ReadsTwice> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& a, const at::Tensor& b,
                            const at::Tensor& c) {
    const at::Tensor product = a * b;
    const at::Tensor result = (product * c).exp();
    ctx->save_for_backward({a, b, c, product, result});
    return result;
  }
  static tensor_list backward(AutogradContext* ctx, const tensor_list& grads) {
    const tensor_list first = ctx->get_saved_variables();
    const tensor_list second = ctx->get_saved_variables();
    expect_same_bits(first, second);
    const at::Tensor d = grads[0] * second[4];
    return {d * first[2] * second[1], d * second[2] * first[0], d * second[3]};
  }
};

TEST_F(CheckpointCoreTest, C006_SavedTensorsMayBeReadTwiceInOneBackward) {
  std::vector<int> runs;  // plain, function, tape
  expect_as_plain([&](auto run) -> Tensors {
    runs.push_back(0);
    const at::Tensor a = leaf({3});
    const at::Tensor b = leaf({3});
    const at::Tensor c = leaf({3});
    const at::Tensor y = run(
        [&runs](const at::Tensor& p, const at::Tensor& q, const at::Tensor& r) {
          ++runs.back();
          return ReadsTwice::apply(p.sin(), q, r);
        },
        a, b, c);
    return gradients(y, {a, b, c});
  });
  EXPECT_THAT(runs, ::testing::ElementsAre(1, 2, 1));
}

TEST_F(CheckpointCoreTest, C010_RegionUnderNoGradReturnsADetachedTensor) {
  expect_as_plain([&](auto run) -> Tensors {
    torch::nn::Sequential mlp = make_mlp();
    const at::Tensor a = leaf({2, 4});
    for (int i = 0; i < 3; ++i) {
      at::Tensor out = run(
          [mlp](const at::Tensor& t) mutable {
            const torch::NoGradGuard no_grad;
            return mlp->forward(t);
          },
          a);
      EXPECT_FALSE(out.requires_grad());
      out += a;
      watch(out).sum().backward();
    }
    return {a.grad()};
  });
}

TEST_F(CheckpointCoreTest, C014_TakesAndReturnsAMap) {
  using Named = std::map<std::string, at::Tensor>;
  expect_as_plain([&](auto run) -> Tensors {
    torch::nn::Linear linear(4, 4);
    const Named in = {{"a", leaf({2, 4})}, {"b", leaf({2, 4})}};
    const Named out = run(
        [linear](const Named& named) mutable {
          Named results;
          for (const auto& [name, tensor] : named) {
            results[name] = torch::dropout(linear(tensor).exp(), 0.5, true);
          }
          return results;
        },
        in);
    watch(out.at("a") * out.at("b").sin()).sum().backward();
    return {out.at("a").detach(), in.at("a").grad(), in.at("b").grad(), linear->weight.grad()};
  });
}

TEST_F(CheckpointCoreTest, C015_AllowsRegionToRunItsCodeOnThreadsOfItsOwn) {
  expect_as_plain([&](auto run) -> Tensors {
    const at::Tensor x = leaf({4, 4});
    const at::Tensor y = run(
        [](const at::Tensor& t) {
          Tensors halves = t.exp().chunk(2);
          std::vector<std::thread> threads;
          for (at::Tensor& half : halves) {
            threads.emplace_back([&half] { half = half.sin().exp(); });
          }
          for (std::thread& thread : threads) {
            thread.join();
          }
          return torch::cat(halves).cos();
        },
        x);
    return gradients(y, {x});
  });
}

}  // namespace
}  // namespace reprise::testing::core_test
