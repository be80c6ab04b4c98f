// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Tensors that a region's code keeps besides its result: a replay leaves no stand-in there.
#include <functional>
#include <vector>

#include "reprise/policies/policies.h"
#include "tests/conformance/conformance_fixture.h"
#include "tests/testing/kernel_counter.h"
#include "tests/testing/wrapper_tensor.h"

namespace reprise::testing::left_behind_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::vector<CheckpointOptions> kinds() {
  std::vector<CheckpointOptions> all;
  for (const PolicyHolder& policy :
       {PolicyHolder{}, PolicyHolder(policies::save_everything()),
        PolicyHolder(policies::save_nothing()), PolicyHolder(policies::save_matmuls()),
        PolicyHolder(policies::save_compute_intensive())}) {
    for (const bool early_stop : {true, false}) {
      all.push_back({.policy = policy, .early_stop = early_stop});
    }
  }
  return all;
}

struct LeftBehindTest : ConformanceTest {
  // Runs code(x, kept) under options of many kinds. What it keeps has forward's bits after each of
  // two backwards, and the gradients are those of the plain run.
  void expect_kept(const std::function<at::Tensor(const at::Tensor&, Tensors&)>& code) {
    const at::Tensor x = leaf({4, 4});
    Tensors plain_kept;
    const at::Tensor plain = torch::autograd::grad({code(x, plain_kept).sum()}, {x})[0];
    std::size_t number = 0;
    for (const CheckpointOptions& options : kinds()) {
      SCOPED_TRACE(number++);
      Tensors kept;
      const at::Tensor y = checkpoint(
          options, [&](const at::Tensor& t) { return code(t, kept); }, x);
      for (const bool retain : {true, false}) {
        expect_same_bits(torch::autograd::grad({y.sum()}, {x}, {}, retain), {plain});
        expect_same_bits(kept, plain_kept);
      }
    }
  }
};

at::Tensor body(const at::Tensor& x) { return x.mm(x).tanh(); }

TEST_F(LeftBehindTest, AStatisticThatNothingDependsOn) {
  expect_kept([](const at::Tensor& x, Tensors& kept) {
    const at::Tensor h = body(x);
    kept = {h.detach().mean(0) * 3 + 1};
    return h.mm(x).tanh();
  });
}

TEST_F(LeftBehindTest, AView) {
  expect_kept([](const at::Tensor& x, Tensors& kept) {
    const at::Tensor h = body(x);
    kept = {(h.detach() * 2).select(0, 1)};
    return h.mm(x).tanh();
  });
}

// The class reads h, which nothing else needs, and no operator tells.
TEST_F(LeftBehindTest, AResultOfAClassThatWrapsAnother) {
  for (const bool has_storage : {true, false}) {
    expect_kept([has_storage](const at::Tensor& x, Tensors& kept) {
      const at::Tensor h = (x + 1) * 2;
      kept = {inside_of(to_wrapper(h.detach(), has_storage).sin().exp())};
      return x.tanh() + h;
    });
  }
}

TEST_F(LeftBehindTest, AWriteThatNothingDependsOn) {
  expect_kept([](const at::Tensor& x, Tensors& kept) {
    const at::Tensor h = x.detach() * 2;
    const at::Tensor y = x * h.exp();
    h.add_(x.detach().cos());
    kept = {h};
    return y;
  });
}

// Its arguments are not computed either.
TEST_F(LeftBehindTest, AWriteForNothingIsLeftOut) {
  const at::Tensor x = leaf({4, 4});
  const auto code = [](const at::Tensor& t) {
    const at::Tensor h = t.detach() * 2;
    const at::Tensor y = t * h.exp();
    h.index_add_(0, (t.detach().sum(0) * 0).to(at::kLong), t.detach().cos());
    return y;
  };
  const at::Tensor y =
      checkpoint({.policy = policies::save_nothing(), .early_stop = false}, code, x);
  const KernelCounter kernels;
  y.sum().backward();
  EXPECT_EQ(kernels.count("aten::exp"), 1);
  EXPECT_EQ(kernels.count("aten::index_add_"), 0);
  EXPECT_EQ(kernels.count("aten::cos"), 0);
}

// The region inside owns the number as well, which is read through a pointer.
TEST_F(LeftBehindTest, ANumberThatARegionInsideRetains) {
  const at::Tensor x = leaf({4, 4});
  const auto code = [](const at::Tensor& t) {
    const at::Tensor rows = (t.detach().sum() * 0 + 2).to(at::kLong);
    return t.narrow(0, 0, *rows.data_ptr<std::int64_t>()).sin().exp();
  };
  const CheckpointOptions tape{.policy = policies::save_everything(), .replay = ReplayMode::kTape};
  const auto outer = [&](const at::Tensor& t) { return checkpoint(tape, code, t.cos()); };
  const at::Tensor expected = torch::autograd::grad({code(x.cos()).sum()}, {x})[0];
  const at::Tensor y = checkpoint({.policy = policies::save_nothing()}, outer, x);
  expect_same_bits(torch::autograd::grad({y.sum()}, {x}), {expected});
}

TEST_F(LeftBehindTest, DataOfAParameter) {
  const at::Tensor parameter = leaf({4});
  expect_kept([&](const at::Tensor& x, Tensors& kept) {
    const at::Tensor h = body(x);
    parameter.set_data(h.detach().mean(0).neg());
    kept = {parameter.detach()};
    return h.mm(x).tanh();
  });
}

TEST_F(LeftBehindTest, ACopyInATensorFromOutside) {
  const at::Tensor outside = at::zeros({4});
  expect_kept([&](const at::Tensor& x, Tensors& kept) {
    const at::Tensor h = body(x);
    outside.copy_(h.detach().mean(0).exp());
    kept = {outside};
    return h.mm(x).tanh();
  });
}

TEST_F(LeftBehindTest, AResultWithItsGraph) {
  expect_kept([](const at::Tensor& x, Tensors& kept) {
    const at::Tensor h = body(x);
    kept = {h.square().detach(), h.detach()};
    return h.mm(x).tanh();
  });
}

// A flag on the host decides whether a layer takes its parameters from the data.
void initialise_once(const at::Tensor& flag, const at::Tensor& bias, const at::Tensor& batch) {
  if (!flag.item<bool>()) {
    bias.set_data((-batch.mean(0)).detach());
    flag.fill_(true);
  }
}

TEST_F(LeftBehindTest, ParametersInitialisedFromTheFirstBatch) {
  for (const CheckpointOptions& options : kinds()) {
    const at::Tensor flag = at::zeros({}, at::kBool);
    const at::Tensor bias = at::zeros({4}).requires_grad_();
    const at::Tensor x = leaf({8, 4});
    const auto layer = [&](const at::Tensor& t) {
      initialise_once(flag, bias, t);
      return ((t + bias) * t.exp()).tanh();
    };
    const at::Tensor y = checkpoint(options, layer, x);
    const at::Tensor expected = (-x.mean(0)).detach();
    EXPECT_TRUE(bitwise_equal(bias.detach(), expected));
    const at::Tensor data = bias.data();
    const Tensors got = torch::autograd::grad({y.sum()}, {x, bias});
    EXPECT_TRUE(bias.is_alias_of(data));
    EXPECT_TRUE(bitwise_equal(bias.detach(), expected));
    EXPECT_TRUE(flag.item<bool>());
    expect_same_bits(got, torch::autograd::grad({layer(x).sum()}, {x, bias}));
  }
}

// A replay of the outer region assigns other memory, which must not be what the inner one reads.
TEST_F(LeftBehindTest, ParametersInitialisedFromTheFirstBatchInARegionInside) {
  const at::Tensor flag = at::zeros({}, at::kBool);
  const at::Tensor bias = at::zeros({4}).requires_grad_();
  const at::Tensor x = leaf({8, 4});
  const auto layer = [&](const at::Tensor& t) {
    initialise_once(flag, bias, t);
    return (t * bias).tanh();
  };
  const auto block = [&](const at::Tensor& t) { return checkpoint(layer, layer(t.sin())).exp(); };
  const at::Tensor y = checkpoint(block, x);
  const at::Tensor data = bias.data();
  const Tensors got = torch::autograd::grad({y.sum()}, {x, bias});
  EXPECT_TRUE(bias.is_alias_of(data));
  expect_same_bits(got, torch::autograd::grad({layer(layer(x.sin())).exp().sum()}, {x, bias}));
}

TEST_F(LeftBehindTest, AnAverageByAssignmentIsAnError) {
  for (const CheckpointOptions& options : kinds()) {
    const at::Tensor x = leaf({4, 4});
    at::Tensor average = at::zeros({4});
    const at::Tensor y = checkpoint(
        options,
        [&](const at::Tensor& t) {
          const at::Tensor h = body(t);
          average = average * 0.9 + h.detach().mean(0) * 0.1;
          return h.mm(t).tanh();
        },
        x);
    EXPECT_THAT([&] { torch::autograd::grad({y.sum()}, {x}); },
                ThrowsMessage<CheckpointError>(AllOf(HasSubstr("like an average by assignment"),
                                                     HasSubstr("aten::mul"),
                                                     HasSubstr("is_recomputing()"))));
  }
}

// The replay under the policy leaves a stand-in in `average` and fails, as it does not fill the
// table again. The run without the policy finds the stand-in there.
TEST_F(LeftBehindTest, AStandInIsNotReadByTheNextRun) {
  const at::Tensor x = leaf({4, 4});
  for (const CheckpointOptions& options : kinds()) {
    at::Tensor average = at::zeros({4});
    at::Tensor table;
    const auto code = [&](const at::Tensor& t) {
      const at::Tensor h = body(t);
      average = average * 0.9 + h.detach().mean(0);
      if (!table.defined()) {
        table = at::ones({4, 4}).exp();
      }
      return (h.mm(t) * table).tanh();
    };
    const at::Tensor first = checkpoint(options, code, x);
    const at::Tensor second = checkpoint(options, code, x);
    EXPECT_THROW(torch::autograd::grad({first.sum()}, {x}), CheckpointError);
  }
}

// Nobody asks for what depends on the state. A replay under a policy that saves has forward's own
// tensor, which exists.
TEST_F(LeftBehindTest, AResultOfForwardsWhoseStateHasChangedIsNone) {
  const at::Tensor x = leaf({4, 4});
  for (const CheckpointOptions& options : kinds()) {
    const at::Tensor state = at::ones({4, 4});
    Tensors never_used;
    const at::Tensor y = checkpoint(
        options,
        [&](const at::Tensor& t) {
          const at::Tensor h = (t.exp() * state).add_(state);
          const at::Tensor unused = h.sin();
          if (!is_recomputing()) {
            never_used = {h, unused};
          }
          return body(t).exp();
        },
        x);
    state.add_(1);
    const Tensors got = torch::autograd::grad({y.sum()}, {x});
    expect_same_bits(got, torch::autograd::grad({body(x).exp().sum()}, {x}));
    expect_same_bits(never_used, {x.exp() + 1, (x.exp() + 1).sin()});
  }
}

TEST_F(LeftBehindTest, AnAverageInPlaceHappensOnce) {
  const at::Tensor average = at::zeros({4});
  expect_kept([&](const at::Tensor& x, Tensors& kept) {
    average.zero_();
    const at::Tensor h = body(x);
    average.mul_(0.9).add_(h.detach().mean(0), 0.1);
    kept = {average};
    return h.mm(x).tanh();
  });
}

// The code keeps nothing: it runs once in a backward, stand-ins or not.
TEST_F(LeftBehindTest, CodeThatKeepsNothingRunsOnce) {
  const at::Tensor x = leaf({4, 4});
  int runs = 0;
  const at::Tensor y = checkpoint(
      {.policy = policies::save_everything()},
      [&](const at::Tensor& t) {
        ++runs;
        return body(body(t)).exp();
      },
      x);
  torch::autograd::grad({y.sum()}, {x});
  EXPECT_EQ(runs, 2);
}

}  // namespace
}  // namespace reprise::testing::left_behind_test
