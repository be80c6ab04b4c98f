// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <thread>

#include "reprise/hooks/stores.h"
#include "reprise/policies/policies.h"
#include "tests/policies/operator_call.h"

namespace reprise::policies::combinators_test {
namespace {

using enum CheckpointPolicy;
using testing::ask;
using testing::ask_in_region;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::message_of;
using testing::mm_call;
using ::testing::Not;
using testing::OperatorCall;
using testing::Place;
using testing::relu_call;

PolicyHolder always(CheckpointPolicy answer) {
  return [answer](const PolicyContext& /*context*/) { return answer; };
}

std::string refusal(const auto& f) { return message_of<std::invalid_argument>(f); }

std::vector<OperatorCall> matmuls(std::size_t count) {
  return std::vector<OperatorCall>(count, mm_call());
}

constexpr std::array kAll = {MUST_SAVE,        PREFER_SAVE,      MUST_RECOMPUTE,
                             PREFER_RECOMPUTE, MUST_CPU_OFFLOAD, PREFER_CPU_OFFLOAD};

TEST(CombinatorsTest, OffloadTurnsSaveAnswersOnly) {
  std::vector<PolicyAnswer> answers;
  for (const CheckpointPolicy answer : kAll) {
    answers.push_back(ask(offload(always(answer)), mm_call()));
  }
  EXPECT_THAT(answers, ElementsAre(MUST_CPU_OFFLOAD, PREFER_CPU_OFFLOAD, MUST_RECOMPUTE,
                                   PREFER_RECOMPUTE, MUST_CPU_OFFLOAD, PREFER_CPU_OFFLOAD));
}

TEST(CombinatorsTest, KeepInNamesAStoreForWhatIsKept) {
  const auto store = stores::packed();
  const auto other = stores::packed();
  for (const CheckpointPolicy answer : kAll) {
    const bool is_kept = answer != MUST_RECOMPUTE && answer != PREFER_RECOMPUTE;
    EXPECT_EQ(ask(keep_in(store, always(answer)), mm_call()),
              PolicyAnswer(answer, is_kept ? store : nullptr));
  }
  EXPECT_EQ(ask(keep_in(other, keep_in(store, save_everything())), mm_call()).store, store);
  EXPECT_EQ(ask(offload(keep_in(store, save_everything())), mm_call()),
            PolicyAnswer(PREFER_CPU_OFFLOAD, store));
  EXPECT_EQ(ask(first_match({save_nothing(), keep_in(store, save_everything())}), mm_call()).store,
            store);
  EXPECT_EQ(refusal([] { static_cast<void>(keep_in(nullptr, save_everything())); }),
            "[policies.keep_in] the store is a null pointer; pass stores::device() for none");
}

TEST(CombinatorsTest, FirstMatchPassesOnPreferRecomputeOnly) {
  for (const CheckpointPolicy answer : kAll) {
    const PolicyHolder policy = first_match({always(answer), always(MUST_CPU_OFFLOAD)});
    EXPECT_EQ(ask(policy, mm_call()), answer == PREFER_RECOMPUTE ? MUST_CPU_OFFLOAD : answer)
        << to_string(answer);
  }
  EXPECT_EQ(ask(first_match({save_nothing(), save_nothing()}), mm_call()), PREFER_RECOMPUTE);
  EXPECT_EQ(ask(first_match({}), mm_call()), PREFER_RECOMPUTE);
}

TEST(CombinatorsTest, FirstMatchDoesNotAskBehindTheAnswer) {
  int asked = 0;
  const PolicyHolder counts = [&asked](const PolicyContext& /*context*/) {
    ++asked;
    return PREFER_SAVE;
  };
  const PolicyHolder policy = first_match({save_matmuls(), counts});
  EXPECT_EQ(ask(policy, mm_call()), PREFER_SAVE);
  EXPECT_EQ(asked, 0);
  EXPECT_EQ(ask(policy, relu_call()), PREFER_SAVE);
  EXPECT_EQ(asked, 1);
}

TEST(CombinatorsTest, OverrideWithLetsItsMustsWin) {
  for (const CheckpointPolicy base : kAll) {
    for (const CheckpointPolicy overriding : {MUST_SAVE, MUST_RECOMPUTE, MUST_CPU_OFFLOAD}) {
      EXPECT_EQ(ask(override_with(always(base), always(overriding)), mm_call()), overriding);
    }
    for (const CheckpointPolicy overriding : {PREFER_SAVE, PREFER_RECOMPUTE, PREFER_CPU_OFFLOAD}) {
      EXPECT_EQ(ask(override_with(always(base), always(overriding)), mm_call()), base);
    }
  }
}

TEST(CombinatorsTest, OverrideWithAsksBothEachTime) {
  const PolicyHolder second_is_must =
      with_state(0, [](int& seen, const PolicyContext& /*context*/) { return ++seen == 2; });
  const PolicyHolder policy = override_with(every_nth_matmul(2), second_is_must);
  // The second matmul is kept by the other policy, and yet counted.
  EXPECT_THAT(ask_in_region(policy, matmuls(4)),
              ElementsAre(PREFER_SAVE, MUST_SAVE, PREFER_SAVE, PREFER_RECOMPUTE));
}

TEST(CombinatorsTest, ForRegionMatchesTheNameOfTheRegion) {
  const PolicyHolder policy = for_region("head", save_everything(), always(MUST_RECOMPUTE));
  EXPECT_EQ(ask(policy, mm_call(), Place{.region = "head"}), PREFER_SAVE);
  EXPECT_EQ(ask(policy, mm_call(), Place{.region = "head2"}), MUST_RECOMPUTE);
  EXPECT_EQ(ask(policy, mm_call()), MUST_RECOMPUTE);
}

TEST(CombinatorsTest, ForRegionListsUnmatchedRegions) {
  const PolicyHolder policy =
      for_region("head", save_operators({"aten::bmm"}), save_operators({"aten::mm"}));
  EXPECT_THAT(policy.get()->unmatched(), ElementsAre("region 'head'", "aten::bmm", "aten::mm"));
  ask(policy, mm_call(), Place{.region = "body"});
  EXPECT_THAT(policy.get()->unmatched(), ElementsAre("region 'head'", "aten::bmm"));
  ask(policy, mm_call(), Place{.region = "head"});
  EXPECT_THAT(policy.get()->unmatched(), ElementsAre("aten::bmm"));
}

TEST(CombinatorsTest, PassOnWhatNeverCame) {
  const PolicyHolder list = save_operators({"aten::bmm"});
  for (const PolicyHolder& policy :
       {offload(list), first_match({save_nothing(), list}), override_with(list, save_nothing()),
        override_with(save_nothing(), list), offload(first_match({offload(list)}))}) {
    EXPECT_THAT(policy.get()->unmatched(), ElementsAre("aten::bmm"));
  }
}

TEST(CombinatorsTest, HearOfMatchesInTheirRegions) {
  // The counting part makes each region ask a copy, the list is heard of all the same.
  const PolicyHolder policy = first_match(
      {for_region("head", save_operators({"aten::mm"}), save_nothing()), every_nth_matmul(2)});
  ask_in_region(policy, matmuls(1), Place{.region = "head"});
  EXPECT_THAT(policy.get()->unmatched(), IsEmpty());
}

TEST(CombinatorsTest, StartAnewInEachRegion) {
  const PolicyHolder counting = every_nth_matmul(2);
  const PolicyHolder nothing = save_nothing();
  for (const PolicyHolder& policy :
       {first_match({nothing, counting}), override_with(counting, nothing),
        for_region("", counting, nothing), for_region("x", nothing, counting),
        first_match({first_match({nothing, counting})})}) {
    for (int region = 0; region < 2; ++region) {
      EXPECT_THAT(ask_in_region(policy, matmuls(3)),
                  ElementsAre(PREFER_SAVE, PREFER_RECOMPUTE, PREFER_SAVE));
    }
  }
  for (int region = 0; region < 2; ++region) {
    EXPECT_THAT(ask_in_region(offload(counting), matmuls(2)),
                ElementsAre(PREFER_CPU_OFFLOAD, PREFER_RECOMPUTE));
  }
}

TEST(CombinatorsTest, ServeEachRegionThemselvesIfNothingCounts) {
  const PolicyHolder policy = first_match({offload(save_attention()), save_matmuls()});
  EXPECT_EQ(policy.get()->begin_region(), nullptr);
}

TEST(CombinatorsTest, RefuseAnEmptyHolder) {
  const PolicyHolder none;
  const PolicyHolder some = save_nothing();
  EXPECT_EQ(refusal([&] { static_cast<void>(offload(none)); }),
            "[policies.offload] a policy is missing; received an empty PolicyHolder as policy 0 of "
            "1; pass save_nothing() for none");
  EXPECT_THAT(refusal([&] {
                static_cast<void>(first_match({some, none}));
              }),
              HasSubstr("[policies.first_match] a policy is missing; received an empty "
                        "PolicyHolder as policy 1 of 2"));
  EXPECT_THAT(refusal([&] { static_cast<void>(override_with(none, some)); }),
              HasSubstr("[policies.override_with] a policy is missing"));
  EXPECT_THAT(refusal([&] { static_cast<void>(for_region("head", some, none)); }),
              HasSubstr("[policies.for_region] a policy is missing"));
}

TEST(WithStateTest, GivesEachRegionAStateOfItsOwn) {
  const PolicyHolder policy = with_state(
      std::vector<std::string>(),
      [](std::vector<std::string>& seen, const PolicyContext& context) -> CheckpointPolicy {
        seen.push_back(context.full_name());
        return seen.size() == 2 ? PREFER_SAVE : MUST_RECOMPUTE;
      });
  for (int region = 0; region < 2; ++region) {
    EXPECT_THAT(ask_in_region(policy, matmuls(3)),
                ElementsAre(MUST_RECOMPUTE, PREFER_SAVE, MUST_RECOMPUTE));
  }
}

TEST(WithStateTest, TakesABoolAsPolicyHolderDoes) {
  const PolicyHolder policy =
      with_state(1, [](int& left, const PolicyContext& /*context*/) { return left-- > 0; });
  EXPECT_THAT(ask_in_region(policy, matmuls(2)), ElementsAre(MUST_SAVE, PREFER_RECOMPUTE));
}

TEST(WithStateTest, CopiesWhatTheCallableHolds) {
  const PolicyHolder policy =
      with_state(0, [calls = 0](int& /*state*/, const PolicyContext& /*context*/) mutable {
        return calls++ == 0;
      });
  for (int region = 0; region < 2; ++region) {
    EXPECT_THAT(ask_in_region(policy, matmuls(2)), ElementsAre(MUST_SAVE, PREFER_RECOMPUTE));
  }
}

TEST(PoliciesThreadsTest, OnePolicyServesRegionsOfSeveralThreads) {
  const PolicyHolder policy =
      first_match({offload(save_operators({"aten::relu"})), save_attention(), every_nth_matmul(2)});
  const std::vector<OperatorCall> calls = {mm_call(), relu_call(), mm_call(), mm_call()};
  std::vector<std::vector<PolicyAnswer>> answers(4);
  std::vector<std::thread> threads;
  for (auto& answer : answers) {
    threads.emplace_back([&] {
      for (int region = 0; region < 50; ++region) {
        answer = ask_in_region(policy, calls);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (const auto& answer : answers) {
    EXPECT_THAT(answer, ElementsAre(PREFER_SAVE, MUST_CPU_OFFLOAD, PREFER_RECOMPUTE, PREFER_SAVE));
  }
  EXPECT_THAT(policy.get()->unmatched(), Not(::testing::Contains("aten::relu")));
}

}  // namespace
}  // namespace reprise::policies::combinators_test
