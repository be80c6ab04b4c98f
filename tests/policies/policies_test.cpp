// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/policies/policies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "tests/policies/operator_call.h"
#include "tests/testing/op_recorder.h"

namespace reprise::policies::policies_test {
namespace {

using enum CheckpointPolicy;
using testing::ask;
using testing::ask_in_region;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::message_of;
using testing::mm_call;
using testing::OperatorCall;
using testing::Place;
using testing::relu_call;

OperatorCall call_of(const char* name, const char* overload = "") {
  return OperatorCall::without_running(name, overload);
}

std::vector<OperatorCall> matmuls(std::size_t count) {
  return std::vector<OperatorCall>(count, mm_call());
}

TEST(PoliciesTest, SaveEverythingAndSaveNothingAnswerTheSameAlways) {
  for (const OperatorCall& call : {mm_call(), relu_call()}) {
    EXPECT_EQ(ask(save_everything(), call), PREFER_SAVE);
    EXPECT_EQ(ask(save_nothing(), call), PREFER_RECOMPUTE);
  }
}

TEST(PoliciesTest, SaveOperatorsMeansTheOverloadNamed) {
  const PolicyHolder policy = save_operators({"aten::mm", "aten::add.Tensor"});
  EXPECT_EQ(ask(policy, mm_call()), MUST_SAVE);
  EXPECT_EQ(ask(policy, call_of("aten::add", "Tensor")), MUST_SAVE);
  EXPECT_EQ(ask(policy, call_of("aten::add", "Scalar")), PREFER_RECOMPUTE);
  EXPECT_EQ(ask(policy, call_of("aten::mm", "out")), PREFER_RECOMPUTE);
  EXPECT_EQ(ask(policy, relu_call()), PREFER_RECOMPUTE);
}

TEST(PoliciesTest, SaveOperatorsListsWhatNeverCame) {
  const PolicyHolder policy =
      save_operators({"aten::mm", "aten::linear", "aten::bmm", "aten::mm", "aten::relu"});
  EXPECT_THAT(policy.get()->unmatched(),
              ElementsAre("aten::mm", "aten::linear (composite: a region sees its parts)",
                          "aten::bmm", "aten::relu"));
  ask(policy, mm_call());
  ask(policy, call_of("aten::add", "Tensor"));
  ask(policy, relu_call());
  EXPECT_THAT(policy.get()->unmatched(),
              ElementsAre("aten::linear (composite: a region sees its parts)", "aten::bmm"));
}

TEST(PoliciesTest, SaveOperatorsRefusesWhatIsNoOperator) {
  EXPECT_EQ(message_of<std::invalid_argument>([] {
              static_cast<void>(save_operators({"aten::mm", "aten::baddbm"}));
            })
                .find("[policies.save_operators] there is no such operator; received "
                      "'aten::baddbm'; the closest names are aten::baddbmm, "),
            0u);
  EXPECT_THAT(
      message_of<std::invalid_argument>([] { static_cast<void>(save_operators({"aten::add"})); }),
      HasSubstr("[policies.save_operators] the operator has several overloads and no default one; "
                "received 'aten::add'"));
}

TEST(PoliciesTest, SaveOperatorsOfAMultilayerPerceptronMatchesItsPartsOnly) {
  torch::nn::Sequential model(torch::nn::Linear(4, 8), torch::nn::ReLU(), torch::nn::Linear(8, 2));
  const PolicyHolder policy = save_operators({"aten::addmm", "aten::relu", "aten::linear"});
  std::vector<std::string> seen;
  {
    const testing::OpRecorder recorder;
    model->forward(at::ones({3, 4}));
    seen = recorder.names();
  }
  std::vector<std::string> saved;
  for (const std::string& name : seen) {
    // Regions do not see operators that are composed of others.
    const auto op = c10::Dispatcher::singleton().findSchema({name, ""});
    if (op && !op->hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd) &&
        ask(policy, call_of(name.c_str())) == MUST_SAVE) {
      saved.push_back(name);
    }
  }
  EXPECT_THAT(saved, ElementsAre("aten::addmm", "aten::relu", "aten::addmm"));
  EXPECT_THAT(policy.get()->unmatched(),
              ElementsAre("aten::linear (composite: a region sees its parts)"));
}

TEST(PoliciesTest, SaveMatmulsKeepsTheFourOfThem) {
  const PolicyHolder policy = save_matmuls();
  EXPECT_THAT(policy.get()->unmatched(),
              ElementsAre("save_matmuls: aten::mm, aten::addmm, aten::bmm, aten::baddbmm"));
  EXPECT_EQ(ask(policy, relu_call()), PREFER_RECOMPUTE);
  EXPECT_EQ(ask(policy, call_of("aten::convolution")), PREFER_RECOMPUTE);
  EXPECT_EQ(policy.get()->unmatched().size(), 1u);
  for (const char* op : {"aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm"}) {
    EXPECT_EQ(ask(policy, call_of(op)), PREFER_SAVE) << op;
    EXPECT_EQ(ask(policy, call_of(op, "out")), PREFER_SAVE) << op;
  }
  EXPECT_THAT(policy.get()->unmatched(), IsEmpty());
}

TEST(PoliciesTest, SaveAttentionKeepsEachVariant) {
  const PolicyHolder policy = save_attention();
  for (const char* op : {"aten::_scaled_dot_product_flash_attention",
                         "aten::_scaled_dot_product_efficient_attention",
                         "aten::_scaled_dot_product_cudnn_attention",
                         "aten::_scaled_dot_product_flash_attention_for_cpu",
                         "aten::_flash_attention_forward", "aten::_efficient_attention_forward"}) {
    EXPECT_EQ(ask(policy, call_of(op)), PREFER_SAVE) << op;
  }
  EXPECT_EQ(ask(policy, call_of("aten::_scaled_dot_product_flash_attention_backward")),
            PREFER_RECOMPUTE);
  EXPECT_EQ(ask(policy, call_of("aten::bmm")), PREFER_RECOMPUTE);
}

TEST(PoliciesTest, SaveAttentionSaysThatNoAttentionCame) {
  const PolicyHolder policy = save_attention();
  ask(policy, call_of("aten::bmm"));
  ASSERT_EQ(policy.get()->unmatched().size(), 1u);
  EXPECT_THAT(policy.get()->unmatched()[0], HasSubstr("save_attention: any attention operator"));
  ask(policy, call_of("aten::_scaled_dot_product_flash_attention"));
  EXPECT_THAT(policy.get()->unmatched(), IsEmpty());
}

TEST(PoliciesTest, SaveComputeIntensiveKeepsMatmulsConvolutionsAndAttention) {
  const PolicyHolder policy = save_compute_intensive();
  EXPECT_EQ(policy.get()->unmatched().size(), 1u);
  EXPECT_EQ(ask(policy, mm_call()), PREFER_SAVE);
  EXPECT_EQ(ask(policy, call_of("aten::convolution")), PREFER_SAVE);
  EXPECT_EQ(ask(policy, call_of("aten::_scaled_dot_product_flash_attention_for_cpu")), PREFER_SAVE);
  EXPECT_EQ(ask(policy, relu_call()), PREFER_RECOMPUTE);
  EXPECT_EQ(ask(policy, call_of("aten::convolution_backward")), PREFER_RECOMPUTE);
  EXPECT_THAT(policy.get()->unmatched(), IsEmpty());
}

TEST(PoliciesTest, EveryNthMatmulCountsMatmulsOnlyAndFromTheFirst) {
  const std::vector<OperatorCall> calls = {relu_call(), mm_call(), relu_call(), mm_call(),
                                           mm_call(),   mm_call(), mm_call()};
  EXPECT_THAT(ask_in_region(every_nth_matmul(2), calls),
              ElementsAre(PREFER_RECOMPUTE, PREFER_SAVE, PREFER_RECOMPUTE, PREFER_RECOMPUTE,
                          PREFER_SAVE, PREFER_RECOMPUTE, PREFER_SAVE));
  EXPECT_THAT(ask_in_region(every_nth_matmul(1), matmuls(3)),
              ElementsAre(PREFER_SAVE, PREFER_SAVE, PREFER_SAVE));
  EXPECT_THAT(
      ask_in_region(every_nth_matmul(3), matmuls(5)),
      ElementsAre(PREFER_SAVE, PREFER_RECOMPUTE, PREFER_RECOMPUTE, PREFER_SAVE, PREFER_RECOMPUTE));
}

TEST(PoliciesTest, EveryNthMatmulCountsEachRegionAnew) {
  const PolicyHolder policy = every_nth_matmul(2);
  for (int region = 0; region < 2; ++region) {
    EXPECT_THAT(ask_in_region(policy, matmuls(3)),
                ElementsAre(PREFER_SAVE, PREFER_RECOMPUTE, PREFER_SAVE));
  }
}

TEST(PoliciesTest, EveryNthMatmulDoesNotCountQuestionsAboutNames) {
  const PolicyHolder policy = every_nth_matmul(2);
  EXPECT_EQ(ask(policy, mm_call()), PREFER_SAVE);
  EXPECT_EQ(ask(policy, mm_call(), Place{.name = "scores"}), PREFER_RECOMPUTE);
  EXPECT_EQ(ask(policy, mm_call()), PREFER_RECOMPUTE);
  EXPECT_EQ(ask(policy, mm_call()), PREFER_SAVE);
}

TEST(PoliciesTest, EveryNthMatmulRefusesWhatIsNotPositive) {
  for (const std::int64_t n : {std::int64_t{0}, std::int64_t{-2}}) {
    EXPECT_THAT(message_of<std::invalid_argument>([n] { static_cast<void>(every_nth_matmul(n)); }),
                HasSubstr("[policies.every_nth_matmul] n must be positive; received n = " +
                          std::to_string(n)));
  }
}

TEST(PoliciesTest, SaveWhereLooksAtEachResult) {
  const PolicyHolder policy = save_where([](const at::Tensor& t) { return t.numel() == 8; });
  EXPECT_EQ(ask(policy, mm_call()), PREFER_SAVE);  // (2, 4)
  EXPECT_EQ(ask(policy, relu_call()), PREFER_RECOMPUTE);
  const OperatorCall split("aten::split_with_sizes", "",
                           {at::ones({11}), std::vector<std::int64_t>{3, 8}, 0});
  EXPECT_EQ(ask(policy, split), PREFER_SAVE);
  EXPECT_EQ(ask(policy, call_of("aten::mm")), PREFER_RECOMPUTE);
}

TEST(PoliciesTest, SaveWhereRefusesAnEmptyCondition) {
  EXPECT_THAT(message_of<std::invalid_argument>(
                  [] { static_cast<void>(save_where(std::function<bool(const at::Tensor&)>())); }),
              HasSubstr("[policies.save_where] there is no condition"));
}

TEST(PoliciesTest, SaveTaggedGoesByTag) {
  const PolicyHolder policy = save_tagged(at::Tag::nondeterministic_seeded);
  EXPECT_EQ(ask(policy, call_of("aten::bernoulli")), PREFER_SAVE);
  EXPECT_EQ(ask(policy, mm_call()), PREFER_RECOMPUTE);
}

TEST(PoliciesTest, SaveNamedMustKeepAResultOfThisName) {
  const PolicyHolder policy = save_named({"scores"});
  EXPECT_EQ(ask(policy, mm_call()), PREFER_RECOMPUTE);
  EXPECT_EQ(ask(policy, mm_call(), Place{.name = "score"}), PREFER_RECOMPUTE);
  EXPECT_EQ(ask(policy, mm_call(), Place{.name = "attn/scores"}), PREFER_RECOMPUTE);
  EXPECT_EQ(ask(policy, mm_call(), Place{.name = "scores"}), MUST_SAVE);
}

TEST(PoliciesTest, SaveNamedKeepsWhatStandsInAScopeWhosePathEndsSo) {
  const Place place{.scopes = {"block3", "attn", "q_proj"}};
  for (const char* entry :
       {"q_proj", "attn/q_proj", "block3/attn/q_proj", "attn", "block3/attn", "block3"}) {
    EXPECT_EQ(ask(save_named({entry}), mm_call(), place), PREFER_SAVE) << entry;
  }
  for (const char* entry : {"proj", "block3/q_proj", "attn/q", "ttn/q_proj", "x/block3", "q_proj/x",
                            "x/block3/attn/q_proj", "*"}) {
    EXPECT_EQ(ask(save_named({entry}), mm_call(), place), PREFER_RECOMPUTE) << entry;
  }
}

TEST(PoliciesTest, SaveNamedTakesAScopeWithSlashesForSeveral) {
  const Place place{.scopes = {"model/block3", "attn/q_proj"}};
  for (const char* entry : {"model", "block3", "model/block3", "block3/attn", "attn", "q_proj",
                            "block3/attn/q_proj", "model/block3/attn/q_proj"}) {
    EXPECT_EQ(ask(save_named({entry}), mm_call(), place), PREFER_SAVE) << entry;
  }
  EXPECT_EQ(ask(save_named({"model/attn"}), mm_call(), place), PREFER_RECOMPUTE);
  EXPECT_EQ(ask(save_named({"lock3/attn"}), mm_call(), place), PREFER_RECOMPUTE);
}

TEST(PoliciesTest, SaveNamedPrefersItsStrongerReason) {
  const PolicyHolder policy = save_named({"attn", "scores", "attn"});
  EXPECT_EQ(ask(policy, mm_call(), Place{.scopes = {"attn"}, .name = "scores"}), MUST_SAVE);
}

TEST(PoliciesTest, SaveNamedListsNamesThatNeverCame) {
  const PolicyHolder policy = save_named({"scores", "attn/q", "mlp"});
  ask(policy, mm_call(), Place{.scopes = {"attn", "q"}});
  EXPECT_THAT(policy.get()->unmatched(), ElementsAre("scores", "mlp"));
}

TEST(PoliciesTest, SaveNamedRefusesEmptyParts) {
  for (const char* name : {"", "/attn", "attn/", "attn//q"}) {
    EXPECT_THAT(
        message_of<std::invalid_argument>([name] { static_cast<void>(save_named({name})); }),
        HasSubstr("[policies.save_named] a name must not be empty, nor a part of it between '/'; "
                  "received '" +
                  std::string(name) + "'"));
  }
}

}  // namespace
}  // namespace reprise::policies::policies_test
