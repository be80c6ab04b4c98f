// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/tape/replay_actions.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace reprise::engine_internal::replay_actions_test {
namespace {

using ::testing::ElementsAre;

// Values are numbered as they are made.
class ReplayActionsTest : public ::testing::Test {
 protected:
  using Values = std::vector<int>;

  // Adds an operator that makes one value, and returns that.
  int make(const Values& reads = {}) { return make_several(1, reads)[0]; }
  Values make_several(int count, const Values& reads = {}) {
    Tape::Operator op = begin(reads);
    Values made;
    for (int i = 0; i < count; ++i) {
      const TapeValueId value = add_value();
      tape_.made.push_back({value, {}, static_cast<std::uint16_t>(i)});
      made.push_back(static_cast<int>(value.number()));
    }
    end(op);
    return made;
  }
  // Adds an operator that writes to the memory of a value, and returns the value that it leaves.
  int write(int before, Values reads = {}) {
    reads.push_back(before);
    Tape::Operator op = begin(reads);
    const TapeValueId after = add_value();
    tape_.writes.push_back({TapeValueId(before), after});
    end(op);
    return static_cast<int>(after.number());
  }
  // Adds an operator that has to run, for its effects.
  void use(const Values& reads) {
    end(begin(reads));
    tape_.operators.back().is_required = true;
  }

  ReplayActions find(const Values& needed, const Values& saved) const {
    TapeValueSet set(tape_.values.size());
    for (const int value : needed) {
      set[TapeValueId(value)] = true;
    }
    const auto is_saved = [&](TapeValueId value) {
      return std::find(saved.begin(), saved.end(), static_cast<int>(value.number())) != saved.end();
    };
    const TapeOperatorSet supplied = supplied_operators(tape_, is_saved);
    TapeOperatorSet runs = needed_operators(tape_, set, is_saved, &supplied);
    return find_actions(tape_, set, std::move(runs), is_saved);
  }

  static std::vector<bool> runs(const ReplayActions& actions) {
    return std::vector<bool>(actions.runs.begin(), actions.runs.end());
  }
  // Returns -1 for none.
  static int supplied(const ReplayActions& actions, int value) {
    const TapeValueId id = actions.supplied[TapeValueId(value)];
    return id == Tape::kNone ? -1 : static_cast<int>(id.number());
  }

  Tape tape_;

 private:
  Tape::Operator begin(const Values& reads) {
    Tape::Operator op{.op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::sin", "")};
    op.first_argument = static_cast<std::uint32_t>(tape_.arguments.size());
    op.first_made = static_cast<std::uint32_t>(tape_.made.size());
    op.first_write = static_cast<std::uint32_t>(tape_.writes.size());
    for (const int value : reads) {
      tape_.arguments.emplace_back(Tape::Argument::Kind::kTensor, static_cast<std::uint32_t>(value),
                                   GeometryId());
    }
    op.end_argument = static_cast<std::uint32_t>(tape_.arguments.size());
    return op;
  }
  void end(Tape::Operator op) {
    op.end_made = static_cast<std::uint32_t>(tape_.made.size());
    op.end_write = static_cast<std::uint32_t>(tape_.writes.size());
    tape_.operators.push_back(op);
  }
  TapeValueId add_value() {
    const TapeValueId value = tape_.values.next_id();
    tape_.values.push_back({tape_.operators.next_id()});
    return value;
  }
};

TEST_F(ReplayActionsTest, OperatorsRunForNeededValuesThatAreNotSaved) {
  const int a = make();
  const int b = make({a});
  const int c = make({b});
  const int unneeded = make({b});
  const ReplayActions actions = find({c}, {b});
  EXPECT_THAT(runs(actions), ElementsAre(false, false, true, false));
  EXPECT_EQ(supplied(actions, a), -1);  // a stand-in
  EXPECT_EQ(supplied(actions, b), b);
  EXPECT_EQ(supplied(actions, c), -1);
  EXPECT_EQ(supplied(actions, unneeded), -1);
}

TEST_F(ReplayActionsTest, ASavedValueThatIsNotNeededIsNotSupplied) {
  const int a = make();
  const ReplayActions actions = find({}, {a});
  EXPECT_THAT(runs(actions), ElementsAre(false));
  EXPECT_EQ(supplied(actions, a), -1);
}

TEST_F(ReplayActionsTest, EffectsRunAndNeedWhatTheyRead) {
  const int a = make();
  const int b = make();
  use({b});
  const ReplayActions actions = find({}, {a});
  EXPECT_THAT(runs(actions), ElementsAre(false, true, true));
}

TEST_F(ReplayActionsTest, EffectsWithSuppliedResultsDoNotRun) {
  const int a = make();
  tape_.operators.back().is_required = true;  // as a collective
  const int b = write(a);
  tape_.operators.back().is_required = true;
  EXPECT_THAT(runs(find({b}, {})), ElementsAre(true, true));
  EXPECT_THAT(runs(find({b}, {b})), ElementsAre(false, false));
  EXPECT_EQ(supplied(find({b}, {b}), a), b);
}

TEST_F(ReplayActionsTest, OfSeveralResultsTheSavedOnesAreSupplied) {
  const Values made = make_several(2);
  EXPECT_THAT(runs(find({made[0], made[1]}, {made[1]})), ElementsAre(true));
  EXPECT_EQ(supplied(find({made[0], made[1]}, {made[1]}), made[1]), made[1]);
  EXPECT_EQ(supplied(find({made[0], made[1]}, {made[1]}), made[0]), -1);
  EXPECT_THAT(runs(find({made[1]}, {made[1]})), ElementsAre(false));
}

TEST_F(ReplayActionsTest, TheOutcomeOfSkippedWritesIsSuppliedAsTheResult) {
  const int a = make();
  const int b = write(a);
  const int c = write(b);
  const ReplayActions actions = find({c}, {c});
  EXPECT_THAT(runs(actions), ElementsAre(false, false, false));
  EXPECT_EQ(supplied(actions, a), c);
  EXPECT_FALSE(actions.is_copied[TapeValueId(b)] || actions.is_copied[TapeValueId(c)]);
  EXPECT_FALSE(actions.is_left_out[TapeValueId(b)] || actions.is_left_out[TapeValueId(c)]);
  EXPECT_FALSE(actions.is_written[TapeValueId(c)]);
}

TEST_F(ReplayActionsTest, TheOutcomeOfAWriteIsCopiedIfTheEarlierContentsAreRead) {
  const int a = make();
  const int read = make({a});
  const int b = write(a);
  const ReplayActions actions = find({read, b}, {b});
  EXPECT_THAT(runs(actions), ElementsAre(true, true, false));
  EXPECT_EQ(supplied(actions, a), -1);
  EXPECT_TRUE(actions.is_copied[TapeValueId(b)]);
}

TEST_F(ReplayActionsTest, SavedContentsThatTheReplayOverwritesAreSuppliedAsACopy) {
  const int a = make();
  const int b = write(a);
  const ReplayActions actions = find({a, b}, {a});
  EXPECT_THAT(runs(actions), ElementsAre(false, true));
  EXPECT_EQ(supplied(actions, a), a);
  EXPECT_TRUE(actions.is_written[TapeValueId(a)]);
}

TEST_F(ReplayActionsTest, SavedContentsUnderALaterSavedOutcomeAreSuppliedAsACopy) {
  const int a = make();
  const int read = make({a});
  const int b = write(a);
  const ReplayActions actions = find({a, read, b}, {a, b});
  EXPECT_THAT(runs(actions), ElementsAre(false, true, false));
  EXPECT_EQ(supplied(actions, a), a);
  EXPECT_TRUE(actions.is_copied[TapeValueId(b)]);
  EXPECT_TRUE(actions.is_written[TapeValueId(a)]);
}

TEST_F(ReplayActionsTest, AWriteThatNobodyNeedsIsLeftOut) {
  const int a = make();
  const int b = write(a);
  const ReplayActions actions = find({a}, {});
  EXPECT_THAT(runs(actions), ElementsAre(true, false));
  EXPECT_TRUE(actions.is_left_out[TapeValueId(b)]);
}

TEST_F(ReplayActionsTest, ARunningWriteNeedsWhatItWritesTo) {
  const int a = make();
  const int b = write(a);
  const int c = write(b);
  const ReplayActions actions = find({c}, {b});
  EXPECT_THAT(runs(actions), ElementsAre(false, false, true));
  EXPECT_EQ(supplied(actions, a), b);
  EXPECT_TRUE(actions.is_written[TapeValueId(b)]);
}

}  // namespace
}  // namespace reprise::engine_internal::replay_actions_test
