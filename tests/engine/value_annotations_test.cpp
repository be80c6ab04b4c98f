// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// must_save(), must_recompute() and checkpoint_name() in a region's code, policies of nested
// regions, and PolicyBypassGuard.
#include "reprise/engine/value_annotations.h"
#include "reprise/engine/errors.h"
#include "reprise/engine/policy_bypass.h"
#include "reprise/policies/policies.h"
#include "tests/conformance/conformance_fixture.h"
#include "tests/testing/kernel_counter.h"

namespace reprise::testing::value_annotations_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

PolicyHolder answering(CheckpointPolicy answer) {
  return [answer](const PolicyContext&) { return answer; };
}

class PinningTest : public ConformanceTest {
 protected:
  // Kernels called `op` that a backward through `code` as a region runs; the gradient is checked.
  template <class Code>
  std::size_t kernels_in_backward(const std::string& op, const CheckpointOptions& options,
                                  Code code) {
    const at::Tensor x = leaf({4, 4});
    torch::manual_seed(8);
    const Tensors expected = gradients(code(x), {x});
    torch::manual_seed(8);
    const at::Tensor y = checkpoint(options, code, x);
    const KernelCounter kernels;
    expect_same_bits(gradients(y, {x}), expected);
    return kernels.count(op);
  }
};

TEST_F(PinningTest, SaveKeepsAValueWhateverThePolicySays) {
  for (const auto answer : {CheckpointPolicy::PREFER_RECOMPUTE, CheckpointPolicy::MUST_RECOMPUTE,
                            CheckpointPolicy::PREFER_SAVE, CheckpointPolicy::MUST_CPU_OFFLOAD}) {
    EXPECT_EQ(
        kernels_in_backward("aten::sin", {.policy = answering(answer)},
                            [](const at::Tensor& t) { return must_save(t.sin()).exp().tanh(); }),
        0U);
  }
}

TEST_F(PinningTest, RecomputeDropsAValueWhateverThePolicySays) {
  for (const auto answer : {CheckpointPolicy::PREFER_SAVE, CheckpointPolicy::MUST_SAVE,
                            CheckpointPolicy::MUST_RECOMPUTE}) {
    EXPECT_EQ(kernels_in_backward(
                  "aten::sin", {.policy = answering(answer)},
                  [](const at::Tensor& t) { return must_recompute(t.sin()).square().exp(); }),
              1U);
  }
}

TEST_F(PinningTest, RepeatsNoChoiceOfARouter) {
  at::Tensor noise = torch::eye(4)[1].clone();
  const auto code = [&noise](const at::Tensor& t) {
    const at::Tensor chosen = must_save(std::get<1>((t.detach().sum(0) * 0 + noise).topk(1)));
    return t.index_select(1, chosen).square().exp();
  };
  const at::Tensor x = leaf({4, 4});
  const Tensors expected = gradients(code(x), {x});
  const at::Tensor y =
      checkpoint({.policy = policies::save_nothing(), .allow_external_mutation = true}, code, x);
  noise = torch::eye(4)[2].clone();
  expect_same_bits(gradients(y, {x}), expected);
}

TEST_F(PinningTest, BothResultsOfAnOperatorMayBeSaved) {
  EXPECT_EQ(kernels_in_backward("aten::topk", {.policy = policies::save_nothing()},
                                [](const at::Tensor& t) {
                                  auto [values, indices] = t.sin().topk(2);
                                  must_save(values);
                                  must_save(indices);
                                  return values.exp() * indices;
                                }),
            0U);
  EXPECT_EQ(kernels_in_backward("aten::topk", {.policy = policies::save_nothing()},
                                [](const at::Tensor& t) {
                                  auto [values, indices] = t.sin().topk(2);
                                  must_save(indices);
                                  return values.exp() * indices;
                                }),
            1U);
}

TEST_F(PinningTest, TreatsAViewAsTheWhole) {
  EXPECT_EQ(kernels_in_backward("aten::sin", {.policy = policies::save_nothing()},
                                [](const at::Tensor& t) {
                                  const at::Tensor whole = t.sin();
                                  must_save(whole.t().narrow(0, 1, 2));
                                  return whole.exp().tanh();
                                }),
            0U);
}

TEST_F(PinningTest, ValueIsKeptAsItIsAtTheCall) {
  EXPECT_EQ(kernels_in_backward("aten::mul_", {.policy = policies::save_nothing()},
                                [](const at::Tensor& t) {
                                  at::Tensor s = t.sin();
                                  s.mul_(2);
                                  must_save(s);
                                  return s.exp().tanh();
                                }),
            0U);
}

TEST_F(PinningTest, ValueIsKeptAsItIsThoughItWasReadBeforeAWrite) {
  const auto code = [](const at::Tensor& t) {
    at::Tensor s = t.sin();
    const at::Tensor before = s + 1;
    s.mul_(2);
    must_save(s);
    return (before * s).exp();
  };
  EXPECT_EQ(kernels_in_backward("aten::mul_", {.policy = policies::save_nothing()}, code), 0U);
  EXPECT_EQ(kernels_in_backward("aten::sin", {.policy = policies::save_nothing()}, code), 1U);
}

TEST_F(PinningTest, SaveAndRecomputeOfOneValueContradictEachOther) {
  const at::Tensor x = leaf({4});
  const auto code = [](const at::Tensor& t) { return must_recompute(must_save(t.sin())).exp(); };
  EXPECT_THAT([&] { checkpoint({.name = "block", .policy = policies::save_nothing()}, code, x); },
              ThrowsMessage<CheckpointError>(HasSubstr(
                  "region 'block': must_save() and must_recompute() are both called for one value, "
                  "a result of aten::sin")));
}

TEST_F(PinningTest, RegionWithoutAPolicyCannotSave) {
  const at::Tensor x = leaf({4});
  EXPECT_THAT(
      [&] {
        checkpoint(
            {.name = "block"}, [](const at::Tensor& t) { return must_save(t.sin()).exp(); }, x);
      },
      ThrowsMessage<CheckpointError>(
          HasSubstr("'block': must_save() has been called, but the region "
                    "has no policy")));
}

TEST_F(PinningTest, HasNoEffectOutsideOfRegionsAndOnInputs) {
  const at::Tensor x = leaf({4});
  EXPECT_TRUE(must_save(x).is_same(x));
  EXPECT_TRUE(must_recompute(x).is_same(x));
  EXPECT_TRUE(checkpoint_name(x, "x").is_same(x));
  const at::Tensor y = checkpoint(
      {.policy = policies::save_nothing()},
      [](const at::Tensor& t) { return checkpoint_name(must_save(t), "x").sin().exp(); }, x);
  expect_same_bits(gradients(y, {x}), gradients(x.sin().exp(), {x}));
}

TEST_F(PinningTest, DistinguishesMatmulsByName) {
  const auto code = [](const at::Tensor& t) {
    const at::Tensor q = checkpoint_name(t.mm(t).tanh(), "q_proj");
    const at::Tensor k = checkpoint_name(t.mm(t.t()).sigmoid(), "k_proj");
    return q.mm(k).exp();
  };
  for (const std::string which : {"q_proj", "k_proj"}) {
    const CheckpointOptions options{.policy = policies::save_named({which})};
    EXPECT_EQ(kernels_in_backward("aten::tanh", options, code), which == "q_proj" ? 0U : 1U);
    EXPECT_EQ(kernels_in_backward("aten::sigmoid", options, code), which == "k_proj" ? 0U : 1U);
  }
}

class NestedPoliciesTest : public PinningTest {
 protected:
  static auto nested(PolicyHolder inner) {
    return [inner = std::move(inner)](const at::Tensor& t) {
      return checkpoint(
                 {.name = "inner", .policy = inner},
                 [](const at::Tensor& s) { return s.sin().exp().tanh(); }, t.cos())
          .square();
    };
  }
};

TEST_F(NestedPoliciesTest, BetweenTwoPreferencesTheInnerOneCounts) {
  EXPECT_EQ(kernels_in_backward("aten::exp", {.policy = answering(CheckpointPolicy::PREFER_SAVE)},
                                nested(answering(CheckpointPolicy::PREFER_RECOMPUTE))),
            2U);  // for each region's replay
  EXPECT_EQ(
      kernels_in_backward("aten::exp", {.policy = answering(CheckpointPolicy::PREFER_RECOMPUTE)},
                          nested(answering(CheckpointPolicy::PREFER_SAVE))),
      0U);
}

TEST_F(NestedPoliciesTest, MustBeatsAPreference) {
  EXPECT_EQ(kernels_in_backward("aten::exp", {.policy = answering(CheckpointPolicy::MUST_SAVE)},
                                nested(answering(CheckpointPolicy::PREFER_RECOMPUTE))),
            0U);
  EXPECT_EQ(kernels_in_backward("aten::exp", {.policy = answering(CheckpointPolicy::PREFER_SAVE)},
                                nested(answering(CheckpointPolicy::MUST_RECOMPUTE))),
            2U);
}

TEST_F(NestedPoliciesTest, ContradictingMustsAreAnErrorThatNamesBoth) {
  const at::Tensor x = leaf({4, 4});
  EXPECT_THAT(
      [&] {
        checkpoint({.name = "outer",
                    .policy =
                        [](const PolicyContext& context) {
                          return context.op() == "aten::exp" ? CheckpointPolicy::MUST_SAVE
                                                             : CheckpointPolicy::PREFER_SAVE;
                        }},
                   nested(answering(CheckpointPolicy::MUST_RECOMPUTE)), x);
      },
      ThrowsMessage<CheckpointError>(
          HasSubstr("the policies of nested regions contradict each other on operator aten::exp: "
                    "MUST_RECOMPUTE of region 'inner', MUST_SAVE of region 'outer'")));
}

TEST_F(PinningTest, BypassHidesCodeThatRunsDifferentlyOften) {
  std::vector<std::string> asked;
  const PolicyHolder policy = [&asked](const PolicyContext& context) {
    asked.emplace_back(context.op());
    return CheckpointPolicy::MUST_SAVE;
  };
  const at::Tensor x = leaf({4});
  const at::Tensor y = checkpoint(
      {.policy = policy},
      [](const at::Tensor& t) {
        const at::Tensor s = t.sin();
        at::Tensor scale;
        {
          const PolicyBypassGuard hidden;
          scale = at::full({4}, 2.0);
          if (is_recomputing()) {
            scale = scale.mul(1).add_(1).sub_(1);
          }
        }
        return (s * scale).exp();
      },
      x);
  EXPECT_THAT(asked, ::testing::ElementsAre("aten::sin", "aten::mul", "aten::exp"));
  expect_same_bits(gradients(y, {x}), gradients((x.sin() * 2).exp(), {x}));
}

TEST_F(PinningTest, ThrowsForBypassThatReadsMoreInTheRecomputation) {
  const at::Tensor x = leaf({4});
  const at::Tensor y = checkpoint(
      {.name = "block", .policy = policies::save_everything()},
      [](const at::Tensor& t) {
        const at::Tensor s = t.sin();  // no slot, and no operator that is run again, needs it
        at::Tensor scale = at::full({4}, 2.0);
        if (is_recomputing()) {
          const PolicyBypassGuard hidden;
          scale = scale + s.detach();
        }
        return (s * scale).exp();
      },
      x);
  EXPECT_THAT([&] { gradients(y, {x}); },
              ThrowsMessage<DeterminismError>(
                  AllOf(HasSubstr("region 'block': code that is hidden from the policy reads, by "
                                  "aten::add.Tensor, a result of the region"),
                        HasSubstr("in the recomputation only"))));
}

}  // namespace
}  // namespace reprise::testing::value_annotations_test
