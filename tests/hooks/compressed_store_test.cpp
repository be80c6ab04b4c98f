// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/hooks/compressed_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "reprise/hooks/disk_store.h"
#include "reprise/hooks/store_guard.h"
#include "reprise/hooks/stores.h"
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

constexpr double kAnyTime = std::numeric_limits<double>::infinity();

CompressedOptions all() { return {.max_slowdown = kAnyTime, .min_bytes = 0, .keep_last = 0}; }

// The part that is left of the tensor's bytes in memory; 1 if another store has it.
double ratio(const at::Tensor& values, CompressionCodec codec = CompressionCodec::kZstandard) {
  CompressedOptions options = all();
  options.codec = codec;
  const auto store = stores::compressed(options);
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
  EXPECT_LT(ratio(at::zeros({400, 500}), CompressionCodec::kLz4), 0.005);
  EXPECT_LT(ratio((values - 1).relu(), CompressionCodec::kLz4), 0.28);
  EXPECT_LT(ratio((values - 1).relu(), CompressionCodec::kAutomatic), 0.28);
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

TEST_F(CompressedStoreTest, NoticesBytesThatTheNextStoreHasLost) {
  class Losing final : public ActivationStore {
   public:
    std::unique_ptr<StoredTensor> put(const at::Tensor& tensor) override {
      return stores::device()->put(tensor.slice(0, 0, tensor.numel() - 1).clone());
    }
  };
  const auto compressed = stores::compressed(all());
  const auto store = compressed | std::make_shared<Losing>();
  at::Tensor x = at::zeros({3000});
  const auto stored = store->put(x);
  x.reset();
  compressed->flush();
  EXPECT_THAT([&] { stored->get(); }, ThrowsMessage<c10::Error>(HasSubstr("are damaged")));
}

TEST_F(CompressedStoreTest, RefusesAnUnknownLevel) {
  EXPECT_THAT([] { static_cast<void>(stores::compressed({.level = 99})); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("the level is 99")));
}

TEST_F(CompressedStoreTest, RefusesASlowdownThatIsNoPart) {
  for (const double slowdown : {-0.1, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_THAT([&] { static_cast<void>(stores::compressed({.max_slowdown = slowdown})); },
                ThrowsMessage<std::invalid_argument>(HasSubstr("max_slowdown is")));
  }
}

// Beyond its first megabyte, a compressed tensor needs room beside the tensor.
TEST_F(CompressedStoreTest, NeverHoldsMoreThanTheLargestStepDid) {
  const auto store = stores::compressed(all());
  const at::Tensor values = at::rand({3 << 20}).to(at::kBFloat16);  // remain above 4 MiB
  const auto bytes = static_cast<std::int64_t>(values.nbytes());
  const auto step = [&](int tensors) {
    std::vector<at::Tensor> clones;  // made before, so that the first is not done before the last
    for (int i = 0; i < tensors; ++i) {
      clones.push_back(values.clone());
    }
    std::vector<std::unique_ptr<StoredTensor>> stored;
    for (at::Tensor& clone : clones) {
      stored.push_back(store->put(std::exchange(clone, {})));
    }
    store->flush();
    for (const auto& each : stored) {
      EXPECT_TRUE(bitwise_equal(each->get(), values));
    }
  };
  step(1);
  EXPECT_EQ(store->counters().bytes_no_room, bytes);
  EXPECT_EQ(store->counters().bytes_forwarded, bytes);
  EXPECT_EQ(store->counters().bytes_out, 0);
  settled_cpu_bytes();
  step(1);  // one at a time would need room for two
  EXPECT_EQ(store->counters().bytes_no_room, 2 * bytes);
  settled_cpu_bytes();
  // Both are in the store before the first one is done, unless the machine is busy elsewhere.
  for (int i = 0; i < 20 && store->counters().bytes_out == 0; ++i) {
    step(2);
    settled_cpu_bytes();
  }
  EXPECT_GT(store->counters().bytes_out, 0);
}

TEST_F(CompressedStoreTest, CompressesNothingMoreWhenItsTimeIsUsedUp) {
  CompressedOptions options = all();
  options.max_slowdown = 0;
  at::set_num_threads(static_cast<int>(std::thread::hardware_concurrency()));  // none is idle
  const auto store = stores::compressed(options);
  const at::Tensor values = at::zeros({1000});
  std::vector<std::unique_ptr<StoredTensor>> stored;
  for (int i = 0; i < 3; ++i) {
    stored.push_back(store->put(values.clone()));
    store->flush();
  }
  at::set_num_threads(1);
  EXPECT_EQ(store->counters().bytes_out, 4000);
  EXPECT_EQ(store->counters().bytes_no_time, 8000);
  EXPECT_EQ(store->counters().bytes_forwarded, 8000);
}

TEST_F(CompressedStoreTest, ForgetsTheWorkForTensorsThatAreGone) {
  const auto store = stores::compressed(all());
  const std::int64_t before = settled_cpu_bytes();
  for (int i = 0; i < 50; ++i) {
    store->put(at::rand({1 << 20}).to(at::kBFloat16));
  }
  EXPECT_TRUE(testing::cpu_bytes_come_to(before));
  EXPECT_LT(store->counters().bytes_out, std::int64_t{50} << 21);
}

TEST_F(CompressedStoreTest, MovesBackWhatIsRead) {
  const auto store = stores::compressed(all());
  const at::Tensor values = at::randn({300, 400}).relu();
  at::Tensor x = values.clone();
  const auto stored = store->put(x);
  x.reset();
  store->flush();
  EXPECT_LT(stored->device_bytes(), values.nbytes());
  const void* const address = stored->get().const_data_ptr();
  EXPECT_EQ(stored->device_bytes(), values.nbytes());
  EXPECT_EQ(stored->get().const_data_ptr(), address);
  EXPECT_NE(stored->get_own().const_data_ptr(), address);
}

}  // namespace
}  // namespace reprise::compressed_store_test
