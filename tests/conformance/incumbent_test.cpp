// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Where torch.utils.checkpoint fails, leaks or is silently wrong although the user's code is right.
// Mistakes of the user's code are in incumbent_mutation_test.cpp.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/autocast_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <vector>

#include "reprise/engine/checkpoint.h"
#include "reprise/engine/region/frame.h"
#include "tests/testing/bitwise.h"
#include "tests/testing/counting.h"
#include "tests/testing/warning_log.h"

namespace reprise::incumbent_test {
namespace {

using engine_internal::Frame;
using ::testing::AllOf;
using testing::bitwise_equal;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::live_cpu_bytes;
using ::testing::ThrowsMessage;
using testing::WarningLog;

// Reads its saved tensors twice in one backward.
struct ReadsTwice : torch::autograd::Function<ReadsTwice> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& y) {
    const at::Tensor result = x * y.exp();
    context->save_for_backward({x, y, result});
    return result;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const auto once = context->get_saved_variables();
    const auto again = context->get_saved_variables();
    return {gradients[0] * once[1].exp() + 0 * again[0], gradients[0] * again[2]};
  }
};

TEST(IncumbentTest, AllowsCustomFunctionToReadItsSavedTensorsTwice) {
  const auto run = [](bool as_region) {
    const at::Tensor x = at::arange(1.0, 7.0, at::kDouble).requires_grad_();
    const at::Tensor y = at::linspace(0.0, 1.0, 6, at::kDouble).requires_grad_();
    const auto region = [](const at::Tensor& a, const at::Tensor& b) {
      return ReadsTwice::apply(a.sin(), b.cos());
    };
    const at::Tensor z = as_region ? checkpoint(region, x, y) : region(x, y);
    return torch::autograd::grad({z.sum()}, {x, y});
  };
  const auto expected = run(false);
  const auto actual = run(true);
  EXPECT_TRUE(bitwise_equal(actual[0], expected[0]));
  EXPECT_TRUE(bitwise_equal(actual[1], expected[1]));
}

TEST(IncumbentTest, FreesTensorsThatAPartialBackwardDidNotRequest) {
  const at::Tensor x = at::randn({32, 32}).requires_grad_();
  const at::Tensor w1 = at::randn({32, 32}).requires_grad_();
  const at::Tensor w2 = at::randn({32, 32}).requires_grad_();
  const auto region = [&](const at::Tensor& t) { return t.mm(w1).tanh().sin().mm(w2); };
  const at::Tensor loss = checkpoint(region, x).sum();
  const at::Tensor plain_loss = region(x).sum();
  const std::int64_t before = live_cpu_bytes();
  for (int i = 0; i < 5; ++i) {
    torch::autograd::grad({loss}, {w2}, {}, /*retain_graph=*/true);
    EXPECT_EQ(live_cpu_bytes(), before) << "after partial backward " << i;
  }
  const auto actual = torch::autograd::grad({loss}, {x, w1, w2});
  const auto expected = torch::autograd::grad({plain_loss}, {x, w1, w2});
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(bitwise_equal(actual[i], expected[i])) << "gradient " << i;
  }
}

TEST(IncumbentTest, FreesTensorsThatABackwardToSomeLeavesDidNotRequest) {
  const at::Tensor x = at::randn({32, 32}).requires_grad_();
  const at::Tensor w = at::randn({32, 32}).requires_grad_();
  const at::Tensor loss =
      checkpoint([&](const at::Tensor& t) { return t.tanh().sin().mm(w); }, x).sum();
  const std::vector<at::Tensor> leaves{w};
  const auto partial_backward = [&] {
    loss.backward({}, /*retain_graph=*/true, /*create_graph=*/false, at::TensorList(leaves));
  };
  partial_backward();
  const std::int64_t before = live_cpu_bytes();
  for (int i = 0; i < 5; ++i) {
    partial_backward();
    EXPECT_EQ(live_cpu_bytes(), before) << "after partial backward " << i;
  }
}

TEST(IncumbentTest, RandomNumbersInARegionWithoutPreservedStateAreWarnedOf) {
  const at::Tensor x = at::ones({16}).requires_grad_();
  const WarningLog warnings;
  checkpoint(
      {.name = "noisy", .preserve_rng_state = false},
      [](const at::Tensor& t) { return torch::dropout(t, 0.5, true); }, x);
  EXPECT_THAT(warnings.messages(),
              ElementsAre(AllOf(HasSubstr("region 'noisy' drew random numbers"),
                                HasSubstr("preserve_rng_state is off"))));
}

TEST(IncumbentTest, RegionWithoutRandomNumbersIsNotWarnedOf) {
  const at::Tensor x = at::ones({16}).requires_grad_();
  const WarningLog warnings;
  checkpoint(
      {.preserve_rng_state = false}, [](const at::Tensor& t) { return t.exp(); }, x);
  checkpoint([](const at::Tensor& t) { return torch::dropout(t, 0.5, true); }, x);
  EXPECT_THAT(warnings.messages(), IsEmpty());
}

enum class Passed { kNowhere, kAsArgument, kCaptured };

// The gradient of a region that draws from a generator of the user's own, which has moved on by the
// time of backward.
at::Tensor gradient_with_generator(Passed passed) {
  const at::Generator own = at::detail::createCPUGenerator(77);
  const at::Tensor x = at::ones({50}).requires_grad_();
  const auto region = [](const at::Tensor& t, const at::Generator& from) {
    return t.exp() * at::rand({50}, from).bernoulli(from);
  };
  at::Tensor y;
  if (passed == Passed::kAsArgument) {
    y = checkpoint(region, x, own);
  } else if (passed == Passed::kCaptured) {
    y = checkpoint(
        {.determinism_check = DeterminismCheck::kNone},
        [&](const at::Tensor& t) { return region(t, own); }, x);
  } else {
    y = region(x, own);
  }
  at::rand({9}, own);
  const auto stands = own.get_state();
  y.sum().backward();
  EXPECT_TRUE(bitwise_equal(own.get_state(), stands));
  return x.grad();
}

TEST(IncumbentTest, GeneratorOfTheUsersOwnGivesTheSameNumbersAgain) {
  const at::Tensor expected = gradient_with_generator(Passed::kNowhere);
  EXPECT_TRUE(bitwise_equal(gradient_with_generator(Passed::kAsArgument), expected));
  EXPECT_TRUE(bitwise_equal(gradient_with_generator(Passed::kCaptured), expected));
}

struct UsersError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

TEST(IncumbentTest, RestoresGeneratorsAfterAnErrorInTheReplay) {
  const auto step = [](const std::function<at::Tensor(const at::Tensor&)>& run) {
    torch::manual_seed(8);
    const at::Tensor x = at::ones({40}).requires_grad_();
    run(x).sum().backward();
    return x.grad();
  };
  const auto dropped = [](const at::Tensor& t) { return torch::dropout(t, 0.5, true).exp(); };

  bool fail = true;
  const auto failing = [&](const at::Tensor& t) {
    const at::Tensor masked = torch::dropout(t, 0.5, true);
    if (fail && is_recomputing()) {
      throw UsersError("in the replay");
    }
    return masked.exp();
  };
  const at::Tensor y = checkpoint(failing, at::ones({40}).requires_grad_());
  const at::Tensor stands = at::detail::getDefaultCPUGenerator().get_state();
  EXPECT_THAT([&] { y.sum().backward(); }, ThrowsMessage<UsersError>("in the replay"));
  EXPECT_TRUE(bitwise_equal(at::detail::getDefaultCPUGenerator().get_state(), stands));
  EXPECT_FALSE(is_recomputing());
  fail = false;
  y.sum().backward();  // the same graph can be tried again
  EXPECT_TRUE(bitwise_equal(step([&](const at::Tensor& x) { return checkpoint(failing, x); }),
                            step(dropped)));
}

// Its saving is the last of the region, so the replay is left from inside of it.
struct SavesLast : torch::autograd::Function<SavesLast> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x) {
    context->save_for_backward({x});
    return x * x;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    return {2 * gradients[0] * context->get_saved_variables()[0]};
  }
};

TEST(IncumbentTest, TwentyIterationsWithEarlyStopInsideACustomFunctionLeakNothing) {
  const at::Tensor w = at::randn({16, 16}).requires_grad_();
  const auto step = [&w] {
    const at::Tensor y = checkpoint(
        [&w](const at::Tensor& t) { return SavesLast::apply(torch::dropout(t.mm(w), 0.5, true)); },
        at::ones({16, 16}));
    w.mutable_grad() = at::Tensor();
    y.sum().backward();
  };
  step();
  const std::int64_t before = live_cpu_bytes();
  for (int i = 0; i < 20; ++i) {
    step();
    EXPECT_EQ(live_cpu_bytes(), before) << "after iteration " << i;
    EXPECT_EQ(Frame::live_count(), 0) << "after iteration " << i;
  }
}

// Three uses of one weight under autocast: the first, outside of any region, warms the cache of
// weight casts.
std::vector<at::Tensor> gradients_with_warm_cache(bool as_regions) {
  torch::manual_seed(2);
  const at::Tensor w = at::randn({16, 16}).requires_grad_();
  const at::Tensor x = at::randn({16, 16}).requires_grad_();
  const auto region = [&w](const at::Tensor& t) { return t.mm(w).tanh(); };
  at::autocast::set_autocast_enabled(at::kCPU, true);
  at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
  at::autocast::increment_nesting();
  at::Tensor h = region(x);
  for (int i = 0; i < 2; ++i) {
    h = as_regions ? checkpoint(region, h) : region(h);
  }
  if (at::autocast::decrement_nesting() == 0) {
    at::autocast::clear_cache();
  }
  at::autocast::set_autocast_enabled(at::kCPU, false);
  return torch::autograd::grad({h.sum()}, {x, w});
}

TEST(IncumbentTest, WarmCacheOfWeightCastsChangesNoGradient) {
  const auto expected = gradients_with_warm_cache(false);
  const auto actual = gradients_with_warm_cache(true);
  EXPECT_TRUE(bitwise_equal(actual[0], expected[0]));
  EXPECT_TRUE(bitwise_equal(actual[1], expected[1]));
}

}  // namespace
}  // namespace reprise::incumbent_test
