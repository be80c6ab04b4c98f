// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/effects/stale_reads.h"

#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <string>
#include <vector>

namespace reprise::engine_internal::stale_reads_test {
namespace {

// Addresses of memory that nothing reads.
const std::array<char, 4> kMemory = {};
const StorageId kOutside = &kMemory[0], kFirst = &kMemory[1], kSecond = &kMemory[2];

void run(StaleReads& reads, std::vector<StorageId> inputs, std::vector<StorageId> outputs,
         std::optional<std::string> stale = std::nullopt) {
  reads.note_operator(inputs, outputs, std::move(stale));
}

std::optional<std::string> conflict_of(const StaleReads& reads) {
  const std::vector<StaleReads::Conflict> conflicts = reads.conflicts();
  return conflicts.empty() ? reads.host_read() : conflicts[0].message;
}

TEST(StaleReadsTest, AcceptValuesThatNoSavedTensorDependsOn) {
  StaleReads reads;
  run(reads, {kOutside}, {kFirst}, "it changed");
  EXPECT_EQ(conflict_of(reads), std::nullopt);
}

TEST(StaleReadsTest, FollowAValueToASavedTensor) {
  StaleReads reads;
  run(reads, {kOutside}, {kFirst}, "it changed");
  run(reads, {kFirst}, {kSecond});
  reads.note_save(SlotId(0), kSecond);
  EXPECT_EQ(conflict_of(reads), "it changed");
}

TEST(StaleReadsTest, FollowAValueToTheHost) {
  StaleReads reads;
  run(reads, {kOutside}, {kFirst}, "it changed");
  run(reads, {kFirst}, {});
  EXPECT_EQ(conflict_of(reads), "it changed");
}

TEST(StaleReadsTest, ForgetMemoryThatIsUsedAgain) {
  StaleReads reads;
  run(reads, {kOutside}, {kFirst}, "it changed");
  run(reads, {kSecond}, {kFirst});
  reads.note_save(SlotId(0), kFirst);
  EXPECT_EQ(conflict_of(reads), std::nullopt);
}

TEST(StaleReadsTest, ExceptTensorsThatTheirOperatorDoesNotRead) {
  StaleReads reads;
  run(reads, {kOutside}, {kFirst}, "it changed");
  reads.note_save(SlotId(7), kFirst);  // by the operator that comes next
  const std::array<StorageId, 1> unused = {kFirst};
  reads.note_unused(unused);
  EXPECT_TRUE(reads.is_unused(SlotId(7)));
  EXPECT_FALSE(reads.is_unused(SlotId(8)));
  EXPECT_EQ(conflict_of(reads), std::nullopt);
}

}  // namespace
}  // namespace reprise::engine_internal::stale_reads_test
