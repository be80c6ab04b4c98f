// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/watch/replay_origins.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

namespace reprise::engine_internal::replay_origins_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Forbids = ReplayOrigins::Forbids;

// Addresses of memory that nothing reads.
const std::array<char, 2> kMemory = {};
const StorageId kFirst = &kMemory[0], kSecond = &kMemory[1];

std::vector<SlotId> slots_of(const StaleSlots& stale) {
  std::vector<SlotId> slots;
  for (const StaleSlots::Slot& each : stale.all()) {
    slots.push_back(each.slot);
  }
  return slots;
}

TEST(ReplayOriginsTest, KnowsTheFirstStaleOne) {
  ReplayOrigins origins;
  EXPECT_EQ(origins.first_stale(), ProvenanceMap::kNone);
  origins.add("a member", Forbids::kKeep);
  EXPECT_EQ(origins.first_stale(), ProvenanceMap::kNone);
  const std::uint32_t first = origins.add("a changed buffer", Forbids::kSave);
  origins.add("another one", Forbids::kSave);
  EXPECT_EQ(origins.first_stale(), first);
}

TEST(ReplayOriginsTest, OrderByStrictnessBeforeTheOrderOfTheirAddition) {
  ReplayOrigins origins;
  const std::uint32_t nothing = origins.add("another operator");
  const std::uint32_t first_kept = origins.add("a member", Forbids::kKeep);
  const std::uint32_t second_kept = origins.add("a second member", Forbids::kKeep);
  const std::uint32_t changed = origins.add("a changed buffer", Forbids::kSave);
  EXPECT_LT(changed, first_kept);
  EXPECT_LT(first_kept, second_kept);
  EXPECT_LT(second_kept, nothing);
  EXPECT_LT(nothing, ProvenanceMap::kNone);
  EXPECT_EQ(origins.description(changed), "a changed buffer");
  EXPECT_EQ(origins.description(nothing), "another operator");
}

TEST(ReplayOriginsTest, KnowWhatAnyOfThemForbids) {
  ReplayOrigins origins;
  EXPECT_FALSE(origins.has(Forbids::kKeepInPlaceOfOutside));
  origins.add("an operator ahead of forward", Forbids::kKeepInPlaceOfOutside);
  EXPECT_TRUE(origins.has(Forbids::kKeepInPlaceOfOutside));
  EXPECT_FALSE(origins.has(Forbids::kKeep));
  origins.add("a changed buffer", Forbids::kSave);
  EXPECT_TRUE(origins.has(Forbids::kKeep));
}

TEST(ReplayOriginsTest, AreStaleIfTheyForbidASave) {
  ReplayOrigins origins;
  EXPECT_TRUE(ReplayOrigins::is_stale(origins.add("a changed buffer", Forbids::kSave)));
  EXPECT_FALSE(ReplayOrigins::is_stale(origins.add("a member", Forbids::kKeep)));
  EXPECT_FALSE(ReplayOrigins::is_stale(ProvenanceMap::kNone));
}

TEST(StaleSlotsTest, AreThoseOfStaleOriginInTheOrderOfTheirSaves) {
  ReplayOrigins origins;
  const std::uint32_t stale = origins.add("a changed buffer", Forbids::kSave);
  StaleSlots slots;
  slots.note_save(SlotId(4), kFirst, stale);
  slots.note_save(SlotId(1), kSecond, origins.add("a member", Forbids::kKeep));
  slots.note_save(SlotId(2), kFirst, ProvenanceMap::kNone);
  slots.note_operator();
  slots.note_save(SlotId(0), kSecond, stale);
  EXPECT_THAT(slots_of(slots), ElementsAre(SlotId(4), SlotId(0)));
  EXPECT_EQ(slots.all()[0].origin, stale);
}

// Autograd saves an operator's argument before the operator finds that it has changed.
TEST(StaleSlotsTest, AreThoseOfTheOperatorThatFindsTheChange) {
  ReplayOrigins origins;
  const std::uint32_t stale = origins.add("a changed buffer", Forbids::kSave);
  StaleSlots slots;
  slots.note_save(SlotId(0), kFirst, ProvenanceMap::kNone);
  slots.note_operator();
  slots.note_save(SlotId(1), kFirst, ProvenanceMap::kNone);
  slots.note_save(SlotId(2), kSecond, ProvenanceMap::kNone);
  slots.note_found(kFirst, stale);
  EXPECT_THAT(slots_of(slots), ElementsAre(SlotId(1)));
}

TEST(StaleSlotsTest, AreNotThoseThatTheirOperatorDoesNotRead) {
  ReplayOrigins origins;
  StaleSlots slots;
  slots.note_save(SlotId(7), kFirst, origins.add("a changed buffer", Forbids::kSave));
  const std::array<StorageId, 1> unused = {kFirst};
  slots.note_unused(unused);
  EXPECT_TRUE(slots.is_unused(SlotId(7)));
  EXPECT_FALSE(slots.is_unused(SlotId(8)));
  EXPECT_THAT(slots_of(slots), IsEmpty());
}

TEST(StaleSlotsTest, HaveTheFirstOriginOfTheHostsReads) {
  ReplayOrigins origins;
  const std::uint32_t first = origins.add("a changed buffer", Forbids::kSave);
  const std::uint32_t second = origins.add("another one", Forbids::kSave);
  StaleSlots slots;
  EXPECT_EQ(slots.host_read(), ProvenanceMap::kNone);
  slots.note_host_read(second);
  slots.note_host_read(first);
  EXPECT_EQ(slots.host_read(), first);
}

}  // namespace
}  // namespace reprise::engine_internal::replay_origins_test
