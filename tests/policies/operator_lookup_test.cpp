// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/policies/operators/operator_lookup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "reprise/policies/operators/operator_kind.h"
#include "tests/policies/operator_call.h"

namespace reprise::policies_internal::operator_lookup_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;
using ::testing::Not;
using ::testing::StartsWith;

std::string refusal_of(const std::string& name) {
  return message_of<std::invalid_argument>(
      [&] { static_cast<void>(find_operator(name, "policies.test")); });
}

TEST(OperatorLookupTest, FindsTheDefaultOverload) {
  const c10::OperatorHandle mm = find_operator("aten::mm", "policies.test");
  EXPECT_EQ(mm.operator_name().name, "aten::mm");
  EXPECT_EQ(mm.operator_name().overload_name, "");
}

TEST(OperatorLookupTest, FindsTheOverloadNamed) {
  const c10::OperatorHandle add = find_operator("aten::add.Tensor", "policies.test");
  EXPECT_EQ(add.operator_name().name, "aten::add");
  EXPECT_EQ(add.operator_name().overload_name, "Tensor");
}

TEST(OperatorLookupTest, FindsTheOnlyOverloadWithoutItsName) {
  torch::Library library(torch::Library::DEF, "reprise_lookup_test", std::nullopt, __FILE__,
                         __LINE__);
  library.def("single.only(Tensor a) -> Tensor");
  const c10::OperatorHandle op = find_operator("reprise_lookup_test::single", "policies.test");
  EXPECT_EQ(op.operator_name().overload_name, "only");
}

TEST(OperatorLookupTest, RefusesAChoiceOfOverloadsAndListsThem) {
  EXPECT_THAT(refusal_of("aten::add"),
              AllOf(StartsWith("[policies.test] the operator has several overloads and no default "
                               "one; received 'aten::add'; name one or more of "),
                    HasSubstr("aten::add.Scalar, "), HasSubstr("aten::add.Tensor, ")));
}

TEST(OperatorLookupTest, RefusesAnUnknownOverloadAndListsTheKnown) {
  EXPECT_THAT(refusal_of("aten::mm.Tensr"),
              AllOf(StartsWith("[policies.test] the operator has no such overload; received "
                               "'aten::mm.Tensr'; its names are aten::mm, aten::mm.dtype"),
                    Not(HasSubstr("aten::addmm"))));
}

TEST(OperatorLookupTest, RefusesAnUnknownNameAndSuggestsTheClosest) {
  EXPECT_THAT(refusal_of("aten::addm"),
              AllOf(StartsWith("[policies.test] there is no such operator; received 'aten::addm'; "
                               "the closest names are "),
                    HasSubstr("aten::addmm")));
  EXPECT_THAT(refusal_of("aten::convolutoin"), HasSubstr("names are aten::convolution, "));
}

TEST(OperatorLookupTest, SuggestsTheNamespaceWhereItIsMissing) {
  EXPECT_THAT(refusal_of("bmm"), HasSubstr("'bmm'; the closest names are aten::bmm, "));
  EXPECT_THAT(refusal_of(""), HasSubstr("received ''"));
}

TEST(OperatorKindTest, KnowsMatmulsAndConvolutions) {
  for (const char* op : {"aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm"}) {
    EXPECT_EQ(kind_of(op), OperatorKind::kMatmul) << op;
  }
  EXPECT_EQ(kind_of("aten::convolution"), OperatorKind::kConvolution);
  EXPECT_EQ(kind_of("aten::convolution_backward"), OperatorKind::kOther);
  EXPECT_EQ(kind_of("aten::relu"), OperatorKind::kOther);
  EXPECT_EQ(kind_of("mine::mm"), OperatorKind::kOther);
}

TEST(OperatorKindTest, KnowsEachAttentionOperatorOfThisLibTorchAndNoneThatIsBackward) {
  std::size_t forward = 0;
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
    if (!name.name.starts_with("aten::") || name.name.find("attention") == std::string::npos) {
      continue;
    }
    const bool is_backward = name.name.find("backward") != std::string::npos;
    EXPECT_EQ(kind_of(name.name), is_backward ? OperatorKind::kOther : OperatorKind::kAttention)
        << name.name;
    forward += is_backward ? 0 : 1;
  }
  EXPECT_GE(forward, 5u);
}

TEST(OperatorKindTest, KnowsTheAttentionOfOtherLibraries) {
  EXPECT_EQ(kind_of("flash_attn::_flash_attn_forward"), OperatorKind::kAttention);
  EXPECT_EQ(kind_of("xformers::efficient_attention_forward_cutlass"), OperatorKind::kAttention);
  EXPECT_EQ(kind_of("flash_attn::_flash_attn_backward"), OperatorKind::kOther);
  EXPECT_EQ(kind_of("flash_attn_3::bwd"), OperatorKind::kOther);
}

}  // namespace
}  // namespace reprise::policies_internal::operator_lookup_test
