// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/hooks/compressed_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "reprise/hooks/background/compression.h"
#include "reprise/hooks/disk_store.h"
#include "reprise/hooks/store_guard.h"
#include "tests/hooks/background_test.h"
#include "tests/testing/bitwise.h"
#include "tests/testing/counting.h"

namespace reprise::compressed_store_test {
namespace {

class CompressedStoreTest : public testing::BackgroundTest {};

using testing::bitwise_equal;
using testing::cpu_bytes_come_to;
using ::testing::HasSubstr;
using testing::live_cpu_bytes;
using testing::settled_cpu_bytes;
using ::testing::ThrowsMessage;

CompressedOptions all() { return {.min_bytes = 0, .keep_last = 0}; }

// The part that is left of the tensor's bytes in memory; 1 if it has been handed on.
double ratio(const at::Tensor& values) {
  const auto store = stores::compressed(all());
  at::Tensor x = values.clone();
  const std::int64_t before = settled_cpu_bytes() - static_cast<std::int64_t>(x.nbytes());
  const auto stored = store->put(x);
  x.reset();
  store->flush();
  const std::int64_t kept = live_cpu_bytes() - before;
  EXPECT_EQ(static_cast<std::int64_t>(stored->device_bytes()), kept);
  const CompressedCounters counters = store->counters();
  const bool is_handed_on = counters.bytes_forwarded > 0;
  EXPECT_EQ(is_handed_on ? counters.bytes_forwarded : counters.compressed_bytes, kept);
  EXPECT_EQ(counters.bytes_out, is_handed_on ? 0 : values.nbytes());
  EXPECT_TRUE(bitwise_equal(stored->get(), values));
  return static_cast<double>(kept) / static_cast<double>(values.nbytes());
}

TEST_F(CompressedStoreTest, HowSmallTensorsBecome) {
  torch::manual_seed(3);
  const at::Tensor values = at::randn({400, 500});
  EXPECT_LT(ratio(at::zeros({400, 500})), 0.001);
  EXPECT_LT(ratio((values - 1).relu()), 0.25);  // one in six is above 0
  EXPECT_LT(ratio(values.to(at::kBFloat16)), 0.82);
  EXPECT_EQ(ratio(values), 1.0);
  EXPECT_LT(ratio(at::arange(100000)), 0.15);
  EXPECT_EQ(ratio(at::randint(0, 256, {100000}, at::kByte)), 1.0);
}

TEST_F(CompressedStoreTest, ForwardsCompressedBytes) {
  const auto disk =
      stores::disk({.directory = ::testing::TempDir(), .min_bytes = 0, .keep_last = 0});
  const auto compressed = stores::compressed(all());
  const auto store = compressed | disk;
  const at::Tensor values = at::randn({300, 400}).relu();
  at::Tensor x = values.clone();
  const std::int64_t before = settled_cpu_bytes() - static_cast<std::int64_t>(x.nbytes());
  const auto stored = store->put(x);
  x.reset();
  compressed->flush();
  disk->flush();
  EXPECT_TRUE(cpu_bytes_come_to(before));
  EXPECT_EQ(disk->counters().bytes_out, compressed->counters().compressed_bytes);
  stored->prefetch();
  EXPECT_TRUE(bitwise_equal(stored->get(), values));
}

// Each thread of the background waits for others if it waits at all.
TEST_F(CompressedStoreTest, CompressesManyTensorsInFrontOfADisk) {
  const auto disk = stores::disk({.directory = ::testing::TempDir(),
                                  .min_bytes = 0,
                                  .max_in_flight_bytes = 0,
                                  .keep_last = 0});
  const auto store = stores::compressed(all()) | disk;
  const at::Tensor values = at::randn({100, 100}).relu();
  std::vector<std::unique_ptr<StoredTensor>> stored;
  for (int i = 0; i < 40; ++i) {
    stored.push_back(store->put(values + i));
  }
  for (const auto& each : stored) {
    each->prefetch();
  }
  for (int i = 0; i < 40; ++i) {
    EXPECT_TRUE(bitwise_equal(stored[static_cast<std::size_t>(i)]->get(), values + i));
  }
}

TEST_F(CompressedStoreTest, LeavesTheTensorOnTheDeviceIfTheNextStoreFails) {
  class Failing final : public ActivationStore {
   public:
    std::unique_ptr<StoredTensor> put(const at::Tensor& /*tensor*/) override {
      throw std::runtime_error("no room at all");
    }
  };
  const auto compressed = stores::compressed(all());
  const auto store = compressed | std::make_shared<Failing>();
  const auto stored = store->put(at::zeros({3000}));
  compressed->flush();
  EXPECT_TRUE(bitwise_equal(stored->get(), at::zeros({3000})));
  EXPECT_THAT([&] { store->put(at::zeros({3000})); },
              ThrowsMessage<std::runtime_error>(HasSubstr("no room at all")));
}

TEST_F(CompressedStoreTest, RefusesAnUnknownLevel) {
  EXPECT_THAT([] { static_cast<void>(stores::compressed({.level = 99})); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("the level is 99")));
}

TEST(CompressionTest, ShuffleAndBack) {
  std::vector<std::byte> bytes(1000);
  std::generate(bytes.begin(), bytes.end(), [n = 0]() mutable { return std::byte(n++ % 251); });
  for (const std::size_t size : {0U, 1U, 7U, 8U, 9U, 999U, 1000U}) {
    for (const std::size_t element : {1U, 2U, 4U, 8U}) {
      std::vector<std::byte> shuffled(1000), back(1000);
      hooks_internal::shuffle(bytes.data(), size, element, shuffled.data());
      hooks_internal::unshuffle(shuffled.data(), size, element, back.data());
      EXPECT_TRUE(std::equal(back.begin(), back.begin() + static_cast<std::ptrdiff_t>(size),
                             bytes.begin()));
    }
  }
  std::vector<std::byte> pairs(4);
  hooks_internal::shuffle(bytes.data(), 4, 2, pairs.data());
  EXPECT_EQ(pairs, (std::vector<std::byte>{bytes[0], bytes[2], bytes[1], bytes[3]}));
}

}  // namespace
}  // namespace reprise::compressed_store_test
