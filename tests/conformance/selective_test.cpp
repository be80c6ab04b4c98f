// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Conformance rows 66 to 94, selective checkpointing.
#include <ATen/autocast_mode.h>

#include <string_view>
#include <tuple>
#include <type_traits>

#include "reprise/hooks/saved_tensor_hooks.h"
#include "reprise/policies/policies.h"
#include "tests/conformance/conformance_fixture.h"
#include "tests/testing/kernel_counter.h"

namespace reprise::testing::selective_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr auto kSave = CheckpointPolicy::MUST_SAVE;
constexpr auto kRecompute = CheckpointPolicy::PREFER_RECOMPUTE;

// Saves the results of the operators called so.
PolicyHolder saving(std::vector<std::string> ops) {
  return [ops = std::move(ops)](const PolicyContext& context) {
    return std::find(ops.begin(), ops.end(), context.op()) != ops.end() ? kSave : kRecompute;
  };
}

PolicyHolder saving_all() {
  return [](const PolicyContext&) { return CheckpointPolicy::PREFER_SAVE; };
}

class CheckpointSelectiveTest : public ConformanceTest {
 protected:
  // Bytes that live between forward and backward, and the matmuls that backward runs.
  struct Cost {
    std::int64_t bytes;
    std::size_t matmuls;
    friend bool operator==(const Cost&, const Cost&) = default;
  };

  static at::Tensor multiply(const at::Tensor& x, const at::Tensor& y) {
    return torch::mm(x.cos(), y).sin().sum();
  }

  template <class Forward>
  Cost cost_of(Forward forward) {
    const at::Tensor x = leaf({512, 512});
    const at::Tensor y = leaf({512, 512});
    const std::int64_t before = live_cpu_bytes();
    const at::Tensor out = forward(x, y);
    Cost cost{live_cpu_bytes() - before - 4, 0};  // without the sum itself
    const KernelCounter kernels;
    out.backward();
    cost.matmuls = kernels.count("aten::mm");
    return cost;
  }

  Cost cost_of_policy(const PolicyHolder& policy) {
    return cost_of([&](const at::Tensor& x, const at::Tensor& y) {
      return checkpoint({.policy = policy}, multiply, x, y);
    });
  }
};

constexpr std::int64_t kMatrix = 512 * 512 * 4;

TEST_F(CheckpointSelectiveTest, C066_WithoutARegionTwoMatricesAreKept) {
  EXPECT_EQ(cost_of(multiply), (Cost{2 * kMatrix, 2}));
}

TEST_F(CheckpointSelectiveTest, C067_KeepsNoMatrixInARegionAndRepeatsAMatmul) {
  EXPECT_EQ(
      cost_of([](const at::Tensor& x, const at::Tensor& y) { return checkpoint(multiply, x, y); }),
      (Cost{0, 3}));
}

TEST_F(CheckpointSelectiveTest, C068_ListOfOperatorsKeepsTheirResults) {
  EXPECT_EQ(cost_of_policy(policies::save_operators({"aten::mm"})), (Cost{kMatrix, 2}));
}

TEST_F(CheckpointSelectiveTest, C069_DeterminesAFunctionAsWell) {
  EXPECT_EQ(cost_of_policy(saving({"aten::mm"})), (Cost{kMatrix, 2}));
}

TEST_F(CheckpointSelectiveTest, C070_AcceptsAPredicate) {
  EXPECT_EQ(cost_of_policy([](const PolicyContext& c) { return c.op() == "aten::mm"; }),
            (Cost{kMatrix, 2}));
}

TEST_F(CheckpointSelectiveTest, C072_DetachAndQueriesAreNotOffered) {
  std::vector<std::string> asked;
  const PolicyHolder policy = [&asked](const PolicyContext& context) {
    asked.emplace_back(context.op());
    return kSave;
  };
  const at::Tensor x = leaf({4});
  const at::Tensor y = checkpoint(
      {.policy = policy},
      [](const at::Tensor& t) {
        const at::Tensor constant = t.detach();
        return t.is_contiguous() && constant.numel() == 4 ? (t.sin() * constant.view({4})).exp()
                                                          : t;
      },
      x);
  EXPECT_THAT(asked, ElementsAre("aten::sin", "aten::mul", "aten::exp"));
  const at::Tensor same = (x.sin() * x.detach()).exp();
  expect_same_bits(gradients(y, {x}), gradients(same, {x}));
}

TEST_F(CheckpointSelectiveTest, C073_RefusesNameThatIsNoOperator) {
  EXPECT_THAT([] { std::ignore = policies::save_operators({"aten::mmm"}); },
              ThrowsMessage<std::invalid_argument>(
                  HasSubstr("there is no such operator; received 'aten::mmm'")));
}

TEST_F(CheckpointSelectiveTest, C074_RefusesNameThatLeavesAChoiceOfOverloads) {
  EXPECT_THAT([] { std::ignore = policies::save_operators({"aten::add"}); },
              ThrowsMessage<std::invalid_argument>(
                  AllOf(HasSubstr("several overloads"), HasSubstr("aten::add.Tensor"))));
}

TEST_F(CheckpointSelectiveTest, C075_DoesNotCompileForOtherTypes) {
  static_assert(!std::is_constructible_v<PolicyHolder, int>);
  static_assert(!std::is_constructible_v<PolicyHolder, std::vector<std::string>>);
  static_assert(!std::is_constructible_v<PolicyHolder, int (*)(const PolicyContext&)>);
  EXPECT_THAT([&] { PolicyHolder(std::function<CheckpointPolicy(const PolicyContext&)>()); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("received an empty std::function")));
}

TEST_F(CheckpointSelectiveTest, C076_AsksAPolicyInForwardOnly) {
  std::vector<int> calls;
  const PolicyHolder policy = [&calls](const PolicyContext& context) {
    EXPECT_FALSE(is_recomputing());
    EXPECT_EQ(context.ordinal(), static_cast<std::int64_t>(calls.size()));
    calls.push_back(static_cast<int>(calls.size()) + 1);
    return kRecompute;
  };
  const at::Tensor x = leaf({4});
  const at::Tensor y = checkpoint(
      {.policy = policy}, [](const at::Tensor& t) { return t.sin().sin().sin(); }, x);
  gradients(y, {x});
  EXPECT_THAT(calls, ElementsAre(1, 2, 3));
}

TEST_F(CheckpointSelectiveTest, C077_KeptResultIsPartOfNoGraph) {
  const at::Tensor x = leaf({8});
  at::Tensor y = checkpoint(
      {.policy = saving_all()}, [](const at::Tensor& t) { return t.sin().exp().tanh(); }, x);
  watch(y);
  const std::size_t nodes = nodes_alive();
  y.detach_();  // releases the graph, and with it the kept results
  EXPECT_GT(nodes, 0U);
  EXPECT_EQ(nodes_alive(), 0U);
}

TEST_F(CheckpointSelectiveTest, C078_WithoutABackwardAKeptResultIsFreedAtOnce) {
  const at::Tensor x = leaf({512});
  const std::int64_t before = live_cpu_bytes();
  {
    const at::Tensor y = checkpoint(
        {.policy = saving({"aten::exp"})}, [](const at::Tensor& t) { return t.sin().exp().sin(); },
        x);
    EXPECT_EQ(live_cpu_bytes() - before, 2 * 512 * 4);  // the kept result, and y
  }
  EXPECT_EQ(live_cpu_bytes(), before);
}

at::Tensor sine_doubled_in_place(const at::Tensor& x) { return x.sin().mul_(2).cos().exp(); }

PolicyHolder must_run_the_write_again() {
  return [](const PolicyContext& context) {
    return context.op() == "aten::sin" ? kSave : CheckpointPolicy::MUST_RECOMPUTE;
  };
}

TEST_F(CheckpointSelectiveTest, C080_NamesKeptResultThatWasChangedInError) {
  const at::Tensor x = leaf({3});
  at::Tensor kept;
  const at::Tensor y = checkpoint(
      {.name = "block", .policy = must_run_the_write_again()},
      [&kept](const at::Tensor& t) {
        const at::Tensor sine = t.sin();
        kept = is_recomputing() ? kept : sine.detach();
        return sine.cos().exp();
      },
      x);
  kept.mul_(2);
  EXPECT_THAT(
      [&] { y.sum().backward(); },
      ThrowsMessage<MutationError>(AllOf(HasSubstr("region 'block'"), HasSubstr("has been mutated"),
                                         HasSubstr("operator 0, aten::sin, Float [3]"))));
}

// By the region itself, and the policy insists on both.
TEST_F(CheckpointSelectiveTest, C080a_KeptResultIsKeptAsItWasBeforeAWriteThatIsRunAgain) {
  const at::Tensor x = leaf({3});
  const Tensors expected = gradients(sine_doubled_in_place(x), {x});
  const at::Tensor y = checkpoint({.policy = must_run_the_write_again()}, sine_doubled_in_place, x);
  expect_same_bits(torch::autograd::grad({watch(y).sum()}, {x}, {}, /*retain_graph=*/true),
                   expected);
  expect_same_bits(gradients(y, {x}), expected);
}

TEST_F(CheckpointSelectiveTest, C081_MutationMayBeAllowedAndTheGradientIsRight) {
  const at::Tensor x = leaf({3});
  const at::Tensor y =
      checkpoint({.policy = must_run_the_write_again(), .allow_cache_entry_mutation = true},
                 sine_doubled_in_place, x);
  expect_same_bits(gradients(y, {x}), gradients(sine_doubled_in_place(x), {x}));
}

TEST_F(CheckpointSelectiveTest, C081a_OmittableWriteFollowsItsParent) {
  for (const auto& ops : {std::vector<std::string>{"aten::sin"},
                          {"aten::mul_"},
                          {"aten::sin", "aten::mul_"},
                          {"aten::cos"}}) {
    const at::Tensor x = leaf({3});
    const at::Tensor y = checkpoint({.policy = saving(ops)}, sine_doubled_in_place, x);
    expect_same_bits(gradients(y, {x}), gradients(sine_doubled_in_place(x), {x}));
  }
}

TEST_F(CheckpointSelectiveTest, C081b_KeptResultChangedOutsideIsFound) {
  for (const bool allow : {false, true}) {
    const at::Tensor x = leaf({3});
    at::Tensor sine;
    const at::Tensor y = checkpoint(
        {.policy = saving({"aten::sin"}), .allow_cache_entry_mutation = allow},
        [&sine](const at::Tensor& t) {
          const at::Tensor s = t.sin();
          if (!is_recomputing()) {
            sine = s.detach();
          }
          return s.cos();
        },
        x);
    sine.zero_();
    if (allow) {
      expect_same_bits(gradients(y, {x}), gradients(x.sin().cos(), {x}));
    } else {
      EXPECT_THAT([&] { y.sum().backward(); },
                  ThrowsMessage<MutationError>(HasSubstr("has been mutated")));
    }
  }
}

// Upstream: an error. Here kept results stay as long as somebody may ask for them.
TEST_F(CheckpointSelectiveTest, C084_BackwardMayBeRepeated) {
  const at::Tensor x = leaf({4, 4});
  const at::Tensor y = checkpoint(
      {.policy = saving({"aten::mm"})},
      [](const at::Tensor& t) { return t.sin().mm(t).exp().mm(t).sin(); }, x);
  const at::Tensor expected =
      torch::autograd::grad({x.sin().mm(x).exp().mm(x).sin().sum()}, {x})[0];
  for (const bool retain : {true, true, false}) {
    const KernelCounter kernels;
    const at::Tensor got = torch::autograd::grad({y.sum()}, {x}, {}, retain)[0];
    EXPECT_TRUE(bitwise_equal(got, expected));
    EXPECT_EQ(kernels.count("aten::mm"), 4U);  // in backward
  }
}

TEST_F(CheckpointSelectiveTest, C085_AnotherOperatorInTheReplayIsNamed) {
  const at::Tensor x = leaf({4});
  const auto code = [](const at::Tensor& t) {
    return is_recomputing() ? t.cos().exp() : t.sin().exp();
  };
  const at::Tensor y = checkpoint({.name = "block", .policy = saving({"aten::sin"})}, code, x);
  EXPECT_THAT([&] { y.sum().backward(); },
              ThrowsMessage<DeterminismError>(HasSubstr(
                  "region 'block': operator 0 of the recomputation is aten::cos; forward ran "
                  "aten::sin")));
}

TEST_F(CheckpointSelectiveTest, C086_NamesAFurtherOperatorInTheReplay) {
  const at::Tensor x = leaf({4});
  const auto code = [](const at::Tensor& t) {
    const at::Tensor y = t.sin();
    return is_recomputing() ? (y * 1).exp() : y.exp();
  };
  const at::Tensor y = checkpoint({.policy = saving({"aten::sin"})}, code, x);
  EXPECT_THAT(
      [&] { y.sum().backward(); },
      ThrowsMessage<DeterminismError>(HasSubstr("operator 1 of the recomputation is aten::mul")));
}

TEST_F(CheckpointSelectiveTest, C086a_TwoKeptResultsInAnotherOrderAreFound) {
  const at::Tensor x = leaf({4, 4});
  const auto code = [](const at::Tensor& t) {
    const bool swap = is_recomputing();
    const at::Tensor a = swap ? t.mm(t.t()) : t.t().mm(t);
    const at::Tensor b = swap ? t.t().mm(t) : t.mm(t.t());
    return (swap ? b : a).sin() * (swap ? a : b).cos();
  };
  const at::Tensor y = checkpoint(
      {.policy = saving({"aten::mm"}), .determinism_check = DeterminismCheck::kValues}, code, x);
  EXPECT_THAT([&] { y.sum().backward(); }, ThrowsMessage<DeterminismError>(HasSubstr(
                                               "have different contents than during the forward")));
}

TEST_F(CheckpointSelectiveTest, C087_ProfilerRangesDoNotCount) {
  const at::Tensor x = leaf({4});
  const at::Tensor y = checkpoint(
      {.policy = saving({"aten::exp"})},
      [](const at::Tensor& t) {
        const at::Tensor a = t.sin();
        if (is_recomputing()) {
          RECORD_USER_SCOPE("only in the replay");
          return a.detach().numel() == 4 ? a.exp().sin() : a;
        }
        return a.exp().sin();
      },
      x);
  expect_same_bits(gradients(y, {x}), gradients(x.sin().exp().sin(), {x}));
}

TEST_F(CheckpointSelectiveTest, C089_KeptResultsGoThroughTheSurroundingHooksIfAsked) {
  for (const bool respect : {false, true}) {
    std::vector<at::Tensor> packed;
    const at::Tensor x = leaf({4});
    at::Tensor y;
    {
      const SavedTensorHooksGuard hooks(
          [&packed](const at::Tensor& tensor) {
            packed.push_back(tensor.clone());
            return packed.size() - 1;
          },
          [&packed](std::size_t index) { return packed[index]; });
      y = checkpoint(
          {.policy = saving({"aten::exp"}), .respect_saved_tensors_hooks = respect},
          [](const at::Tensor& t) { return t.sin().exp().sin(); }, x);
    }
    const Tensors expected = gradients(x.sin().exp().sin(), {x});
    EXPECT_EQ(packed.size(), respect ? 2U : 1U);  // the input, and the kept result
    torch::autograd::grad({y.sum()}, {x}, {}, /*retain_graph=*/true);
    expect_same_bits(gradients(y, {x}), expected);
    if (respect) {
      EXPECT_TRUE(bitwise_equal(packed.back(), x.detach().sin().exp()));
    }
  }
}

struct Mlp {
  torch::nn::Linear first{8, 16};
  torch::nn::Linear second{16, 8};
  at::Tensor operator()(const at::Tensor& x) { return torch::relu(second(torch::relu(first(x)))); }
  std::vector<at::Tensor> parameters() {
    return {first->weight, first->bias, second->weight, second->bias};
  }
};

std::vector<PolicyHolder> usual_policies() {
  return {saving({"aten::mm", "aten::addmm", "aten::bmm"}),
          saving({}),
          saving({"aten::relu"}),
          saving_all(),
          policies::save_compute_intensive(),
          policies::every_nth_matmul(2),
          policies::offload(policies::save_matmuls())};
}

template <class Code>
Tensors with_autocast(bool enabled, Code&& code) {
  const bool before = at::autocast::is_autocast_enabled(at::kCPU);
  at::autocast::set_autocast_enabled(at::kCPU, enabled);
  at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
  at::autocast::increment_nesting();
  Tensors result = code();
  if (at::autocast::decrement_nesting() == 0) {
    at::autocast::clear_cache();
  }
  at::autocast::set_autocast_enabled(at::kCPU, before);
  return result;
}

TEST_F(CheckpointSelectiveTest, C090_TenBlocksAreAsWithoutRegions) {
  for (const bool autocast : {false, true}) {
    for (const bool input_grad : {false, true}) {
      torch::manual_seed(3);
      std::vector<Mlp> blocks(10);
      const at::Tensor x = torch::randn({4, 8}).requires_grad_(input_grad);
      const auto run = [&](const std::optional<PolicyHolder>& policy) {
        return with_autocast(autocast, [&] {
          at::Tensor h = x;
          Tensors wanted;
          for (Mlp& block : blocks) {
            h = policy ? checkpoint({.policy = *policy}, block, h) : block(h);
            for (const at::Tensor& parameter : block.parameters()) {
              wanted.push_back(parameter);
            }
          }
          if (input_grad) {
            wanted.push_back(x);
          }
          Tensors found = gradients(h.to(at::kFloat), wanted);
          found.push_back(h.detach());
          return found;
        });
      };
      const Tensors expected = run(std::nullopt);
      for (const PolicyHolder& policy : usual_policies()) {
        expect_same_bits(run(policy), expected);
      }
    }
  }
}

TEST_F(CheckpointSelectiveTest, C091_WithoutGradModeNothingIsKept) {
  Mlp block;
  const at::Tensor x = leaf({4, 8});
  const at::NoGradGuard no_grad;
  const at::Tensor expected = block(x);
  const std::int64_t bytes = live_cpu_bytes();
  const at::Tensor y = checkpoint({.policy = saving_all()}, block, x);
  EXPECT_TRUE(bitwise_equal(y, expected));
  EXPECT_EQ(live_cpu_bytes() - bytes, 4 * 8 * 4);
}

TEST_F(CheckpointSelectiveTest, C092_AttentionWithAResidualIsAsWithoutRegions) {
  for (const double dropout : {0.0, 0.3}) {
    const auto code = [dropout](const at::Tensor& t) {
      return at::scaled_dot_product_attention(t.sin(), t.cos(), t, {}, dropout) + t;
    };
    const at::Tensor x = leaf({2, 2, 4, 8});
    torch::manual_seed(5);
    const Tensors expected = gradients(code(x), {x});
    for (const PolicyHolder& policy : usual_policies()) {
      torch::manual_seed(5);
      expect_same_bits(gradients(checkpoint({.policy = policy}, code, x), {x}), expected);
    }
  }
}

TEST_F(CheckpointSelectiveTest, C093_OperatorsOfARegionAreThoseThatAutogradSees) {
  std::vector<std::string> asked;
  const PolicyHolder policy = [&asked](const PolicyContext& context) {
    asked.emplace_back(context.op());
    return kRecompute;
  };
  Mlp block;
  checkpoint({.policy = policy}, block, leaf({4, 8}));
  EXPECT_THAT(asked, ElementsAre("aten::addmm", "aten::relu", "aten::addmm", "aten::relu"));
}

}  // namespace
}  // namespace reprise::testing::selective_test
