// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/policies/name_scope.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <memory>
#include <stdexcept>
#include <thread>
#include <type_traits>

#include "tests/policies/operator_call.h"

namespace reprise::name_scope_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

static_assert(!std::is_default_constructible_v<NameScope>);
static_assert(!std::is_copy_constructible_v<NameScope> && !std::is_move_constructible_v<NameScope>);
static_assert(!std::is_copy_assignable_v<NameScope> && !std::is_move_assignable_v<NameScope>);

TEST(NameScopeTest, ListsScopesOutermostFirst) {
  EXPECT_THAT(NameScope::current(), IsEmpty());
  {
    const NameScope block("block3");
    EXPECT_THAT(NameScope::current(), ElementsAre("block3"));
    {
      const NameScope attention("attn/q_proj");
      EXPECT_THAT(NameScope::current(), ElementsAre("block3", "attn/q_proj"));
    }
    EXPECT_THAT(NameScope::current(), ElementsAre("block3"));
  }
  EXPECT_THAT(NameScope::current(), IsEmpty());
}

TEST(NameScopeTest, EndsWithAnException) {
  try {
    const NameScope block("block3");
    throw std::runtime_error("stop");
  } catch (const std::runtime_error&) {
    EXPECT_THAT(NameScope::current(), IsEmpty());
  }
}

TEST(NameScopeTest, ConcernsItsThreadOnly) {
  const NameScope block("block3");
  std::thread([] {
    EXPECT_THAT(NameScope::current(), IsEmpty());
    const NameScope other("other");
    EXPECT_THAT(NameScope::current(), ElementsAre("other"));
  }).join();
  EXPECT_THAT(NameScope::current(), ElementsAre("block3"));
}

TEST(NameScopeTest, LeavesNothingBehindIfTheOuterOneEndsFirst) {
  auto outer = std::make_unique<NameScope>("outer");
  auto inner = std::make_unique<NameScope>("inner");
  outer.reset();
  EXPECT_THAT(NameScope::current(), IsEmpty());
  inner.reset();
  EXPECT_THAT(NameScope::current(), IsEmpty());
}

TEST(NameScopeTest, RefusesEmptyNamesAndOpensNothing) {
  for (const char* name : {"", "/", "a/", "/a", "a//b"}) {
    EXPECT_THAT(
        testing::message_of<std::invalid_argument>([name] { const NameScope scope(name); }),
        HasSubstr("[policies.NameScope] a name must not be empty, nor a part of it between '/'; "
                  "received '" +
                  std::string(name) + "'"));
    EXPECT_THAT(NameScope::current(), IsEmpty());
  }
}

}  // namespace
}  // namespace reprise::name_scope_test
