// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Where torch.utils.checkpoint is silently wrong because the user's code is at fault: the replay
// sees other values, or runs other code, than forward. Reprise says so.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "reprise/engine/checkpoint.h"
#include "tests/testing/bitwise.h"

namespace reprise::incumbent_mutation_test {
namespace {

using ::testing::AllOf;
using testing::bitwise_equal;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::ThrowsMessage;

// Made by no in-place write, so its version is 0.
at::Tensor leaf(double start = 1.0) {
  return at::arange(start, start + 6.0, at::kDouble).view({2, 3}).clone().requires_grad_();
}

void change_in_place(at::Tensor tensor) {
  const at::NoGradGuard no_grad;
  tensor.mul_(2);
}

std::function<void()> backward_of(const at::Tensor& y) {
  return [loss = y.sum()] { loss.backward(); };
}

// LibTorch's answer to the same mistake without checkpointing.
auto is_plain_error() {
  return ThrowsMessage<c10::Error>(
      AllOf(HasSubstr("modified by an inplace operation"), Not(HasSubstr("[checkpoint]"))));
}

auto is_mutation_error(const char* fragment) {
  return ThrowsMessage<MutationError>(
      AllOf(HasSubstr("[checkpoint] region 'block'"), HasSubstr(fragment)));
}

auto is_value_error() {
  return ThrowsMessage<DeterminismError>(
      AllOf(HasSubstr("[checkpoint] region 'block'"),
            HasSubstr("Recomputed values for the following tensors have different contents")));
}

constexpr const char* kCaptured = "tensors from outside the region, which it captured or reads";

TEST(IncumbentTest, OtherValuesOfTheSameShapeAreFoundByTheCheckOfValues) {
  int runs = 0;
  const at::Tensor x = leaf();
  const at::Tensor y = checkpoint(
      {.name = "block", .determinism_check = DeterminismCheck::kValues},
      [&runs](const at::Tensor& t) { return (t * ++runs).sin(); }, x);
  EXPECT_THAT(backward_of(y), is_value_error());
  EXPECT_THAT(backward_of(y),
              ThrowsMessage<DeterminismError>(HasSubstr("slot 0 (result of MulBackward1)")));
  EXPECT_FALSE(x.grad().defined());
}

TEST(IncumbentTest, TwoTensorsOfOneShapeInSwappedOrderAreFoundByTheCheckOfValues) {
  int runs = 0;
  const at::Tensor a = leaf();
  const at::Tensor b = leaf(7.0);
  const at::Tensor y = checkpoint(
      {.name = "block", .determinism_check = DeterminismCheck::kValues},
      [&runs](at::Tensor first, at::Tensor second) {
        if (runs++ > 0) {
          std::swap(first, second);
        }
        const at::Tensor early = first.exp();
        return early - second.exp();
      },
      a, b);
  EXPECT_THAT(backward_of(y), is_value_error());
}

TEST(IncumbentTest, SwappedCodeOfTheSameValuesPassesTheCheckOfValues) {
  const at::Tensor x = leaf();
  const at::Tensor y = checkpoint(
      {.name = "block", .determinism_check = DeterminismCheck::kValues},
      [](const at::Tensor& t) { return t.exp() - t.sin(); }, x);
  y.sum().backward();
  const at::Tensor same = leaf();
  (same.exp() - same.sin()).sum().backward();
  EXPECT_TRUE(bitwise_equal(x.grad(), same.grad()));
}

using Region = std::function<at::Tensor(const at::Tensor&)>;

template <class Optimizer, class Options>
void step_between_forward_and_backward(const std::optional<CheckpointOptions>& options,
                                       const Options& optimizer_options) {
  torch::nn::Linear layer(3, 3);
  Optimizer optimizer(layer->parameters(), optimizer_options);
  const at::Tensor x = at::ones({2, 3}).requires_grad_();
  const Region region = [&layer](const at::Tensor& t) { return layer->forward(t).tanh(); };
  const at::Tensor loss = (options ? checkpoint(*options, region, x) : region(x)).sum();
  loss.backward({}, /*retain_graph=*/true);
  optimizer.step();
  loss.backward();
}

TEST(IncumbentTest, ThrowsForOptimiserStepBetweenForwardAndBackward) {
  const auto run = [](const std::optional<CheckpointOptions>& options) {
    return [options] {
      step_between_forward_and_backward<torch::optim::Adam>(options,
                                                            torch::optim::AdamOptions(0.1));
    };
  };
  EXPECT_THAT(run(std::nullopt), is_plain_error());
  EXPECT_THAT(run(CheckpointOptions{.name = "block"}), is_mutation_error(kCaptured));
}

// torch::optim::SGD writes through Tensor::data(), which version counters do not see: LibTorch says
// nothing either.
TEST(IncumbentTest, UncountedWriteToAParameterIsFoundByTheCheckOfValues) {
  const auto run = [](const std::optional<CheckpointOptions>& options) {
    return [options] {
      step_between_forward_and_backward<torch::optim::SGD>(options, torch::optim::SGDOptions(0.1));
    };
  };
  EXPECT_NO_THROW(run(std::nullopt)());
  EXPECT_THAT(
      run(CheckpointOptions{.name = "block", .determinism_check = DeterminismCheck::kValues}),
      is_value_error());
}

TEST(IncumbentTest, ThrowsForCapturedTensorChangedInPlace) {
  const at::Tensor c = leaf(3.0).detach();
  const Region region = [c](const at::Tensor& t) { return t * c; };
  const at::Tensor plain = region(leaf());
  const at::Tensor y = checkpoint({.name = "block"}, region, leaf());
  change_in_place(c);
  EXPECT_THAT(backward_of(plain), is_plain_error());
  EXPECT_THAT(backward_of(y), is_mutation_error(kCaptured));
  EXPECT_THAT(backward_of(y), is_mutation_error("saved at version 0, now at version 1"));
}

TEST(IncumbentTest, ThrowsForViewOfACapturedTensorChangedInPlace) {
  const at::Tensor c = leaf(3.0).detach();
  const at::Tensor y = checkpoint(
      {.name = "block"}, [c](const at::Tensor& t) { return t.mm(c.t()); }, leaf());
  change_in_place(c[0]);
  EXPECT_THAT(backward_of(y), is_mutation_error(kCaptured));
}

TEST(IncumbentTest, ThrowsForArgumentChangedInPlace) {
  const at::Tensor c = leaf(3.0).detach();
  const at::Tensor y = checkpoint(
      {.name = "block"}, [](const at::Tensor& t, const at::Tensor& other) { return t * other; },
      leaf(), c);
  change_in_place(c);
  EXPECT_THAT(backward_of(y), is_mutation_error("input tensor 1 has been modified in place since"));
}

TEST(IncumbentTest, ThrowsForTensorInsideAListArgumentChangedInPlace) {
  const std::vector<at::Tensor> list{leaf(3.0).detach(), leaf(5.0).detach()};
  const at::Tensor y = checkpoint(
      {.name = "block"},
      [](const at::Tensor& t, const std::vector<at::Tensor>& all) { return t * all[0] * all[1]; },
      leaf(), list);
  change_in_place(list[1]);
  EXPECT_THAT(backward_of(y), is_mutation_error("input tensor 2 has been modified in place since"));
}

struct Keywords {
  int power = 2;
  at::Tensor scale;
};

TEST(IncumbentTest, ThrowsForTensorInAStructOfArgumentsChangedInPlace) {
  const Keywords keywords{.power = 3, .scale = leaf(3.0).detach()};
  const at::Tensor y = checkpoint(
      {.name = "block"},
      [](const at::Tensor& t, const Keywords& k) { return t.pow(k.power) * k.scale; }, leaf(),
      keywords);
  change_in_place(keywords.scale);
  EXPECT_THAT(backward_of(y), is_mutation_error("input tensor 1 has been modified in place since"));
}

// `c` is saved by nobody.
Region add_then_sin(const at::Tensor& c) {
  return [c](const at::Tensor& t) { return (t + c).sin(); };
}

TEST(IncumbentTest, ThrowsForCapturedTensorThatOnlySavedTensorsDependOnIfChanged) {
  const at::Tensor c = leaf(3.0).detach();
  const at::Tensor y = checkpoint({.name = "block"}, add_then_sin(c), leaf());
  change_in_place(c);
  EXPECT_THAT(backward_of(y), is_mutation_error("aten::add.Tensor reads a tensor from outside"));
}

TEST(IncumbentTest, ThrowsForThatTensorAsAnArgument) {
  const at::Tensor c = leaf(3.0).detach();
  const at::Tensor y = checkpoint(
      {.name = "block"},
      [](const at::Tensor& t, const at::Tensor& other) { return (t + other).sin(); }, leaf(), c);
  change_in_place(c);
  EXPECT_THAT(backward_of(y), is_mutation_error("input tensor 1 has been modified in place since"));
}

TEST(IncumbentTest, AllowsCapturedTensorThatNothingDependsOnToBeChanged) {
  const at::Tensor c = leaf(3.0).detach();
  const at::Tensor x = leaf();
  const at::Tensor y = checkpoint(
      {.determinism_check = DeterminismCheck::kValues}, [c](const at::Tensor& t) { return t + c; },
      x);
  change_in_place(c);
  y.sum().backward();
  EXPECT_TRUE(bitwise_equal(x.grad(), at::ones_like(x.detach())));
}

TEST(IncumbentTest, AfterTheErrorTheNextStepIsRight) {
  const at::Tensor c = leaf(3.0).detach();
  const at::Tensor x = leaf();
  const Region region = [c](const at::Tensor& t) { return (t * c).exp(); };
  const at::Tensor spoilt = checkpoint({.name = "block"}, region, x);
  change_in_place(c);
  EXPECT_THAT(backward_of(spoilt), is_mutation_error(kCaptured));
  EXPECT_FALSE(x.grad().defined());
  EXPECT_FALSE(is_recomputing());
  checkpoint({.name = "block"}, region, x).sum().backward();
  const at::Tensor same = leaf();
  region(same).sum().backward();
  EXPECT_TRUE(bitwise_equal(x.grad(), same.grad()));
}

}  // namespace
}  // namespace reprise::incumbent_mutation_test
