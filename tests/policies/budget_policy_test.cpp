// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/policies/budget_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <stdexcept>

#include "reprise/policies/policies.h"
#include "tests/policies/operator_call.h"

namespace reprise::testing::budget_policy_test {
namespace {

using enum CheckpointPolicy;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::shared_ptr<BudgetPolicy> policy_of_bytes(std::int64_t bytes) {
  return std::make_shared<BudgetPolicy>(BudgetPolicyOptions{.saved_bytes = bytes});
}

std::shared_ptr<BudgetPolicy> policy_of_fraction(double fraction) {
  return std::make_shared<BudgetPolicy>(BudgetPolicyOptions{.saved_fraction = fraction});
}

std::string refusal(const BudgetPolicyOptions& options) {
  return message_of<std::invalid_argument>([&] { BudgetPolicy{options}; });
}

TEST(BudgetPolicyTest, RefusesOptionsOtherThanOneBudget) {
  EXPECT_EQ(refusal({}),
            "[policies.BudgetPolicy] exactly one budget is needed; received neither saved_bytes "
            "nor saved_fraction; set one of them");
  EXPECT_EQ(refusal({.saved_bytes = 1, .saved_fraction = 0.5}),
            "[policies.BudgetPolicy] exactly one budget is needed; received both saved_bytes and "
            "saved_fraction; set one of them");
  EXPECT_EQ(refusal({.saved_bytes = -1}),
            "[policies.BudgetPolicy] saved_bytes must not be negative; received -1; 0 saves "
            "nothing");
  EXPECT_THAT(refusal({.saved_fraction = -0.5}),
              HasSubstr("from 0 to 1; received -0.5; 0.3 saves"));
  EXPECT_THAT(refusal({.saved_fraction = 1.5}), HasSubstr("from 0 to 1; received 1.5"));
  EXPECT_THAT(refusal({.saved_fraction = std::numeric_limits<double>::quiet_NaN()}),
              HasSubstr("from 0 to 1; received nan"));
}

TEST(BudgetPolicyTest, RefusesQuestionsOutsideOfARun) {
  const auto policy = policy_of_bytes(1);
  EXPECT_THAT(message_of<std::logic_error>([&] { ask(policy, mm_call()); }),
              HasSubstr("ask the one that its begin_region() returns for each run"));
}

OperatorCall exp_of(const at::Tensor& x) { return {"aten::exp", "", {x}}; }

// So many results of 64 bytes, each of which autograd saves.
std::vector<OperatorCall> exponentials(std::size_t count, std::int64_t numel = 16) {
  std::vector<OperatorCall> calls;
  for (std::size_t i = 0; i < count; ++i) {
    calls.push_back(exp_of(at::zeros({numel})));
  }
  return calls;
}

std::int64_t saved_of(const std::vector<PolicyAnswer>& answers) {
  return std::count(answers.begin(), answers.end(), PolicyAnswer(PREFER_SAVE));
}

TEST(BudgetPolicyTest, ObservesFirstAndFollowsAPlanThen) {
  const auto policy = policy_of_fraction(1);
  const std::vector<OperatorCall> calls = exponentials(3);
  EXPECT_THAT(ask_in_region(policy, calls), Each(PREFER_RECOMPUTE));
  for (int run = 0; run < 3; ++run) {
    EXPECT_THAT(ask_in_region(policy, calls), Each(PREFER_SAVE));
  }
  ASSERT_THAT(policy->known_runs(), SizeIs(1));
  EXPECT_EQ(policy->known_runs()[0].runs, 4);
}

TEST(BudgetPolicyTest, SavesNoMoreThanItsBytes) {
  for (const std::int64_t results : {0, 1, 2, 5}) {
    const auto policy = policy_of_bytes(64 * results + 63);
    ask_in_region(policy, exponentials(4));
    EXPECT_EQ(saved_of(ask_in_region(policy, exponentials(4))), std::min<std::int64_t>(results, 4));
  }
}

TEST(BudgetPolicyTest, KnowsRunsOfSeveralShapesAndBranches) {
  const auto policy = policy_of_bytes(128);
  std::vector<OperatorCall> branch = exponentials(2);
  branch.push_back(relu_call());
  branch.push_back(exp_of(at::zeros({4})));
  const std::vector<std::vector<OperatorCall>> runs = {exponentials(4), exponentials(4, 32), branch,
                                                       exponentials(2)};
  for (const auto& calls : runs) {
    ask_in_region(policy, calls);
  }
  for (const auto& calls : runs) {
    EXPECT_GT(saved_of(ask_in_region(policy, calls)), 0);
  }
  EXPECT_THAT(policy->known_runs(), SizeIs(4));
}

// The prefix of a known run, whose plan saves within the budget, and unknown operators.
TEST(BudgetPolicyTest, RecomputesTheRestOfAnUnknownRun) {
  const auto policy = policy_of_fraction(1);
  ask_in_region(policy, exponentials(3));
  std::vector<OperatorCall> calls = exponentials(2);
  calls.push_back(exp_of(at::zeros({17})));
  calls.push_back(exp_of(at::zeros({16})));
  EXPECT_THAT(ask_in_region(policy, calls),
              ElementsAre(PREFER_SAVE, PREFER_SAVE, PREFER_RECOMPUTE, PREFER_RECOMPUTE));
  EXPECT_THAT(ask_in_region(policy, calls), Each(PREFER_SAVE));
}

TEST(BudgetPolicyTest, StaysWithinItsBytesAsPlansChangeDuringARun) {
  const auto policy = policy_of_bytes(128);
  std::vector<OperatorCall> other = exponentials(4);
  for (OperatorCall& call : exponentials(4, 8)) {
    other.push_back(std::move(call));
  }
  ask_in_region(policy, other);
  ask_in_region(policy, exponentials(4));
  for (int run = 0; run < 3; ++run) {
    for (const auto& calls : {other, exponentials(4)}) {
      std::int64_t bytes = 0;
      const std::vector<PolicyAnswer> answers = ask_in_region(policy, calls);
      for (std::size_t i = 0; i < answers.size(); ++i) {
        bytes += answers[i] == PREFER_SAVE ? (i < 4 ? 64 : 32) : 0;
      }
      EXPECT_LE(bytes, 128);
    }
  }
}

TEST(BudgetPolicyTest, TellsRegionsApartByName) {
  const auto policy = policy_of_fraction(1);
  ask_in_region(policy, exponentials(2), {.region = "a"});
  EXPECT_THAT(ask_in_region(policy, exponentials(2), {.region = "b"}), Each(PREFER_RECOMPUTE));
  EXPECT_THAT(ask_in_region(policy, exponentials(2), {.region = "a"}), Each(PREFER_SAVE));
  EXPECT_THAT(policy->known_runs(),
              ElementsAre(AllOf(Field(&BudgetedRun::region, "a"), Field(&BudgetedRun::runs, 2)),
                          AllOf(Field(&BudgetedRun::region, "b"), Field(&BudgetedRun::runs, 1))));
}

TEST(BudgetPolicyTest, CountsRegionsWithoutANameAsOne) {
  const auto policy = policy_of_fraction(1);
  ask_in_region(policy, exponentials(2), {.region = "region #7"});
  EXPECT_THAT(ask_in_region(policy, exponentials(2), {.region = "region #12"}), Each(PREFER_SAVE));
  EXPECT_THAT(ask_in_region(policy, exponentials(2), {.region = "region #12b"}),
              Each(PREFER_RECOMPUTE));
  EXPECT_EQ(policy->known_runs().at(0).region, "");
}

TEST(BudgetPolicyTest, ForgetsTheLeastUsedOfManyRuns) {
  const auto policy = policy_of_fraction(1);
  const auto run = [&](std::int64_t numel) {
    return ask_in_region(policy, exponentials(1, numel), {.region = "block"});
  };
  for (std::int64_t numel = 1; numel <= 17; ++numel) {
    run(numel);
    run(1);
  }
  EXPECT_THAT(policy->known_runs(), SizeIs(16));
  EXPECT_THAT(run(1), Each(PREFER_SAVE));
  EXPECT_THAT(run(2), Each(PREFER_RECOMPUTE));
  EXPECT_THAT(run(17), Each(PREFER_SAVE));
}

TEST(BudgetPolicyTest, ForgetsTheLeastUsedOfManyRegions) {
  const auto policy = policy_of_fraction(1);
  const std::vector<OperatorCall> calls = exponentials(1);
  for (int region = 0; region < 300; ++region) {
    ask_in_region(policy, calls, {.region = "step " + std::to_string(region)});
  }
  EXPECT_THAT(policy->known_runs(), SizeIs(256));
  EXPECT_THAT(ask_in_region(policy, calls, {.region = "step 43"}), Each(PREFER_RECOMPUTE));
  EXPECT_THAT(ask_in_region(policy, calls, {.region = "step 299"}), Each(PREFER_SAVE));
}

TEST(BudgetPolicyTest, LearnsNothingFromARunThatAnExceptionEnds) {
  const auto policy = policy_of_fraction(1);
  EXPECT_THROW(
      {
        const auto run = policy->begin_region();
        run->decide(mm_call().context());
        throw std::runtime_error("the region's code");
      },
      std::runtime_error);
  EXPECT_THAT(policy->known_runs(), IsEmpty());
}

TEST(BudgetPolicyTest, HasNoOpinionOnNames) {
  const auto policy = policy_of_fraction(1);
  for (int run = 0; run < 2; ++run) {
    EXPECT_THAT(ask_in_region(policy, exponentials(1), {.name = "q"}), Each(PREFER_RECOMPUTE));
  }
  EXPECT_THAT(policy->known_runs(), IsEmpty());
}

TEST(BudgetPolicyTest, CountsAResultOnceHoweverOftenItIsWritten) {
  const auto policy = policy_of_bytes(64);
  const OperatorCall made = exp_of(at::zeros({16}));
  const at::Tensor result = made.outputs()[0].toTensor();
  const std::vector<OperatorCall> calls = {
      made, {"aten::relu_", "", {result}}, {"aten::sigmoid_", "", {result.view({4, 4})}}};
  ask_in_region(policy, calls);
  EXPECT_THAT(ask_in_region(policy, calls),
              ElementsAre(PREFER_RECOMPUTE, PREFER_RECOMPUTE, PREFER_SAVE));
  EXPECT_EQ(policy->known_runs().at(0).result_bytes, 64);
}

TEST(BudgetPolicyTest, CombinesWithOtherPolicies) {
  const auto budget = policy_of_fraction(1);
  const PolicyHolder policy = policies::offload(
      policies::for_region("block", policies::first_match({policies::save_matmuls(), budget}),
                           policies::save_nothing()));
  std::vector<OperatorCall> calls = exponentials(1);
  calls.push_back(mm_call());
  EXPECT_THAT(ask_in_region(policy, calls, {.region = "block"}),
              ElementsAre(PREFER_RECOMPUTE, PREFER_CPU_OFFLOAD));
  EXPECT_THAT(ask_in_region(policy, calls, {.region = "block"}), Each(PREFER_CPU_OFFLOAD));
  EXPECT_THAT(ask_in_region(policy, calls, {.region = "head"}), Each(PREFER_RECOMPUTE));
  EXPECT_THAT(budget->known_runs(), ElementsAre(Field(&BudgetedRun::operators, 1)));
}

TEST(BudgetPolicyTest, ExplainsEachKnownRun) {
  const auto policy = policy_of_bytes(1 << 20);
  EXPECT_EQ(policy->explain(), "");
  const std::vector<OperatorCall> calls = exponentials(2, 1 << 18);
  ask_in_region(policy, calls, {.region = "block"});
  ask_in_region(policy, calls, {.region = "block"});
  EXPECT_THAT(policy->explain(),
              HasSubstr("region 'block', 2 runs: 2 operators, results 2.00 MiB, worth saving 2.00 "
                        "MiB, budget 1.00 MiB; saves 1.00 MiB and spares "));
  ask_in_region(policy, exponentials(1), {.region = "region #3"});
  EXPECT_THAT(policy->explain(), HasSubstr("\nregions without a name, 1 runs: 1 operators"));
}

}  // namespace
}  // namespace reprise::testing::budget_policy_test
