// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/region/session.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "reprise/engine/region/group_state.h"

namespace reprise::engine_internal::session_test {
namespace {

using hooks_internal::BackwardInfo;

constexpr SlotId kFirst(0), kSecond(1);

Request request_of(SessionId::Kind kind, bool keeps_graph = true) {
  Request request;
  request.session = {kind, 1};
  request.backward.keeps_graph = keeps_graph;
  return request;
}

class SessionTest : public ::testing::Test {
 protected:
  void fill(SlotId slot) { session_.fill(slot, {torch::ones({2}), 0}, dropped_); }

  Session session_{request_of(SessionId::Kind::kBackward)};
  Session group_{request_of(SessionId::Kind::kGroup)};
  Session::Dropped dropped_;
};

TEST_F(SessionTest, WantsATensorUntilItIsTaken) {
  EXPECT_TRUE(session_.wants(kSecond));
  fill(kSecond);
  EXPECT_TRUE(session_.has(kSecond));
  EXPECT_FALSE(session_.has(kFirst));
  EXPECT_FALSE(session_.wants(kSecond));
  EXPECT_TRUE(session_.take(kSecond, {}, dropped_).tensor.defined());
  EXPECT_FALSE(session_.has(kSecond));
  EXPECT_FALSE(session_.wants(kSecond)) << "a caller has received it";
  EXPECT_TRUE(session_.wants(kFirst));
}

TEST_F(SessionTest, KeepsATensorForTheNodeThatMayAskAgain) {
  int node = 0;
  int other_node = 0;
  const BackwardInfo asking{.node = &node, .node_reads_once = false};
  fill(kFirst);
  fill(kSecond);
  session_.take(kFirst, asking, dropped_);
  EXPECT_TRUE(session_.has(kFirst));
  session_.take(kSecond, {.node = &other_node, .node_reads_once = true}, dropped_);
  EXPECT_FALSE(session_.has(kFirst)) << "another node has asked";
  EXPECT_FALSE(session_.has(kSecond));
}

TEST_F(SessionTest, HandsReleasedTensorsToTheCaller) {
  fill(kFirst);
  session_.drop(kFirst, dropped_);
  session_.drop(kFirst, dropped_);
  EXPECT_EQ(dropped_.size(), 1U);
}

TEST_F(SessionTest, RestartsForAGroupOnly) {
  fill(kFirst);
  session_.take(kFirst, {}, dropped_);
  session_.restart_if_taken(kFirst);
  EXPECT_FALSE(session_.wants(kFirst));
  group_.fill(kFirst, {torch::ones({2}), 0}, dropped_);
  group_.take(kFirst, {}, dropped_);
  group_.restart_if_taken(kSecond);
  EXPECT_FALSE(group_.wants(kFirst));
  group_.restart_if_taken(kFirst);
  EXPECT_TRUE(group_.wants(kFirst));
}

TEST_F(SessionTest, IsLastInABackwardThatFreesTheGraph) {
  using enum SessionId::Kind;
  EXPECT_TRUE(Session(request_of(kBackward, /*keeps_graph=*/false)).is_last());
  EXPECT_FALSE(session_.is_last());
  EXPECT_FALSE(Session(request_of(kGroup, /*keeps_graph=*/false)).is_last());
  EXPECT_FALSE(Session(request_of(kRead, /*keeps_graph=*/false)).is_last());
}

}  // namespace
}  // namespace reprise::engine_internal::session_test
