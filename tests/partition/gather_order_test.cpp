// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Two ranks are two threads here, over a store in memory.
#include "reprise/partition/gathering/gather_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <array>
#include <chrono>
#include <exception>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "reprise/partition/partition_error.h"

namespace reprise::partition_internal::gather_order_test {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A group without backends has no name of its own.
class NamedGroup final : public c10d::ProcessGroup {
 public:
  using ProcessGroup::ProcessGroup;
  const std::string& getGroupName() const override { return name_; }

 private:
  const std::string name_ = "tested";
};

class GatherOrderTest : public ::testing::Test {
 protected:
  using Messages = std::array<std::string, 2>;

  c10::intrusive_ptr<c10d::ProcessGroup> group(int rank) {
    return c10::make_intrusive<NamedGroup>(store_, rank, 2);
  }

  // Returns the message of the error that a rank meets; empty without one.
  std::string check(int rank, const GatherDescription& description, milliseconds timeout) {
    try {
      orders_.at(static_cast<std::size_t>(rank))
          .check_next(*store_, *group(rank), description, timeout);
      return "";
    } catch (const PartitionError& error) {
      return error.what_without_backtrace();
    } catch (const std::exception& error) {
      return std::string("no PartitionError: ") + error.what();
    }
  }

  Messages check_both(const GatherDescription& first, const GatherDescription& second) {
    Messages messages;
    std::thread other([&] { messages[1] = check(1, second, milliseconds(20000)); });
    messages[0] = check(0, first, milliseconds(20000));
    other.join();
    return messages;
  }

  c10::intrusive_ptr<c10d::HashStore> store_ = c10::make_intrusive<c10d::HashStore>();
  std::array<GatherOrder, 2> orders_;
};

TEST_F(GatherOrderTest, AcceptsEqualContentsUnderAnyName) {
  for (int gather = 0; gather < 4; ++gather) {
    EXPECT_THAT(check_both({"put #1", "float [4]"}, {"put #7", "float [4]"}), Each(IsEmpty()));
  }
  EXPECT_LE(store_->getNumKeys(), 5) << "descriptions of earlier gathers are deleted";
}

TEST_F(GatherOrderTest, NamesTheContentsOfEachRank) {
  EXPECT_THAT(
      check_both({"put #1", "float [4]"}, {"put #2", "float [5]"}),
      Each(AllOf(HasSubstr("rank 0: put #1: float [4]"), HasSubstr("rank 1: put #2: float [5]"))));
}

TEST_F(GatherOrderTest, NamesARankThatHasNotComeAndItsLastGather) {
  EXPECT_THAT(check_both({"put #1", "float [4]"}, {"put #1", "float [4]"}), Each(IsEmpty()));
  EXPECT_THAT(check(0, {"put #2", "float [8]"}, milliseconds(50)),
              AllOf(HasSubstr("not all ranks have come to gather #1 within 50 ms"),
                    HasSubstr("rank 0: put #2: float [8]"),
                    HasSubstr("rank 1: has not come; its last gather was put #1: float [4]")));
}

TEST_F(GatherOrderTest, IsOnePerGroup) {
  const auto one = group(0);
  const auto other = group(0);
  EXPECT_EQ(GatherOrder::of(one), GatherOrder::of(one));
  EXPECT_NE(GatherOrder::of(one), GatherOrder::of(other));
}

}  // namespace
}  // namespace reprise::partition_internal::gather_order_test
