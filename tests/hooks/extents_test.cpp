// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/hooks/buffers/extents.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace reprise::hooks_internal::extents_test {
namespace {

Extent take(Extents& extents, std::size_t length) { return extents.take(length).value(); }

TEST(ExtentsTest, FreePartsAreUsedAgain) {
  Extents extents;
  const Extent a = take(extents, 10);
  const Extent b = take(extents, 20);
  const Extent c = take(extents, 30);
  EXPECT_EQ(extents.end(), 60U);
  extents.give_back(a);
  EXPECT_EQ(extents.used(), 50U);
  EXPECT_EQ(take(extents, 4).offset, 0U);
  EXPECT_EQ(take(extents, 7).offset, 60U);  // does not fit into what is left
  EXPECT_EQ(take(extents, 6).offset, 4U);
  extents.give_back(c);
  extents.give_back(b);
  EXPECT_EQ(take(extents, 50).offset, 10U);  // together
  EXPECT_EQ(extents.end(), 67U);
}

TEST(ExtentsTest, ReturnsTheEnd) {
  Extents extents;
  const Extent a = take(extents, 10);
  const Extent b = take(extents, 20);
  extents.give_back(a);
  EXPECT_EQ(extents.end(), 30U);
  extents.give_back(b);
  EXPECT_EQ(extents.end(), 0U);
  EXPECT_EQ(extents.used(), 0U);
}

TEST(ExtentsTest, NothingBeyondTheLimit) {
  Extents extents(100);
  const Extent a = take(extents, 60);
  take(extents, 30);
  EXPECT_FALSE(extents.take(11));
  EXPECT_EQ(extents.largest_free(), 10U);
  EXPECT_EQ(extents.used(), 90U);
  extents.give_back(a);
  EXPECT_EQ(extents.largest_free(), 60U);
  EXPECT_FALSE(extents.take(61));
  EXPECT_EQ(take(extents, 60).offset, 0U);
  EXPECT_EQ(take(extents, 10).offset, 90U);
  EXPECT_EQ(extents.largest_free(), 0U);
}

TEST(ExtentsTest, NoTwoOverlap) {
  std::mt19937 random(7);
  Extents extents;
  std::vector<bool> is_used(1 << 16);
  std::vector<Extent> taken;
  const auto mark = [&](const Extent& extent, bool used) {
    for (std::int64_t i = extent.offset; i < extent.offset + extent.length; ++i) {
      ASSERT_NE(is_used[i], used);
      is_used[i] = used;
    }
  };
  for (int step = 0; step < 5000; ++step) {
    if (taken.size() < 30 && random() % 2 == 0) {
      taken.push_back(take(extents, 1 + random() % 100));
      mark(taken.back(), true);
    } else if (!taken.empty()) {
      std::swap(taken[random() % taken.size()], taken.back());
      mark(taken.back(), false);
      extents.give_back(taken.back());
      taken.pop_back();
    }
  }
  EXPECT_LE(extents.end(), 30U * 100 * 3);
}

}  // namespace
}  // namespace reprise::hooks_internal::extents_test
