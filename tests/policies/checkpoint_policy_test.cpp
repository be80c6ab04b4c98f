// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/policies/checkpoint_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "tests/policies/operator_call.h"

namespace reprise::checkpoint_policy_test {
namespace {

using testing::ask;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::message_of;
using testing::mm_call;
using testing::OperatorCall;
using testing::Place;
using testing::relu_call;

TEST(CheckpointPolicyTest, HasTheNamesOfItsValues) {
  EXPECT_EQ(to_string(CheckpointPolicy::MUST_SAVE), "MUST_SAVE");
  EXPECT_EQ(to_string(CheckpointPolicy::PREFER_SAVE), "PREFER_SAVE");
  EXPECT_EQ(to_string(CheckpointPolicy::MUST_RECOMPUTE), "MUST_RECOMPUTE");
  EXPECT_EQ(to_string(CheckpointPolicy::PREFER_RECOMPUTE), "PREFER_RECOMPUTE");
  EXPECT_EQ(to_string(CheckpointPolicy::MUST_CPU_OFFLOAD), "MUST_CPU_OFFLOAD");
  EXPECT_EQ(to_string(CheckpointPolicy::PREFER_CPU_OFFLOAD), "PREFER_CPU_OFFLOAD");
}

TEST(PolicyContextTest, NamesTheOperator) {
  const OperatorCall add("aten::add", "Tensor", {at::ones(2), at::ones(2), 1});
  EXPECT_EQ(add.context().op(), "aten::add");
  EXPECT_EQ(add.context().overload(), "Tensor");
  EXPECT_EQ(add.context().full_name(), "aten::add.Tensor");
  EXPECT_EQ(mm_call().context().op(), "aten::mm");
  EXPECT_EQ(mm_call().context().overload(), "");
  EXPECT_EQ(mm_call().context().full_name(), "aten::mm");
}

TEST(PolicyContextTest, IdIsTheSameForEachCallOfAnOverloadAndNoOther) {
  const OperatorCall add("aten::add", "Tensor", {at::ones(2), at::ones(2), 1});
  const OperatorCall other_add("aten::add", "Tensor", {at::ones(3), at::ones(3), 2});
  const OperatorCall add_scalar("aten::add", "Scalar", {at::ones(2), 1, 1});
  EXPECT_EQ(add.context().op_id(), other_add.context().op_id());
  EXPECT_NE(add.context().op_id(), add_scalar.context().op_id());
}

TEST(PolicyContextTest, KnowsTheTagsOfTheOperator) {
  const OperatorCall drawn("aten::bernoulli", "", {at::full({2}, 0.5), c10::IValue()});
  EXPECT_TRUE(drawn.context().has_tag(at::Tag::nondeterministic_seeded));
  EXPECT_FALSE(mm_call().context().has_tag(at::Tag::nondeterministic_seeded));
}

TEST(PolicyContextTest, ListsDefinedTensorsThoseInListsIncluded) {
  const at::Tensor a = at::ones({2});
  const at::Tensor b = at::zeros({3});
  const OperatorCall cat("aten::cat", "", {at::TensorList({a, b}), 0});
  ASSERT_EQ(cat.context().input_tensors().size(), 2u);
  EXPECT_TRUE(cat.context().input_tensors()[0].is_same(a));
  EXPECT_TRUE(cat.context().input_tensors()[1].is_same(b));
  const std::vector<at::Tensor> outputs = cat.context().output_tensors();
  ASSERT_EQ(outputs.size(), 1u);
  EXPECT_TRUE(outputs[0].is_same(cat.outputs()[0].toTensor()));

  const OperatorCall undefined = OperatorCall::without_running(
      "aten::bernoulli", "", {c10::IValue(), at::Tensor(), at::IntArrayRef({1, 2}), 0.5});
  EXPECT_THAT(undefined.context().input_tensors(), IsEmpty());
}

TEST(PolicyContextTest, ListsTheTensorsOfAResultThatIsAList) {
  const OperatorCall split("aten::split", "Tensor", {at::ones({6}), 2, 0});
  EXPECT_EQ(split.context().output_tensors().size(), 3u);
}

TEST(PolicyContextTest, CountsTheBytesOfEachStorageOnce) {
  EXPECT_EQ(mm_call().context().output_bytes(), 2 * 4 * 4);
  // Three views of one storage, then two storages.
  const OperatorCall split("aten::split", "Tensor", {at::ones({6}), 2, 0});
  EXPECT_EQ(split.context().output_bytes(), 6 * 4);
  const OperatorCall max("aten::max", "dim", {at::ones({5, 3}), 1, false});
  EXPECT_EQ(max.context().output_bytes(), 5 * 4 + 5 * 8);
  const OperatorCall sparse("aten::_to_sparse", "",
                            {at::ones({2}), c10::IValue(), c10::IValue(), c10::IValue()});
  EXPECT_EQ(sparse.context().output_bytes(), 0);
}

TEST(PolicyContextTest, PassesOnWhereTheCallStands) {
  const Place place{{"block3", "attn"}, "scores", "block", 7};
  const OperatorCall mm = mm_call();
  const PolicyContext context = mm.context(place);
  EXPECT_THAT(context.scopes(), ElementsAre("block3", "attn"));
  EXPECT_EQ(context.name(), "scores");
  EXPECT_EQ(context.region(), "block");
  EXPECT_EQ(context.ordinal(), 7);
  EXPECT_EQ(context.arguments().size(), 2u);
  EXPECT_EQ(context.outputs().size(), 1u);
  EXPECT_EQ(context.flops(), 2 * 2 * 3 * 4);
}

TEST(PolicyHolderTest, IsEmptyByDefault) {
  EXPECT_FALSE(PolicyHolder());
  EXPECT_EQ(PolicyHolder().get(), nullptr);
}

TEST(PolicyHolderTest, TakesACallableThatReturnsAPolicy) {
  const PolicyHolder policy = [](const PolicyContext& context) {
    return context.op() == "aten::mm" ? CheckpointPolicy::MUST_CPU_OFFLOAD
                                      : CheckpointPolicy::MUST_RECOMPUTE;
  };
  EXPECT_TRUE(policy);
  EXPECT_EQ(ask(policy, mm_call()), CheckpointPolicy::MUST_CPU_OFFLOAD);
  EXPECT_EQ(ask(policy, relu_call()), CheckpointPolicy::MUST_RECOMPUTE);
}

TEST(PolicyHolderTest, TakesACallableThatReturnsABool) {
  const PolicyHolder policy = [](const PolicyContext& context) {
    return context.op() == "aten::mm";
  };
  EXPECT_EQ(ask(policy, mm_call()), CheckpointPolicy::MUST_SAVE);
  EXPECT_EQ(ask(policy, relu_call()), CheckpointPolicy::PREFER_RECOMPUTE);
}

class AlwaysOffload final : public Policy {
  PolicyAnswer decide(const PolicyContext& /*context*/) override {
    return CheckpointPolicy::PREFER_CPU_OFFLOAD;
  }
};

TEST(PolicyHolderTest, TakesAPolicyWhichByDefaultServesEachRegion) {
  const PolicyHolder policy = std::make_shared<AlwaysOffload>();
  EXPECT_EQ(ask(policy, mm_call()), CheckpointPolicy::PREFER_CPU_OFFLOAD);
  EXPECT_EQ(policy.get()->begin_region(), nullptr);
  EXPECT_THAT(policy.get()->unmatched(), IsEmpty());
}

TEST(PolicyHolderTest, RefusesAnEmptyFunction) {
  const std::function<CheckpointPolicy(const PolicyContext&)> empty;
  EXPECT_THAT(message_of<std::invalid_argument>([&] { const PolicyHolder policy(empty); }),
              HasSubstr("received an empty std::function"));
}

}  // namespace
}  // namespace reprise::checkpoint_policy_test
