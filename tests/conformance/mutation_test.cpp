// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Conformance row 40, and related cases: tensors that are changed in place between forward and
// replay.
#include <string>
#include <utility>
#include <vector>

#include "tests/conformance/conformance_fixture.h"

namespace reprise::testing::mutation_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

void change(const at::Tensor& tensor) {
  const torch::NoGradGuard no_grad;
  tensor.add_(1);
}

class CheckpointMutationTest : public ConformanceTest {
 protected:
  // Forward must have made `y`; the message of the MutationError that backward throws.
  std::string message_of(const at::Tensor& y, const Tensors& inputs) {
    std::string message;
    const std::int64_t bytes = live_cpu_bytes();
    try {
      gradients(y, inputs);
      ADD_FAILURE() << "no error";
    } catch (const MutationError& error) {
      message = error.what_without_backtrace();
    }
    EXPECT_EQ(live_cpu_bytes(), bytes);
    return message;
  }
};

at::Tensor relu_in_the_replay(at::Tensor x) {
  if (is_recomputing()) {
    const torch::NoGradGuard no_grad;
    x.relu_();
  }
  return x.exp().sin();
}

TEST_F(CheckpointMutationTest, C040_ThrowsForReplayThatChangesItsInputWithEveryCheck) {
  for (const DeterminismCheck check :
       {DeterminismCheck::kNone, DeterminismCheck::kMetadata, DeterminismCheck::kValues}) {
    for (const bool early_stop : {true, false}) {
      const at::Tensor x = leaf({2, 3});
      const at::Tensor input = x * 1;
      const at::Tensor y =
          checkpoint({.name = "block3", .early_stop = early_stop, .determinism_check = check},
                     relu_in_the_replay, input);
      try {
        gradients(y, {x});
        FAIL() << "no error";
      } catch (const CheckpointError& error) {
        EXPECT_THAT(error.what(), HasSubstr("region 'block3'"));
      }
    }
  }
}

TEST_F(CheckpointMutationTest, C040b_NamesChangedInputInError) {
  for (const DeterminismCheck check : {DeterminismCheck::kNone, DeterminismCheck::kMetadata}) {
    const at::Tensor a = leaf({2, 3});
    const at::Tensor b = leaf({3});
    const at::Tensor y = checkpoint(
        {.name = "block3", .determinism_check = check},
        [](const at::Tensor& p, const at::Tensor& q) { return (p + q).exp().sin(); }, a, b);
    change(b);
    EXPECT_THAT(
        message_of(y, {a, b}),
        AllOf(HasSubstr("region 'block3'"), HasSubstr("input tensor 1"),
              HasSubstr("modified in place"), HasSubstr("Float [3]"), HasSubstr("on cpu"),
              HasSubstr("at version 1, expected version 0"), HasSubstr("allow_external_mutation")));
  }
}

TEST_F(CheckpointMutationTest, C040c_NamesChangedElementOfAVectorInError) {
  const at::Tensor x = leaf({3});
  std::vector<at::Tensor> inputs = {x.exp(), x.sin(), x.cos()};
  const at::Tensor y = checkpoint(
      [](const std::vector<at::Tensor>& v) { return (v[0] + v[1] + v[2]).exp(); }, inputs);
  change(inputs[2]);
  EXPECT_THAT(message_of(y, {x}), AllOf(HasSubstr("input tensor 2"), HasSubstr("Float [3]")));
}

TEST_F(CheckpointMutationTest, C040d_ChangeThroughAViewCounts) {
  const at::Tensor x = leaf({2, 3});
  const at::Tensor input = x * 1;
  const at::Tensor y = checkpoint([](const at::Tensor& t) { return t.exp().sin(); }, input[0]);
  change(input);
  EXPECT_THAT(message_of(y, {x}), HasSubstr("input tensor 0"));
}

TEST_F(CheckpointMutationTest, C040e_NamesChangedCapturedTensorInError) {
  torch::nn::Linear linear(4, 4);
  const at::Tensor x = leaf({2, 4});
  const at::Tensor y = checkpoint(
      {.name = "block3"}, [linear](const at::Tensor& t) mutable { return linear(t.sin()).exp(); },
      x);
  change(linear->weight);
  EXPECT_THAT(message_of(y, {x, linear->weight}),
              AllOf(HasSubstr("region 'block3'"), HasSubstr("tensors from outside the region"),
                    HasSubstr("modified in place"), HasSubstr("Float [4, 4]"),
                    HasSubstr("saved at version 1, now at version 2")));
}

// No operator saves the captured tensor, so hooks never meet it.
TEST_F(CheckpointMutationTest, C040f_NamesChangedCapturedTensorThatNoOperatorSaves) {
  for (const DeterminismCheck check : {DeterminismCheck::kMetadata, DeterminismCheck::kValues}) {
    const at::Tensor bias = torch::randn({3});
    const at::Tensor x = leaf({2, 3});
    const at::Tensor y = checkpoint(
        {.name = "block3", .determinism_check = check},
        [bias](const at::Tensor& t) { return (t + bias).exp().sin(); }, x);
    const std::int64_t version = bias._version();
    change(bias);
    EXPECT_THAT(
        message_of(y, {x}),
        AllOf(HasSubstr("region 'block3'"),
              HasSubstr("aten::add.Tensor reads a tensor from outside the region, Float [3]"),
              HasSubstr("at version " + std::to_string(version + 1) +
                        ", forward read it at version " + std::to_string(version))));
  }
}

TEST_F(CheckpointMutationTest, C040g_MutationMayBeAllowed) {
  const auto code = [](const at::Tensor& p, const at::Tensor& q) { return (p * q).sin(); };
  const at::Tensor a = leaf({3});
  const at::Tensor b = leaf({3});
  const at::Tensor captured = leaf({3});
  const at::Tensor y = checkpoint(
      {.allow_external_mutation = true},
      [&](const at::Tensor& p, const at::Tensor& q) { return code(p, q * captured); }, a, b);
  change(b);
  change(captured);
  const Tensors expected = gradients(code(a, b * captured), {a, b, captured});  // of the new values
  expect_same_bits(gradients(y, {a, b, captured}), expected);
}

TEST_F(CheckpointMutationTest, C040h_AllowsChangesThatNoReplayCanSee) {
  const at::Tensor x = leaf({3});
  const at::Tensor input = x * 1;
  const at::Tensor y = checkpoint([](const at::Tensor& t) { return t * 2; }, input);
  change(input);
  EXPECT_TRUE(bitwise_equal(gradients(y, {x})[0], torch::full({3}, 2.0)));
}

TEST_F(CheckpointMutationTest, C040i_AllowsResultToBeChangedInPlace) {
  const at::Tensor x = leaf({3});
  const at::Tensor y = checkpoint([](const at::Tensor& t) { return t.sin().exp(); }, x);
  y.mul_(2);  // without the region an error: exp needs its result
  EXPECT_TRUE(bitwise_equal(gradients(y, {x})[0], gradients(x.sin().exp() * 2, {x})[0]));
}

TEST_F(CheckpointMutationTest, C040j_InPlaceOperatorInsideIsNoMutation) {
  expect_as_plain([&](auto run) -> Tensors {
    const at::Tensor x = leaf({3});
    const at::Tensor y =
        run([](const at::Tensor& t) { return t.sin().mul_(2).exp_().sin(); }, x.exp());
    return {y.detach(), gradients(y, {x})[0]};
  });
}

TEST_F(CheckpointMutationTest, C040k_ThrowsInBackwardForARegionThatChangesItsInput) {
  const at::Tensor x = leaf({3});
  const at::Tensor input = x * 1;
  const at::Tensor y = checkpoint([](at::Tensor t) { return t.mul_(2).exp().sin(); }, input);
  EXPECT_THAT(message_of(y, {x}), AllOf(HasSubstr("input tensor 0"), HasSubstr("in place")));
}

TEST_F(CheckpointMutationTest, C040l_WithoutGradModeTheCodeIsSimplyCalled) {
  const torch::NoGradGuard no_grad;  // gone before TearDown looks
  int runs = 0;
  int contexts = 0;
  const at::Tensor x = leaf({3});
  at::Tensor input = x * 1;
  const at::Tensor y = checkpoint(
      {.context_fn =
           [&contexts] {
             ++contexts;
             return RegionContexts{};
           }},
      [&runs](at::Tensor& t) {
        ++runs;
        EXPECT_FALSE(is_recomputing());
        return t.mul_(2).exp();
      },
      input);
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(contexts, 1);
  EXPECT_EQ(live_frames(), 0);
  EXPECT_FALSE(y.requires_grad());
  EXPECT_TRUE(bitwise_equal(input, x * 2));
  EXPECT_TRUE(bitwise_equal(y, (x * 2).exp()));
}

}  // namespace
}  // namespace reprise::testing::mutation_test
