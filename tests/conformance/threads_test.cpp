// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Conformance rows 5 and 15, beyond one thread: LibTorch's pool threads of deep backwards, and
// threads of the user's.
#include <ATen/CPUGeneratorImpl.h>

#include <cstddef>
#include <cstdint>
#include <thread>
#include <utility>
#include <vector>

#include "tests/conformance/conformance_fixture.h"

namespace reprise::testing::threads_test {
namespace {

class CheckpointThreadsTest : public ConformanceTest {};

at::Tensor f(const at::Tensor& x) { return torch::dropout(x.sin().exp(), 0.5, true).mm(x).sin(); }

// Its backward runs the backward of a region, which runs such a function, and so on.
template <class Run>
struct Reentrant : torch::autograd::Function<Reentrant<Run>> {
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& x,
                            std::int64_t depth) {
    ctx->saved_data["depth"] = depth;
    return x.clone();
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* ctx,
                                               torch::autograd::tensor_list grads) {
    const std::int64_t depth = ctx->saved_data["depth"].toInt();
    const at::AutoGradMode grad_mode(true);
    const at::Tensor x = grads[0].detach().requires_grad_();
    const at::Tensor y = Run{}(
        [depth](const at::Tensor& t) {
          const at::Tensor s = torch::dropout(t.sin().exp(), 0.5, true);
          return depth == 0 ? s.sin() : Reentrant::apply(s, depth - 1).sin();
        },
        x);
    return {torch::autograd::grad({y.sum()}, {x})[0], at::Tensor()};
  }
};

TEST_F(CheckpointThreadsTest, C005b_BackwardsNestDeeperThanLibTorchsStackLimit) {
  constexpr std::int64_t kDepth = 130;  // beyond 60, LibTorch goes on on threads of a pool
  expect_as_plain([&](auto run) -> Tensors {
    const at::Tensor x = leaf({4});
    const at::Tensor y = Reentrant<decltype(run)>::apply(x.exp(), kDepth);
    return gradients(y, {x});
  });
}

// Trains with dropout drawn from a generator of its own; returns the weights.
at::Tensor train(auto run, std::uint64_t seed) {
  const at::Generator generator = at::detail::createCPUGenerator(seed);
  const at::Tensor weight = torch::empty({8, 8}).uniform_(-1, 1, generator).requires_grad_();
  const at::Tensor x = torch::empty({4, 8}).uniform_(-1, 1, generator);
  const auto block = [](const at::Tensor& t, const at::Tensor& w, const at::Generator& dice) {
    const at::Tensor y = t.mm(w).tanh();
    return (y * torch::empty_like(y).bernoulli_(0.5, dice)).sin();
  };
  for (int step = 0; step < 10; ++step) {
    at::Tensor y = x;
    for (int i = 0; i < 6; ++i) {
      y = run(block, y, weight, generator);
    }
    const at::Tensor gradient = torch::autograd::grad({y.square().mean()}, {weight})[0];
    const torch::NoGradGuard no_grad;
    weight.sub_(gradient, 0.1);
  }
  return weight.detach();
}

TEST_F(CheckpointThreadsTest, C015b_TwoThreadsTrainTwoModelsAtOnce) {
  const Tensors expected = {train(Plain{}, 1), train(Plain{}, 2)};
  Tensors trained(2);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < trained.size(); ++i) {
    threads.emplace_back([&trained, i] { trained[i] = train(InRegion{}, i + 1); });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  expect_same_bits(trained, expected);
}

TEST_F(CheckpointThreadsTest, C015c_AllowsGraphToGoBackwardOnAnotherThread) {
  expect_as_plain([&](auto run) -> Tensors {
    const at::Tensor x = leaf({4, 4});
    const at::Tensor y = run(f, run(f, x));
    std::thread([&] { watch(y).sum().backward(); }).join();
    return {x.grad()};
  });
}

TEST_F(CheckpointThreadsTest, C015d_TwoThreadsGoBackwardOverOneGraphAtOnce) {
  const auto code = [](const at::Tensor& t) {
    at::Tensor y = t;
    for (int i = 0; i < 10; ++i) {
      y = y.sin().exp().mm(t).tanh();
    }
    return y;
  };
  const at::Tensor x = leaf({16, 16});
  const at::Tensor loss =
      watch(checkpoint([&](const at::Tensor& t) { return checkpoint(code, t.exp()); }, x).sum());
  const at::Tensor expected = gradients(code(x.exp()).sum(), {x})[0];
  const std::int64_t bytes = live_cpu_bytes();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int repeat = 0; repeat < 20; ++repeat) {
        const at::Tensor found = torch::autograd::grad({loss}, {x}, {}, /*retain_graph=*/true)[0];
        EXPECT_TRUE(bitwise_equal(found, expected));
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(live_cpu_bytes(), bytes);
}

}  // namespace
}  // namespace reprise::testing::threads_test
