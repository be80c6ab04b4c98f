// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/hooks/host_store.h"

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "reprise/hooks/stores.h"
#include "tests/device/device_cases.h"
#include "tests/testing/bitwise.h"
#include "tests/testing/warning_log.h"

namespace reprise::host_store_test {
namespace {

using namespace device_cases;  // NOLINT(google-build-using-namespace)
using testing::bitwise_equal;
using testing::live_pinned_bytes;

TEST(HostStoreTest, DeviceMemoryIsLetGoOf) {
  const auto store = stores::host(all());
  const std::int64_t before = live_device_bytes();
  auto stored = store->put(on_device(at::ones({1000})));
  wait();
  EXPECT_EQ(store->counters().bytes_out, 4000);
  EXPECT_EQ(live_device_bytes(), before);
  EXPECT_EQ(stored->device_bytes(), 0U);
  stored->prefetch();
  EXPECT_EQ(stored->device_bytes(), 4000U);
  EXPECT_EQ(live_device_bytes() - before, 4000);
  stored.reset();
  EXPECT_EQ(live_device_bytes(), before);
}

TEST(HostStoreTest, UsesPageableMemoryWhenPinnedMemoryRunsOut) {
  const auto store = stores::host(all());
  const testing::WarningLog log;
  testing::limit_pinned_bytes(live_pinned_bytes() + 9000);
  std::vector<std::unique_ptr<StoredTensor>> stored;
  for (int i = 0; i < 5; ++i) {
    stored.push_back(store->put(on_device(at::full({1000}, 1.0 * i))));
  }
  testing::limit_pinned_bytes(std::numeric_limits<std::int64_t>::max());
  settle(*store);
  EXPECT_EQ(store->counters().bytes_out, 5 * 4000);
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(
        bitwise_equal(stored[static_cast<std::size_t>(i)]->get().cpu(), at::full({1000}, 1.0 * i)));
  }
  EXPECT_THAT(log.messages(), ::testing::ElementsAre(::testing::AllOf(
                                  ::testing::HasSubstr("out of page-locked memory"),
                                  ::testing::HasSubstr("uses pageable memory"))));
}

TEST(HostStoreTest, StorageIsKeptOnceHoweverManyViews) {
  const auto store = stores::host(all());
  at::Tensor x = on_device(at::arange(1200.0).view({30, 40}));
  const auto whole = store->put(x);
  const auto transposed = store->put(x.t());
  const auto bits = store->put(x.view(at::kInt));
  const auto small = store->put(x.narrow(0, 4, 2));  // its elements, by themselves
  x.reset();
  wait();
  EXPECT_EQ(store->counters().bytes_out, 4800 + 320);
  const at::Tensor a = whole->get();
  const at::Tensor b = transposed->get();
  EXPECT_TRUE(a.is_alias_of(b));
  EXPECT_TRUE(a.is_alias_of(bits->get()));
  EXPECT_EQ(store->counters().bytes_in, 4800);
  EXPECT_TRUE(bitwise_equal(b.cpu(), at::arange(1200.0).view({30, 40}).t()));
  EXPECT_TRUE(bitwise_equal(small->get().cpu(), at::arange(160.0, 240.0).view({2, 40})));
}

TEST(HostStoreTest, ChangedStorageIsAnotherOne) {
  const auto store = stores::host(all());
  const at::Tensor x = on_device(at::zeros({2000}));
  const auto before = store->put(x);
  settle(*store);
  x.fill_(1);
  const auto after = store->put(x);
  settle(*store);
  EXPECT_EQ(before->get().cpu().sum().item<float>(), 0);
  EXPECT_EQ(after->get().cpu().sum().item<float>(), 2000);
}

TEST(HostStoreTest, ThrowsForChangeBeforeTheCopyIsDone) {
  const auto store = stores::host(all());
  const at::Tensor x = on_device(at::zeros({2000}));
  const DelayGuard delays({.copy_out = milliseconds(20)});
  const auto stored = store->put(x);
  x.fill_(1);
  EXPECT_THAT([&] { stored->get(); },
              ::testing::ThrowsMessage<c10::Error>(
                  ::testing::HasSubstr("modified by an inplace operation before it was copied")));
  settle(*store);
  EXPECT_THAT([&] { stored->get(); },
              ::testing::ThrowsMessage<c10::Error>(
                  ::testing::HasSubstr("modified by an inplace operation before it was copied")));
}

TEST(HostStoreTest, CopiesNoLivingTensorBack) {
  const auto store = stores::host(all());
  const at::Tensor x = on_device(at::ones({2000}));
  const auto stored = store->put(x);
  wait();
  const at::Tensor found = stored->get();
  EXPECT_TRUE(found.is_alias_of(x));
  EXPECT_EQ(store->counters().bytes_in, 0);
  EXPECT_EQ(store->counters().bytes_reused, 8000);
}

TEST(HostStoreTest, SmallAndCpuTensorsAreHandedOn) {
  const auto store = stores::host();
  const auto small = store->put(on_device(at::ones({1023})));
  const auto cpu = store->put(at::ones({5000}));
  wait();
  EXPECT_EQ(store->counters().bytes_out, 0);
  EXPECT_EQ(store->counters().bytes_forwarded, 1023 * 4 + 5000 * 4);
  EXPECT_EQ(small->get().sum().item<float>(), 1023);
  EXPECT_EQ(cpu->get().sum().item<float>(), 5000);
}

TEST(HostStoreTest, KeepsTheLastTensorsOnTheDevice) {
  const auto store = stores::host({.keep_last = 2});
  std::vector<std::unique_ptr<StoredTensor>> stored;
  for (int i = 0; i < 5; ++i) {
    stored.push_back(store->put(on_device(at::full({2000}, i))));
  }
  wait();
  EXPECT_EQ(store->counters().bytes_out, 3 * 16000);
  EXPECT_EQ(store->counters().resident_bytes, 2 * 16000U);
  for (int i = 4; i >= 0; --i) {
    EXPECT_TRUE((stored[static_cast<std::size_t>(i)]->get().cpu() == i).all().item<bool>());
  }
  EXPECT_EQ(store->counters().bytes_in, 3 * 16000);
}

TEST(HostStoreTest, BeyondABudgetTheOldestGo) {
  const auto store = stores::host({.max_device_bytes = 20000, .keep_last = 0});
  std::vector<std::unique_ptr<StoredTensor>> stored;
  for (int i = 0; i < 4; ++i) {
    stored.push_back(store->put(on_device(at::ones({2000}))));
  }
  wait();
  EXPECT_EQ(store->counters().bytes_out, 2 * 8000);
  EXPECT_EQ(store->counters().in_flight_bytes, 0U);
  EXPECT_EQ(stored[0]->device_bytes(), 0U);
  EXPECT_EQ(stored[1]->device_bytes(), 0U);
  EXPECT_EQ(stored[2]->device_bytes(), 8000U);
  EXPECT_EQ(stored[3]->device_bytes(), 8000U);
}

TEST(HostStoreTest, LimitsBytesInFlight) {
  const auto store = stores::host({.min_bytes = 0, .max_in_flight_bytes = 16000, .keep_last = 0});
  const DelayGuard delays({.copy_out = milliseconds(5)});
  const std::int64_t before = live_device_bytes();
  std::vector<std::unique_ptr<StoredTensor>> stored;
  for (int i = 0; i < 6; ++i) {
    stored.push_back(store->put(at::full({2000}, i, test_device()).to(at::kFloat)));
    EXPECT_LE(live_device_bytes() - before, 16000);
  }
  for (int i = 5; i >= 0; --i) {
    EXPECT_TRUE((stored[static_cast<std::size_t>(i)]->get().cpu() == i).all().item<bool>());
  }
}

TEST(HostStoreTest, ForwardsTensorsWithoutSpace) {
  const std::int64_t before = live_pinned_bytes();
  const auto store = stores::host({.max_host_bytes = 20000, .keep_last = 0});
  std::vector<std::unique_ptr<StoredTensor>> stored;
  for (int i = 0; i < 4; ++i) {
    stored.push_back(store->put(on_device(at::ones({2000}))));
  }
  wait();
  EXPECT_EQ(store->counters().bytes_out, 2 * 8000);
  EXPECT_EQ(store->counters().bytes_forwarded, 2 * 8000);
  EXPECT_EQ(store->counters().host_bytes, 16000U);
  EXPECT_EQ(live_pinned_bytes() - before, 16000);
  for (const auto& each : stored) {
    EXPECT_EQ(each->get().sum().item<float>(), 2000);
  }
  stored.clear();
  const auto larger = store->put(on_device(at::ones({5000})));  // in place of unused buffers
  wait();
  EXPECT_EQ(store->counters().host_bytes, 20000U);
  EXPECT_EQ(live_pinned_bytes() - before, 20000);
}

TEST(HostStoreTest, CountsWhatStreamsWaitFor) {
  const auto store = stores::host({.max_in_flight_bytes = 8000, .keep_last = 0});
  std::vector<std::unique_ptr<StoredTensor>> stored;
  const auto put = [&] { stored.push_back(store->put(at::ones({2000}, test_device()))); };
  put();
  settle(*store);
  stored[0]->prefetch();
  wait();
  stored[0]->get();
  EXPECT_EQ(store->counters().waits, 0);
  EXPECT_EQ(store->counters().put_waits, 0);
  const DelayGuard delays({.copy_out = milliseconds(20), .copy_in = milliseconds(20)});
  put();
  put();  // waits for the copy of the one before
  settle(*store);
  EXPECT_EQ(store->counters().put_waits, 1);
  EXPECT_GT(store->counters().put_wait_time.count(), 0);
  stored[1]->get();
  settle(*store);
  EXPECT_EQ(store->counters().waits, 1);
  EXPECT_GT(store->counters().wait_time.count(), 0);
}

TEST(HostStoreTest, WaitsForRoomWhereAskedTo) {
  const auto store =
      stores::host({.max_host_bytes = 8000, .max_wait = std::chrono::seconds(20), .keep_last = 0});
  auto first = store->put(on_device(at::ones({2000})));
  std::thread other([&] {
    std::this_thread::sleep_for(milliseconds(20));
    first.reset();
  });
  const auto second = store->put(on_device(at::ones({2000})));
  other.join();
  EXPECT_EQ(store->counters().bytes_forwarded, 0);
  EXPECT_EQ(store->counters().bytes_out, 2 * 8000);
}

TEST(HostStoreTest, BuffersAreUsedAgainAfterTheirCopies) {
  const auto store = stores::host(all());
  const DelayGuard delays({.copy_out = milliseconds(5), .copy_in = milliseconds(5)});
  std::vector<at::Tensor> found;
  for (int i = 0; i < 8; ++i) {
    auto stored = store->put(at::full({3000}, i, test_device()).to(at::kFloat));
    found.push_back(stored->get());  // while it is in flight
    stored.reset();
    stored = store->put(at::full({3000}, 100 + i, test_device()).to(at::kFloat));
    settle(*store);
    stored->prefetch();
    found.push_back(stored->get());
  }
  for (int i = 0; i < 8; ++i) {
    EXPECT_TRUE((found[static_cast<std::size_t>(2 * i)].cpu() == i).all().item<bool>());
    EXPECT_TRUE((found[static_cast<std::size_t>(2 * i + 1)].cpu() == 100 + i).all().item<bool>());
  }
  EXPECT_LE(store->counters().host_bytes, 2 * 12000U);
}

TEST(HostStoreTest, CopyInOnAnotherStreamWaitsForTheCopyOut) {
  const auto store = stores::host({.max_in_flight_bytes = 0, .keep_last = 0});
  const DelayGuard delays({.copy_out = milliseconds(30)});
  at::Tensor x = on_device(at::ones({3000}));
  const auto stored = store->put(x);
  x.reset();
  const c10::impl::VirtualGuardImpl device(test_device().type());
  const c10::StreamGuard other(device.getNewStream(test_device()));
  EXPECT_EQ(stored->get().cpu().sum().item<float>(), 3000);
}

TEST(HostStoreTest, BufferThatIsBeingReadIsNotWritten) {
  const auto store = stores::host(all());
  const DelayGuard delays({.copy_in = milliseconds(30)});
  auto first = store->put(on_device(at::ones({3000})));
  settle(*store);
  const at::Tensor found = first->get();
  first.reset();
  const c10::impl::VirtualGuardImpl device(test_device().type());
  const c10::StreamGuard other(device.getNewStream(test_device()));
  const auto second = store->put(at::full({3000}, 7.0F, test_device()));
  wait();
  EXPECT_EQ(store->counters().host_bytes, 12000U);
  EXPECT_EQ(found.cpu().sum().item<float>(), 3000);
}

TEST(HostStoreTest, OverwritesNothingWithUnusedPrefetches) {
  const auto store = stores::host(all());
  const DelayGuard delays({.copy_in = milliseconds(30)});
  auto stored = store->put(on_device(at::ones({3000})));
  settle(*store);
  stored->prefetch();
  stored.reset();
  const at::Tensor other = at::full({3000}, 7.0F, test_device());  // in the same memory
  wait();
  EXPECT_EQ(other.cpu().sum().item<float>(), 21000);
}

}  // namespace
}  // namespace reprise::host_store_test
