// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Scopes and guards that end in another order than the reverse of their making, or on another
// thread.
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "reprise/engine/checkpoint_scope.h"
#include "reprise/engine/debug_mode.h"
#include "reprise/engine/operators/bypass.h"
#include "reprise/engine/operators/interception.h"
#include "reprise/engine/policy_bypass.h"
#include "reprise/engine/region/settings.h"
#include "reprise/policies/name_scope.h"
#include "tests/conformance/conformance_fixture.h"

namespace reprise::scope_ends_test {
namespace {

using ::testing::AllOf;
using testing::expect_as_plain;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::leaf;
using testing::Tensors;

class ScopeEndsTest : public testing::ConformanceTest {
 protected:
  static std::unique_ptr<CheckpointScope> scope(std::string name) {
    return std::make_unique<CheckpointScope>(CheckpointOptions{.name = std::move(name)});
  }

  // Of the backward from `y`.
  std::string message_of(const at::Tensor& y) {
    watch(y);
    try {
      y.sum().backward();
    } catch (const CheckpointError& error) {
      return error.what_without_backtrace();
    }
    return "no error";
  }

  // Nothing of a region is left on the thread, and others are as ever.
  void expect_clean() {
    EXPECT_EQ(engine_internal::InterceptionScope::current(), nullptr);
    const at::Tensor x = leaf({3});
    expect_as_plain([&](auto run) {
      const at::Tensor y = run([](const at::Tensor& t) { return t.exp().sin(); }, x);
      return gradients(y, {x});
    });
  }
};

TEST_F(ScopeEndsTest, EndsBeforeOneThatWasMadeInside) {
  const at::Tensor x = leaf({3});
  auto outer = scope("outer");
  const at::Tensor y = x.sin().exp();
  auto inner = scope("inner");
  const at::Tensor z = y.exp().sin();
  outer.reset();
  const at::Tensor w = z.tanh();
  inner.reset();
  EXPECT_THAT(message_of(w), AllOf(HasSubstr("region 'outer' was ended before region 'inner'"),
                                   HasSubstr("End the inner one first")));
  expect_clean();
}

TEST_F(ScopeEndsTest, EndsOnAnotherThread) {
  const at::Tensor x = leaf({3});
  auto ended_elsewhere = scope("block");
  const at::Tensor y = x.sin().exp();
  std::thread([&] { ended_elsewhere.reset(); }).join();
  const at::Tensor z = y * 2;
  EXPECT_EQ(engine_internal::InterceptionScope::current(), nullptr);
  EXPECT_THAT(message_of(z), HasSubstr("region 'block' was ended on another thread"));
  expect_clean();
}

TEST_F(ScopeEndsTest, EndsInsideARegionThatWasMadeInIt) {
  const at::Tensor x = leaf({3});
  auto closed_inside = scope("scope");
  const at::Tensor y = checkpoint(
      {.name = "inside"},
      [&](const at::Tensor& t) {
        const at::Tensor h = t.sin().exp();
        closed_inside.reset();
        return h.tanh();
      },
      x);
  EXPECT_THAT(message_of(y), HasSubstr("region 'scope' was ended before region 'inside'"));
  expect_clean();
}

TEST_F(ScopeEndsTest, EndsAfterTheRegionInWhichItWasMade) {
  const at::Tensor x = leaf({3});
  std::unique_ptr<CheckpointScope> left_open;
  const at::Tensor y = checkpoint(
      {.name = "around"},
      [&](const at::Tensor& t) {
        const at::Tensor h = t.sin().exp();
        if (!is_recomputing()) {
          left_open = scope("left open");
        }
        return h.tanh();
      },
      x);
  left_open.reset();
  EXPECT_THAT(message_of(y), HasSubstr("region 'around' was ended before region 'left open'"));
  expect_clean();
}

TEST_F(ScopeEndsTest, AllowScopesThatNothingAsksFor) {
  const at::Tensor x = leaf({3});
  auto outer = scope("outer");
  auto inner = scope("inner");
  const at::Tensor y = x.sin().exp();
  outer.reset();
  inner.reset();
  expect_clean();
}

TEST_F(ScopeEndsTest, AffectTheirOwnGuardsAlone) {
  for (const bool elsewhere : {false, true}) {
    SCOPED_TRACE(elsewhere ? "on another thread" : "here");
    const auto end = [&](auto& guard) {
      if (elsewhere) {
        std::thread([&] { guard.reset(); }).join();
      } else {
        guard.reset();
      }
    };
    auto debug = std::make_unique<DebugModeGuard>(true);
    auto inner_debug = std::make_unique<DebugModeGuard>(false);
    auto stop = std::make_unique<EarlyStopGuard>(false);
    auto inner_stop = std::make_unique<EarlyStopGuard>(true);
    auto bypass = std::make_unique<PolicyBypassGuard>();
    auto name = std::make_unique<NameScope>("outer");
    auto inner_name = std::make_unique<NameScope>("inner");
    end(debug);
    end(stop);
    end(name);
    end(bypass);
    EXPECT_FALSE(engine_internal::effective_debug(true));
    EXPECT_TRUE(engine_internal::effective_early_stop(false));
    EXPECT_FALSE(engine_internal::is_bypassed());
    EXPECT_THAT(NameScope::current(), IsEmpty());  // names end with the one around them
    end(inner_debug);
    end(inner_stop);
    end(inner_name);
    EXPECT_TRUE(engine_internal::effective_debug(true));
    EXPECT_FALSE(engine_internal::effective_early_stop(false));
    EXPECT_THAT(NameScope::current(), IsEmpty());
  }
}

TEST_F(ScopeEndsTest, AreSeenInGroupsOnThreadsThatEnteredThem) {
  GraphExecGroup group;
  for (const bool elsewhere : {false, true}) {
    auto entered = std::make_unique<GraphExecGroupGuard>(group);
    auto inside = scope("inside");
    if (elsewhere) {
      std::thread([&] {
        entered.reset();
        EXPECT_FALSE(GraphExecGroupGuard::is_active());
      }).join();
    } else {
      entered.reset();
    }
    EXPECT_FALSE(GraphExecGroupGuard::is_active());
    const at::Tensor x = leaf({3});
    const at::Tensor y = x.sin().exp();
    inside.reset();
    EXPECT_EQ(message_of(y), "no error");
    const GraphExecGroupGuard again(group);
    EXPECT_TRUE(GraphExecGroupGuard::is_active());
  }
}

}  // namespace
}  // namespace reprise::scope_ends_test
