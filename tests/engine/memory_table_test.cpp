// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/operators/memory_table.h"

#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <vector>

#include "reprise/base/threading/size_hint.h"

namespace reprise::engine_internal::memory_table_test {
namespace {

at::Tensor sparse() { return at::ones({2, 2}).to_sparse(); }

TEST(MemoryTableTest, TensorsOfOneStorageHaveOneNumber) {
  MemoryTable table;
  const at::Tensor x = at::ones({4});
  const at::Tensor y = at::ones({4});
  EXPECT_EQ(table.add(x), MemoryId(0));
  EXPECT_EQ(table.add(y), MemoryId(1));
  EXPECT_EQ(table.add(x.slice(0, 1, 2)), MemoryId(0));
  EXPECT_EQ(table.add(weak_storage_of(y)), MemoryId(1));
  EXPECT_EQ(table.size(), 2U);
  EXPECT_EQ(table[MemoryId(1)].id, storage_id_of(y));
}

TEST(MemoryTableTest, FindsOnlyThatWhichWasAdded) {
  MemoryTable table;
  const at::Tensor x = at::ones({4});
  const at::Tensor y = at::ones({4});
  table.add(x);
  EXPECT_EQ(table.find(storage_id_of(x)), MemoryId(0));
  EXPECT_EQ(table.find(storage_id_of(y)), base_internal::kNoId);
  EXPECT_EQ(table.find(nullptr), base_internal::kNoId);
}

TEST(MemoryTableTest, RetainsNoElements) {
  MemoryTable table;
  at::Tensor x = at::ones({4});
  const MemoryId id = table.add(x);
  EXPECT_FALSE(table[id].storage.expired());
  x.reset();
  EXPECT_TRUE(table[id].storage.expired());
}

// Without the weak reference, malloc() would return the freed address at once.
TEST(MemoryTableTest, PreventsTheReuseOfAddresses) {
  MemoryTable table;
  for (int i = 0; i < 64; ++i) {
    EXPECT_EQ(table.add(at::ones({4})), MemoryId(2 * i));
    EXPECT_EQ(table.add(sparse()), MemoryId(2 * i + 1));
  }
}

TEST(MemoryTableTest, TensorsWithoutAStorageAreIdentifiedAsObjects) {
  MemoryTable table;
  const at::Tensor x = sparse();
  const at::Tensor alias = x;
  const MemoryId id = table.add(x);
  EXPECT_EQ(table.add(alias), id);
  EXPECT_EQ(table[id].id, x.unsafeGetTensorImpl());
  EXPECT_EQ(table[id].tensor.lock().get(), x.unsafeGetTensorImpl());
  EXPECT_NE(table.add(sparse()), id);
}

TEST(MemoryTableTest, AddsATensorRegardlessOfItsStorage) {
  MemoryTable table;
  const at::Tensor x = at::ones({4});
  const MemoryId storage = table.add(x);
  const MemoryId object = table.add_object(x);
  EXPECT_NE(object, storage);
  EXPECT_EQ(table[object].id, x.unsafeGetTensorImpl());
}

TEST(MemoryTableTest, ANewTableKnowsNothingOfTheLastOne) {
  const at::Tensor x = at::ones({4});
  { MemoryTable().add(x); }
  const MemoryTable table;
  EXPECT_EQ(table.size(), 0U);
  EXPECT_EQ(table.find(storage_id_of(x)), base_internal::kNoId);
}

TEST(MemoryTableTest, TwoTablesOfAThreadAreApart) {
  MemoryTable outer;
  outer.add(at::ones({4}));
  MemoryTable inner;
  EXPECT_EQ(inner.add(at::ones({4})), MemoryId(0));
  EXPECT_EQ(outer.size(), 1U);
}

TEST(SizeHintTest, ReservesTheLastSizeUpToABound) {
  base_internal::SizeHint hint;
  std::vector<int> first(100);
  first.reserve(300);
  hint.complete(first);
  EXPECT_EQ(first.capacity(), 100U);
  std::vector<int> second;
  hint.reserve(second);
  EXPECT_EQ(second.capacity(), 100U);
  std::vector<int> large(10'000);
  hint.complete(large);
  std::vector<int> third;
  hint.reserve(third);
  EXPECT_EQ(third.capacity(), 256U);
}

}  // namespace
}  // namespace reprise::engine_internal::memory_table_test
