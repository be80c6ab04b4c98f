// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/tape/tape.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstddef>
#include <vector>

#include "reprise/engine/tape/tape_needs.h"
#include "reprise/engine/tape/tape_uses.h"

namespace reprise::engine_internal::tape_test {
namespace {

using ::testing::ElementsAre;

// A tape input x; a = sin(x), b = exp(a), c = cos(x). Slots: a, b, c.
class TapeTest : public ::testing::Test {
 protected:
  TapeTest() {
    add_value({});
    Tape::Given input;
    input.why = Tape::Given::Why::kOutside;
    tape_.given.emplace(kX, std::move(input));
    for (const TapeValueId operand : {kX, kA, kX}) {
      add_operator(operand);
    }
    for (const TapeValueId value : {kA, kB, kC}) {
      tape_.slots.push_back({value, {}});
    }
  }

  void add_value(TapeOperatorId op) { tape_.values.push_back({op}); }
  void add_operator(TapeValueId operand) {
    Tape::Operator op{.op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::sin", "")};
    op.first_argument = static_cast<std::uint32_t>(tape_.arguments.size());
    op.end_argument = op.first_argument + 1;
    op.first_made = static_cast<std::uint32_t>(tape_.made.size());
    op.end_made = op.first_made + 1;
    tape_.arguments.push_back({Tape::Argument::Kind::kTensor, operand.number(), {}});
    tape_.made.push_back({tape_.values.next_id(), {}, 0});
    add_value(tape_.operators.next_id());
    tape_.operators.push_back(std::move(op));
  }

  static SlotSet slots(std::vector<std::size_t> numbers) {
    SlotSet set(3);
    for (const std::size_t number : numbers) {
      set[SlotId(number)] = true;
    }
    return set;
  }
  template <class Set>
  static std::vector<bool> bits(const Set& set) {
    return std::vector<bool>(set.begin(), set.end());
  }

  static constexpr TapeValueId kX{0}, kA{1}, kB{2}, kC{3};
  Tape tape_;
};

TEST_F(TapeTest, NeedsTheInputsOfWantedValues) {
  const auto is_available = [this](TapeValueId value) { return tape_.given.contains(value); };
  TapeOperatorSet operators;
  EXPECT_THAT(bits(needed_values(tape_, slots({1}), operators, is_available)),
              ElementsAre(true, true, true, false));
  EXPECT_THAT(bits(operators), ElementsAre(true, true, false));
}

TEST_F(TapeTest, NeedsNothingBehindAnAvailableValue) {
  const auto is_available = [](TapeValueId value) { return value == kA; };
  TapeOperatorSet operators;
  EXPECT_THAT(bits(needed_values(tape_, slots({1}), operators, is_available)),
              ElementsAre(false, true, true, false));
  EXPECT_THAT(bits(operators), ElementsAre(false, true, false));
}

TEST_F(TapeTest, RenumbersTheOperatorsThatAreNeeded) {
  TapeOperatorSet needed(3);
  needed[TapeOperatorId(2)] = true;
  drop_operators_but(tape_, needed);
  ASSERT_EQ(tape_.operators.size(), 1U);
  EXPECT_EQ(tape_.values[kC].op, TapeOperatorId(0));
  EXPECT_EQ(tape_.values[kA].op, Tape::kNone);
  EXPECT_EQ(tape_.made[0].value, kC);
  EXPECT_EQ(tape_.generation, 1U);
}

TEST_F(TapeTest, ReleasesAnInputWithItsLastUser) {
  TapeUses uses(tape_, slots({0, 1, 2}));
  EXPECT_EQ(uses.drop_slot(tape_, SlotId(0)).size(), 0U) << "the second slot depends on it";
  EXPECT_EQ(uses.drop_slot(tape_, SlotId(1)).size(), 0U) << "the third slot depends on x";
  EXPECT_TRUE(tape_.given.contains(kX));
  EXPECT_EQ(uses.drop_slot(tape_, SlotId(2)).size(), 1U);
  EXPECT_FALSE(tape_.given.contains(kX));
}

TEST_F(TapeTest, CountsNoUseOfDeadSlots) {
  TapeUses uses(tape_, slots({2}));
  EXPECT_EQ(uses.drop_slot(tape_, SlotId(2)).size(), 0U) << "operators of dead slots count";
}

TEST(GeometryTest, LooksAtAnotherStorageTheSameWay) {
  const at::Tensor matrix = at::arange(12, at::kFloat).view({3, 4});
  const at::Tensor column = matrix.t().slice(0, 1, 3);
  const Geometry geometry(column);
  EXPECT_TRUE(geometry.is_of(column));
  EXPECT_FALSE(geometry.is_of(matrix));
  const at::Tensor copy = matrix.clone();
  EXPECT_TRUE(at::equal(geometry.look_at(copy, 0), column));
  EXPECT_TRUE(geometry.look_at(copy, 0).is_alias_of(copy));
}

TEST(GeometryTest, ShiftsWithItsBase) {
  const at::Tensor whole = at::arange(8, at::kFloat);
  const Geometry geometry(at::zeros({4}));
  EXPECT_TRUE(at::equal(geometry.look_at(whole, 4), whole.slice(0, 4)));
}

TEST(GeometryTest, CoversPartsWithoutGaps) {
  const at::Tensor matrix = at::zeros({3, 4});
  const Geometry whole(matrix);
  EXPECT_TRUE(covers(whole, whole));
  EXPECT_TRUE(covers(whole, Geometry(matrix[1])));
  EXPECT_TRUE(covers(whole, Geometry(matrix.t())));
  EXPECT_FALSE(covers(Geometry(matrix[1]), whole));
  EXPECT_FALSE(covers(Geometry(matrix.slice(1, 0, 2)), Geometry(matrix[1].slice(0, 0, 1))))
      << "the first has gaps";
  EXPECT_FALSE(covers(Geometry(matrix.select(1, 0).expand({4, 3})), Geometry(matrix[0])));
}

}  // namespace
}  // namespace reprise::engine_internal::tape_test
