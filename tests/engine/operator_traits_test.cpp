// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/operators/operator_traits.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace reprise::engine_internal::operator_traits_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const OperatorTraits& traits_of(const char* name, const char* overload = "") {
  return OperatorTraits::of(c10::Dispatcher::singleton().findSchemaOrThrow(name, overload));
}

TEST(OperatorTraitsTest, FindWrites) {
  EXPECT_THAT(traits_of("aten::add", "Tensor").written_arguments, IsEmpty());
  EXPECT_THAT(traits_of("aten::add_", "Tensor").written_arguments, ElementsAre(0));
  EXPECT_THAT(traits_of("aten::add", "out").written_arguments, ElementsAre(3));
  EXPECT_THAT(traits_of("aten::_foreach_add_", "Scalar").written_arguments, ElementsAre(0));
  EXPECT_TRUE(traits_of("aten::add", "out").may_write(3));
  EXPECT_FALSE(traits_of("aten::add", "out").may_write(0));
}

TEST(OperatorTraitsTest, IgnoreWhatRecordStreamDeclares) {
  const OperatorTraits& traits = traits_of("aten::record_stream");
  EXPECT_TRUE(traits.is_bookkeeping);
  EXPECT_THAT(traits.written_arguments, IsEmpty());
}

TEST(OperatorTraitsTest, FindUndeclaredWritesInTrainingOnly) {
  const OperatorTraits& traits = traits_of("aten::native_batch_norm");
  EXPECT_TRUE(traits.undeclared);
  EXPECT_THAT(traits.written_arguments, ElementsAre(3, 4));
  ASSERT_EQ(traits.training_argument, 5U);
  std::vector<c10::IValue> arguments(8);
  arguments[5] = true;
  EXPECT_THAT(traits.written(arguments), ElementsAre(3, 4));
  EXPECT_THAT(traits.read_statistics(arguments), IsEmpty());
  arguments[5] = false;
  EXPECT_THAT(traits.written(arguments), IsEmpty());
  EXPECT_THAT(traits.read_statistics(arguments), ElementsAre(3, 4));
}

TEST(OperatorTraitsTest, FindResultsThatAreArguments) {
  EXPECT_THAT(traits_of("aten::mul_", "Tensor").result_arguments, ElementsAre(0U));
  EXPECT_TRUE(traits_of("aten::mul_", "Tensor").returns_only_arguments);
  EXPECT_THAT(traits_of("aten::topk", "values").result_arguments, ElementsAre(5U, 6U));
  EXPECT_THAT(traits_of("aten::topk").result_arguments, ElementsAre(std::nullopt, std::nullopt));
  EXPECT_FALSE(traits_of("aten::topk").returns_only_arguments);
}

TEST(OperatorTraitsTest, TellTargetsThatAreOverwrittenFromThoseThatAreRead) {
  for (const char* name : {"aten::zero_", "aten::uniform_", "aten::copy_"}) {
    EXPECT_TRUE(traits_of(name).overwrites) << name;
  }
  EXPECT_TRUE(traits_of("aten::sin", "out").overwrites);
  EXPECT_FALSE(traits_of("aten::sin_").overwrites);
  EXPECT_TRUE(traits_of("aten::native_batch_norm").ignores_targets);
  EXPECT_TRUE(traits_of("aten::zero_").fills_with_constant);
  EXPECT_TRUE(traits_of("aten::fill_", "Scalar").fills_with_constant);
  EXPECT_FALSE(traits_of("aten::fill_", "Tensor").fills_with_constant);
}

struct Kind {
  const char* name;
  const char* overload;
  std::string flags;
};

std::string flags_of(const OperatorTraits& traits) {
  std::string flags;
  const auto add = [&flags](bool has, const char* flag) { flags += has ? flag : ""; };
  add(traits.is_view, "view ");
  add(traits.is_inplace_view, "inplace_view ");
  add(traits.is_random, "random ");
  add(traits.is_factory, "factory ");
  add(traits.makes_constants, "constants ");
  add(traits.leaves_memory_as_it_is, "uninitialised ");
  add(traits.is_elementwise, "elementwise ");
  add(traits.is_cheap, "cheap ");
  add(traits.is_cast, "cast ");
  add(traits.is_host_read, "host ");
  return flags;
}

TEST(OperatorTraitsTest, ClassifyOperators) {
  const std::vector<Kind> kinds = {
      {"aten::t", "", "view "},
      {"aten::squeeze_", "", "view inplace_view "},
      {"aten::mm", "", ""},
      {"aten::sin", "", "elementwise cheap "},
      {"aten::native_batch_norm", "", "cheap "},
      {"aten::native_dropout", "", "random "},
      {"aten::randn", "", "random "},
      {"aten::zeros", "", "factory "},
      {"aten::zeros_like", "", "factory constants "},
      {"aten::empty", "memory_format", "factory uninitialised "},
      {"aten::empty_like", "", "factory uninitialised "},
      {"aten::_to_copy", "", "cast "},
      {"aten::_local_scalar_dense", "", "host "},
  };
  for (const Kind& kind : kinds) {
    EXPECT_EQ(flags_of(traits_of(kind.name, kind.overload)), kind.flags) << kind.name;
  }
}

TEST(OperatorTraitsTest, FindArgumentsWithAMeaning) {
  EXPECT_EQ(traits_of("aten::native_dropout").probability_argument, 1U);
  EXPECT_EQ(traits_of("aten::copy_").non_blocking_argument, 2U);
  EXPECT_EQ(traits_of("aten::mm").non_blocking_argument, std::nullopt);
}

TEST(OperatorTraitsTest, AreMadeOncePerOperator) {
  EXPECT_EQ(&traits_of("aten::mm"), &traits_of("aten::mm"));
  EXPECT_NE(&traits_of("aten::mm"), &traits_of("aten::bmm"));
}

}  // namespace
}  // namespace reprise::engine_internal::operator_traits_test
