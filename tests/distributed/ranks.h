// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Runs the body of a test on several ranks: processes of this program, over Gloo.
//
// Example:
//
//   TEST(SuiteTest, Case) {
//     on_ranks(3, [](Rank& rank) { EXPECT_EQ(rank.group->getSize(), 3); });
//   }
#ifndef REPRISE_TESTS_DISTRIBUTED_RANKS_H_
#define REPRISE_TESTS_DISTRIBUTED_RANKS_H_

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

namespace reprise::testing {

struct Rank {
  c10::intrusive_ptr<c10d::ProcessGroup> group;
  int index = 0;
  int size = 1;

  // Signals the others, and waits for their signals. For tests in which the group breaks.
  void tell(const std::string& news) const { group->getStore()->set(news, std::string("1")); }
  void wait_for(const std::string& news) const {
    group->getStore()->wait({news}, std::chrono::minutes(1));
  }
};

struct RankOptions {
  std::chrono::milliseconds group_timeout = std::chrono::minutes(1);
  // Of all ranks together: beyond it they are killed, and the test fails.
  std::chrono::seconds time_limit{120};
  std::optional<int> killed = std::nullopt;  // the rank that kills itself
};

// To be called once in a test, last. In the test itself it starts the ranks, each of which runs the
// test anew and, here, `body`; it fails if one of them does. Random numbers start alike on all.
// Skips the test if Reprise was built without Gloo.
void on_ranks(int size, const std::function<void(Rank&)>& body, const RankOptions& options = {});

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_DISTRIBUTED_RANKS_H_
