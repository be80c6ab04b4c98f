// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The private classes of which stores are built.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <memory>
#include <optional>
#include <stdexcept>

#include "reprise/hooks/buffers/residency_queue.h"
#include "reprise/hooks/storage/storage_origin.h"
#include "reprise/hooks/storage/storage_view.h"
#include "reprise/hooks/stored/option_checks.h"

namespace reprise::hooks_internal::storage_test {
namespace {

using ::testing::ThrowsMessage;

TEST(StorageViewTest, LooksAtTheBytesOfTheWholeStorage) {
  const at::Tensor matrix = at::arange(12, at::kFloat).view({3, 4});
  const at::Tensor view = matrix.t().slice(0, 1).requires_grad_();
  const StorageView recorded(view);
  EXPECT_FALSE(recorded.is_compact());
  const at::Tensor copy = storage_bytes(matrix).clone();
  const at::Tensor seen = recorded.of(copy);
  EXPECT_TRUE(at::equal(seen, view));
  EXPECT_EQ(seen.strides(), view.strides());
  EXPECT_EQ(seen.storage_offset(), view.storage_offset());
  EXPECT_TRUE(seen.requires_grad());
  EXPECT_TRUE(seen.is_alias_of(copy));
}

TEST(StorageViewTest, StoresOnlyTheElementsOfASmallPart) {
  const at::Tensor matrix = at::arange(64, at::kFloat).view({8, 8});
  const at::Tensor column = matrix.select(1, 3);
  const StorageView recorded(column);
  EXPECT_TRUE(recorded.is_compact());
  const at::Tensor bytes = compact_elements(column);
  EXPECT_EQ(bytes.nbytes(), 8 * sizeof(float));
  EXPECT_TRUE(at::equal(recorded.of(bytes), column));
}

TEST(StorageViewTest, RestoresConjugation) {
  const at::Tensor z = torch::randn({4}, at::kComplexFloat).conj();
  const at::Tensor seen = StorageView(z).of(storage_bytes(z).clone());
  EXPECT_TRUE(seen.is_conj());
  EXPECT_TRUE(at::equal(seen, z));
}

TEST(StorageOriginTest, NoticesAWrite) {
  const at::Tensor x = at::zeros({4});
  const StorageOrigin origin(storage_bytes(x));
  EXPECT_EQ(origin.size(), 16);
  EXPECT_TRUE(origin.is_unchanged());
  EXPECT_TRUE(origin.is_of(storage_bytes(x)));
  x.add_(1);
  EXPECT_FALSE(origin.is_unchanged());
  EXPECT_FALSE(origin.is_of(storage_bytes(x)));
}

TEST(StorageOriginTest, FindsTheStorageAsLongAsItHasAnOwner) {
  at::Tensor x = at::zeros({4});
  const StorageOrigin origin(storage_bytes(x));
  EXPECT_TRUE(origin.find_alive().is_alias_of(x));
  x.reset();
  EXPECT_FALSE(origin.find_alive().defined());
}

struct Entry : std::enable_shared_from_this<Entry> {
  explicit Entry(const at::Tensor& bytes) : origin_(bytes) {}
  const StorageOrigin& origin() const { return origin_; }
  StorageOrigin origin_;
};

std::shared_ptr<Entry> entry_of(std::int64_t bytes) {
  return std::make_shared<Entry>(at::empty({bytes}, at::kByte));
}

TEST(ResidencyQueueTest, TakesTheOldestFirst) {
  ResidencyQueue<Entry> queue;
  const auto first = entry_of(10);
  const auto second = entry_of(5);
  queue.add(*first);
  queue.add(*second);
  EXPECT_EQ(queue.resident_count(), 2);
  EXPECT_EQ(queue.resident_bytes(), 15);
  EXPECT_EQ(queue.take_oldest(), first);
  EXPECT_EQ(queue.resident_bytes(), 5);
  queue.add_first(*first);
  EXPECT_EQ(queue.take_oldest(), first);
  EXPECT_EQ(queue.take_oldest(), second);
  EXPECT_EQ(queue.take_oldest(), nullptr);
}

TEST(ResidencyQueueTest, CountsBytesInFlight) {
  ResidencyQueue<Entry> queue;
  const auto first = entry_of(10);
  const auto second = entry_of(5);
  queue.start_flight(*first);
  queue.start_flight(*second);
  EXPECT_EQ(queue.in_flight_bytes(), 15);
  EXPECT_EQ(queue.oldest_in_flight(), first.get());
  queue.end_flight(*first);
  EXPECT_EQ(queue.oldest_in_flight(), second.get());
  queue.end_flight(*second);
  EXPECT_EQ(queue.oldest_in_flight(), nullptr);
  EXPECT_EQ(queue.in_flight_bytes(), 0);
}

TEST(ResidencyQueueTest, PassesOverEntriesThatAreBeingDestroyed) {
  ResidencyQueue<Entry> queue;
  Entry dying(at::empty({3}, at::kByte));  // no shared_ptr owns it
  const auto alive = entry_of(5);
  queue.add(dying);
  queue.add(*alive);
  EXPECT_EQ(queue.take_oldest(), alive);
  queue.remove_resident(dying);
  EXPECT_EQ(queue.resident_bytes(), 0);
}

TEST(OptionChecksTest, NameTheNegativeOption) {
  EXPECT_NO_THROW(check_not_negative("stores.x", {{"min_bytes", 0}}));
  EXPECT_THAT(
      [] {
        check_not_negative("stores.x", {{"min_bytes", 0}, {"keep_last", -1}});
      },
      ThrowsMessage<std::invalid_argument>("[stores.x] keep_last is negative: -1"));
}

}  // namespace
}  // namespace reprise::hooks_internal::storage_test
