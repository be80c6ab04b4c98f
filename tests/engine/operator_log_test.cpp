// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/report/operator_log.h"

#include <ATen/ThreadLocalState.h>
#include <ATen/record_function.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "reprise/hooks/seam/unseen_scope.h"
#include "tests/testing/op_recorder.h"

namespace reprise::engine_internal::operator_log_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::vector<std::string> names(const OperatorLog& log) {
  std::vector<std::string> result;
  for (const OperatorLog::Entry& entry : log.entries) {
    result.push_back(entry.op);
  }
  return result;
}

OperatorLog log_of(const std::vector<std::string>& operators) {
  OperatorLog log;
  for (const std::string& op : operators) {
    log.entries.push_back({op, "float[2] cpu", nullptr});
  }
  return log;
}

TEST(OperatorLogTest, ListsOperatorsWithTheirInputsAndStacks) {
  const at::Tensor x = torch::ones({2, 3});
  OperatorLog log;
  {
    const OperatorLogGuard guard(log);
    torch::cat({x, x}, 1).to(at::kDouble).sum(at::IntArrayRef({0, 1}), true);
  }
  ASSERT_THAT(names(log), ElementsAre("aten::cat", "aten::_to_copy", "aten::sum.dim_IntList"));
  EXPECT_EQ(log.entries[0].inputs, "[float[2, 3] cpu, float[2, 3] cpu], 1");
  EXPECT_THAT(log.entries[1].inputs, HasSubstr("float[2, 6] cpu"));
  EXPECT_EQ(log.entries[2].inputs, "double[2, 6] cpu, [0, 1], True, None");
  EXPECT_THAT(log.entries[2].backtrace->get(), HasSubstr("frame #"));
}

TEST(OperatorLogTest, ListsThePartsOfComposedOperatorsAndNothingInsideOthers) {
  const at::Tensor x = torch::ones({2, 3});
  const at::Tensor weight = torch::ones({4, 3});
  OperatorLog log;
  {
    const OperatorLogGuard guard(log);
    torch::linear(x, weight);
    x.std();
  }
  EXPECT_THAT(names(log), ElementsAre("aten::t", "aten::mm", "aten::std.correction"));
}

TEST(OperatorLogTest, NothingIsCollectedWithoutAGuard) {
  const at::Tensor x = torch::ones({2});
  OperatorLog log;
  { const OperatorLogGuard guard(log); }
  x.exp();
  EXPECT_THAT(log.entries, IsEmpty());
  EXPECT_FALSE(at::hasThreadLocalCallbacks());
}

TEST(OperatorLogTest, GuardEndsWhenTheBodyThrows) {
  const at::Tensor x = torch::ones({2, 3});
  OperatorLog log;
  const auto body = [&] {
    const OperatorLogGuard guard(log);
    x.exp();
    x.mm(x);  // shapes do not fit
  };
  EXPECT_THAT([&] { body(); },
              ::testing::ThrowsMessage<c10::Error>(HasSubstr("cannot be multiplied")));
  EXPECT_THAT(names(log), ElementsAre("aten::exp", "aten::mm"));
  EXPECT_FALSE(at::hasThreadLocalCallbacks());
  const OperatorLogGuard guard(log);
  x.sin();
  EXPECT_EQ(names(log).back(), "aten::sin");
}

TEST(OperatorLogTest, UnseenScopeHidesOperators) {
  const at::Tensor x = torch::ones({2});
  OperatorLog log;
  {
    const OperatorLogGuard guard(log);
    x.exp();
    {
      const hooks_internal::UnseenScope unseen;
      const hooks_internal::UnseenScope again;
      x.sin();
    }
    x.cos();
  }
  EXPECT_THAT(names(log), ElementsAre("aten::exp", "aten::cos"));
}

TEST(OperatorLogTest, NestedGuardsBothCollect) {
  const at::Tensor x = torch::ones({2});
  OperatorLog outer;
  OperatorLog inner;
  {
    const OperatorLogGuard outer_guard(outer);
    x.exp();
    {
      const OperatorLogGuard inner_guard(inner);
      x.sin();
    }
    x.cos();
  }
  EXPECT_THAT(names(outer), ElementsAre("aten::exp", "aten::sin", "aten::cos"));
  EXPECT_THAT(names(inner), ElementsAre("aten::sin"));
}

TEST(OperatorLogTest, GuardInsideAnUnseenScopeCollectsForItselfOnly) {
  const at::Tensor x = torch::ones({2});
  OperatorLog outer;
  OperatorLog inner;
  {
    const OperatorLogGuard outer_guard(outer);
    const hooks_internal::UnseenScope unseen;
    {
      const OperatorLogGuard inner_guard(inner);
      x.sin();
    }
    x.cos();
  }
  EXPECT_THAT(names(outer), IsEmpty());
  EXPECT_THAT(names(inner), ElementsAre("aten::sin"));
}

TEST(OperatorLogTest, CollectsFromThreadsThatRunWithTheSameLocalState) {
  const at::Tensor x = torch::ones({2});
  OperatorLog log;
  const auto run_on_thread = [&](const at::ThreadLocalState& state) {
    std::thread([&] {
      const at::ThreadLocalStateGuard inherited(state);
      x.exp();
    }).join();
  };
  std::unique_ptr<at::ThreadLocalState> late;
  {
    const OperatorLogGuard guard(log);
    late = std::make_unique<at::ThreadLocalState>();
    run_on_thread(*late);
    std::thread([&] { x.cos(); }).join();
  }
  EXPECT_THAT(names(log), ElementsAre("aten::exp"));
  run_on_thread(*late);  // the guard is gone, its thread-local state is not
  EXPECT_EQ(log.entries.size(), 1U);
}

TEST(OperatorLogTest, CollectsTheOperatorsOfABackward) {
  const at::Tensor x = torch::ones({2}, torch::requires_grad());
  const at::Tensor y = x.exp();
  OperatorLog log;
  {
    const OperatorLogGuard guard(log);
    y.backward(torch::ones({2}));
  }
  EXPECT_THAT(names(log), ::testing::Contains("aten::mul.Tensor"));
}

TEST(OperatorLogTest, WorksBesideOtherCallbacks) {
  const at::Tensor x = torch::ones({2});
  const reprise::testing::OpRecorder recorder;
  OperatorLog log;
  {
    const OperatorLogGuard guard(log);
    x.exp();
  }
  x.exp();
  EXPECT_EQ(recorder.count("aten::exp"), 2U);
  EXPECT_EQ(log.entries.size(), 1U);
}

TEST(DescribeDifferenceTest, ShowsBothListsFromTheFirstDifferenceOn) {
  const std::string text = describe_difference(log_of({"aten::a", "aten::b", "aten::c"}),
                                               log_of({"aten::a", "aten::x"}));
  EXPECT_THAT(text, HasSubstr("You are seeing this because debug mode is on"));
  EXPECT_THAT(text, HasSubstr("differ there"));
  EXPECT_THAT(text, HasSubstr("In forward, of 3 operators, from there on:\n"
                              "  #1 aten::b(float[2] cpu)\n"
                              "  #2 aten::c(float[2] cpu)\n"));
  EXPECT_THAT(text, HasSubstr("In recompute, of 2 operators, from there on:\n"
                              "  #1 aten::x(float[2] cpu)\n"));
  EXPECT_THAT(text, Not(HasSubstr("aten::a")));
}

TEST(DescribeDifferenceTest, OtherInputsAreADifference) {
  OperatorLog recompute = log_of({"aten::a"});
  recompute.entries[0].inputs = "double[2] cpu";
  const std::string text = describe_difference(log_of({"aten::a"}), recompute);
  EXPECT_THAT(text, HasSubstr("#0 aten::a(float[2] cpu)"));
  EXPECT_THAT(text, HasSubstr("#0 aten::a(double[2] cpu)"));
}

TEST(DescribeDifferenceTest, ShowsAtMostTwentyOperators) {
  const std::string text =
      describe_difference(log_of(std::vector<std::string>(27, "aten::a")), OperatorLog());
  EXPECT_THAT(text, HasSubstr("  #19 aten::a"));
  EXPECT_THAT(text, Not(HasSubstr("  #20 aten::a")));
  EXPECT_THAT(text, HasSubstr("  ... 7 more\n"));
  EXPECT_THAT(text, HasSubstr("In recompute, of 0 operators, none is left there."));
}

TEST(DescribeDifferenceTest, ShowsTheStacksOfTheFirstDifference) {
  const at::Tensor x = torch::ones({2});
  OperatorLog forward;
  OperatorLog recompute;
  {
    const OperatorLogGuard guard(forward);
    x.exp();
  }
  {
    const OperatorLogGuard guard(recompute);
    x.sin();
  }
  const std::string text = describe_difference(forward, recompute);
  EXPECT_THAT(text, HasSubstr("Stack of #0 aten::exp in forward:\nframe #0"));
  EXPECT_THAT(text, HasSubstr("Stack of #0 aten::sin in recompute:\nframe #0"));
}

TEST(DescribeDifferenceTest, SaysWhenTheListsAgree) {
  const std::string text = describe_difference(log_of({"aten::a"}), log_of({"aten::a"}));
  EXPECT_THAT(text, HasSubstr("You are seeing this because debug mode is on"));
  EXPECT_THAT(text, HasSubstr("ran the same 1 operator"));
  EXPECT_THAT(text, HasSubstr("it is values, or the set of saved tensors, that differ"));
}

TEST(DescribeDifferenceTest, SaysWhenRecomputeEndedFirst) {
  const std::string text = describe_difference(log_of({"aten::a", "aten::b"}), log_of({"aten::a"}));
  EXPECT_THAT(text, HasSubstr("recompute ended first"));
}

}  // namespace
}  // namespace reprise::engine_internal::operator_log_test
