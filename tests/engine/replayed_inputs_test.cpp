// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The graph of what a function replay computes: see Note [Inputs of a replay].
#include <gmock/gmock.h>

#include <functional>
#include <tuple>
#include <vector>

#include "reprise/engine/checkpoint.h"
#include "reprise/engine/errors.h"
#include "reprise/policies/policies.h"
#include "tests/conformance/conformance_fixture.h"

namespace reprise::testing::replayed_inputs_test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using Code = std::function<at::Tensor(const at::Tensor&)>;

// Of a region whose argument is a leaf or not, with early stop or without.
class ReplayedInputsTest : public ConformanceTest,
                           public ::testing::WithParamInterface<std::tuple<bool, bool>> {
 protected:
  static at::Tensor argument(const at::Tensor& x) { return std::get<0>(GetParam()) ? x : x.exp(); }
  static CheckpointOptions options() { return {.early_stop = std::get<1>(GetParam())}; }
  static Code in_region(const Code& code) {
    return [code](const at::Tensor& x) { return checkpoint(options(), code, x); };
  }
};

INSTANTIATE_TEST_SUITE_P(Options, ReplayedInputsTest,
                         ::testing::Combine(::testing::Bool(), ::testing::Bool()));

TEST_P(ReplayedInputsTest, HooksOfTheCodeOnItsArgumentAreCalledOnce) {
  int calls = 0;
  const Code code = [&calls](const at::Tensor& t) {
    t.register_hook([&calls](const at::Tensor& gradient) {
      ++calls;
      return gradient * 2;
    });
    return t.sin().exp();
  };
  const auto gradient_of = [](const Code& run) {
    const at::Tensor x = at::linspace(-1, 1, 6).requires_grad_();
    return torch::autograd::grad({run(argument(x)).sum()}, {x})[0];
  };
  const at::Tensor expected = gradient_of(code);
  EXPECT_EQ(calls, 1);
  EXPECT_TRUE(bitwise_equal(gradient_of(in_region(code)), expected));
  EXPECT_EQ(calls, 2);
}

TEST_P(ReplayedInputsTest, TheCodeSeesALeafOnlyWhereItGotOne) {
  std::vector<std::tuple<bool, bool, bool>> seen;
  const Code code = [&seen](const at::Tensor& t) {
    seen.emplace_back(t.is_leaf(), t.requires_grad(), t.grad_fn() != nullptr);
    return t.sin();
  };
  const at::Tensor x = at::linspace(-1, 1, 6).requires_grad_();
  in_region(code)(argument(x)).sum().backward();
  ASSERT_EQ(seen.size(), 2U);
  EXPECT_EQ(seen[1], seen[0]);
}

// As a layer of experts keeps a term of the loss. The replay replaces it.
class Layer {
 public:
  at::Tensor run(const at::Tensor& x) {
    const at::Tensor h = x.sin();
    balance_ = h.square().mean();
    return h.exp() * h;
  }
  const at::Tensor& balance() const { return balance_; }

 private:
  at::Tensor balance_;
};

TEST_P(ReplayedInputsTest, AKeptTensorLeadsToForwardsInputs) {
  const auto gradients = [](const std::function<Code(Code)>& region) {
    Layer layer;
    const at::Tensor x = at::linspace(-1, 1, 6).requires_grad_();
    const Code run = region([&layer](const at::Tensor& t) { return layer.run(t); });
    const at::Tensor y = run(argument(x));
    const Tensors first = torch::autograd::grad({y.sum()}, {x}, {}, /*retain_graph=*/true);
    return Tensors{first[0], torch::autograd::grad({layer.balance()}, {x})[0]};
  };
  const Tensors expected = gradients([](Code code) { return code; });
  expect_same_bits(gradients([](const Code& code) { return in_region(code); }), expected);
}

// Forward's code has run again for the backward inside, which has replaced the kept tensor.
TEST_P(ReplayedInputsTest, AKeptTensorLeadsToForwardsInputsAfterABackwardInside) {
  const auto gradient = [](const std::function<Code(Code)>& region) {
    Layer layer;
    const at::Tensor x = at::linspace(-1, 1, 6).requires_grad_();
    const Code run = region([&layer](const at::Tensor& t) {
      const at::Tensor y = layer.run(t);
      const at::Tensor copy = y.detach().requires_grad_();
      return y * torch::autograd::grad({copy.sin().sum()}, {copy})[0];
    });
    const at::Tensor y = run(argument(x));
    return torch::autograd::grad({y.sum() + layer.balance()}, {x})[0];
  };
  const at::Tensor expected = gradient([](Code code) { return code; });
  const at::Tensor found = gradient([](const Code& code) { return in_region(code); });
  EXPECT_TRUE(at::allclose(found, expected, 1e-6, 1e-6)) << found - expected;
}

// The average of the second forward, from which the first one's replay would go on.
TEST(AccumulatedTest, IsAnErrorInABackwardOfAnEarlierForward) {
  for (const PolicyHolder& policy :
       {PolicyHolder(), PolicyHolder(policies::save_nothing()),
        PolicyHolder(policies::save_matmuls()), PolicyHolder(policies::save_everything())}) {
    at::Tensor average = at::zeros({6});
    const Code code = [&average](const at::Tensor& t) {
      average = average * 0.9 + t.detach().mean(0) * 0.1;
      return t.sin().exp();
    };
    const at::Tensor x = at::linspace(-1, 1, 24).view({4, 6}).requires_grad_();
    const at::Tensor first = checkpoint({.policy = policy, .early_stop = false}, code, x);
    const at::Tensor second = checkpoint({.policy = policy, .early_stop = false}, code, x);
    EXPECT_THAT([&] { first.sum().backward(); },
                ThrowsMessage<CheckpointError>(HasSubstr("computes from the one before")));
  }
}

// What the average is computed from depends on a buffer that forward made and another one has
// filled since, which alone would be no error.
TEST(AccumulatedTest, IsAnErrorBesideABufferThatIsFilledAnew) {
  for (const bool averages : {true, false}) {
    at::Tensor buffer;
    at::Tensor average = at::zeros({6});
    const Code code = [&](const at::Tensor& t) {
      buffer = buffer.defined() ? buffer : at::zeros({6});
      buffer.copy_(t.detach().mean(0));
      const at::Tensor h = t.detach() * buffer;
      if (averages) {
        average = average * 0.9 + h.mean(0) * 0.1;
      }
      return t.sin().exp();
    };
    const auto region = [&code](const at::Tensor& t) {
      return checkpoint({.early_stop = false}, code, t);
    };
    const at::Tensor x = at::linspace(-1, 1, 24).view({4, 6}).requires_grad_();
    const at::Tensor first = region(x);
    const at::Tensor second = region(x * 2);
    if (averages) {
      EXPECT_THAT([&] { first.sum().backward(); },
                  ThrowsMessage<CheckpointError>(HasSubstr("computes from the one before")));
    } else {
      first.sum().backward();
    }
  }
}

// The recomputation for a backward inside the region, which does not stop early, adds to the
// average before forward does.
TEST(AccumulatedTest, IsAnErrorInARecomputationThatRunsAheadOfForward) {
  const auto forward = [](bool averages, bool early_stop) {
    at::Tensor average = at::zeros({6});
    at::Tensor last;
    const Code code = [&](const at::Tensor& t) {
      const at::Tensor copy = t.detach().requires_grad_();
      const at::Tensor factor = torch::autograd::grad({copy.sin().sum()}, {copy})[0];
      last = t.detach().cos();  // depends on nothing that the code keeps
      if (averages) {
        average = average * 0.9 + t.detach().mean(0) * 0.1;
      }
      return t.sin() * factor;
    };
    const at::Tensor x = at::linspace(-1, 1, 24).view({4, 6}).requires_grad_();
    checkpoint({.early_stop = early_stop}, code, x);
    return averages ? average : last;
  };
  const at::Tensor x = at::linspace(-1, 1, 24).view({4, 6});
  EXPECT_TRUE(bitwise_equal(forward(true, /*early_stop=*/true), x.mean(0) * 0.1 + 0.0));
  EXPECT_TRUE(bitwise_equal(forward(false, /*early_stop=*/false), x.cos()));
  EXPECT_THAT([&] { forward(true, /*early_stop=*/false); },
              ThrowsMessage<CheckpointError>(HasSubstr("computes from the one before")));
}

}  // namespace
}  // namespace reprise::testing::replayed_inputs_test
