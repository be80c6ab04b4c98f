// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Stores hold no lock of theirs while they allocate, free, warn, or call the store that follows:
// all that may come back to them, on this thread or by way of another one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <atomic>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "reprise/hooks/compressed_store.h"
#include "reprise/hooks/disk_store.h"
#include "reprise/hooks/slab_store.h"
#include "reprise/hooks/stores.h"
#include "tests/hooks/background_test.h"
#include "tests/testing/fault.h"

namespace reprise::store_locks_test {
namespace {

using testing::AllocationObserver;
using testing::returns_elsewhere;

using Stored = std::unique_ptr<StoredTensor>;
constexpr std::int64_t kLength = 2000;

// Looks whether a store answers, until it has not. Thread-safe.
struct Looks {
  std::atomic<int> looks = 0;
  std::atomic<bool> all_answered = true;
  void look(std::function<void()> ask) {
    ++looks;
    if (all_answered && !returns_elsewhere(std::move(ask))) {
      all_answered = false;
    }
  }
};

// Puts, prefetches, gets twice, and lets go of everything, in steps that make a store grow.
void use(ActivationStore& store) {
  for (const int count : {2, 4, 3}) {
    std::vector<Stored> stored;
    for (int i = 0; i < count; ++i) {
      stored.push_back(store.put(at::full({kLength}, i)));
    }
    for (const Stored& each : stored) {
      each->prefetch();
    }
    for (; !stored.empty(); stored.pop_back()) {
      EXPECT_EQ(stored.back()->get().sum().item<double>(),
                static_cast<double>(stored.size() - 1) * kLength);
      EXPECT_EQ(stored.back()->get_own().numel(), kLength);
    }
  }
}

constexpr double kAnyTime = std::numeric_limits<double>::infinity();

template <class Store>
void expect_no_lock_at_allocations(const std::shared_ptr<Store>& store) {
  const auto looks = std::make_shared<Looks>();
  {
    const AllocationObserver observer(
        [=] { looks->look([store] { static_cast<void>(store->counters()); }); });
    use(*store);
    testing::settled_cpu_bytes();
  }
  EXPECT_GT(looks->looks, 3);
  EXPECT_TRUE(looks->all_answered);
}

using StoreLocksTest = testing::BackgroundTest;

TEST_F(StoreLocksTest, SlabHoldsNoLockWhereItAllocatesAndFrees) {
  expect_no_lock_at_allocations(stores::slab({.min_bytes = 0}));
  expect_no_lock_at_allocations(stores::slab({.initial_bytes = 3 * kLength * 4, .min_bytes = 0}));
}

TEST_F(StoreLocksTest, DiskHoldsNoLockWhereItAllocatesAndFrees) {
  expect_no_lock_at_allocations(stores::disk({.min_bytes = 0, .keep_last = 1, .direct = false}));
}

TEST_F(StoreLocksTest, CompressionHasNoneWhereItAllocatesAndFrees) {
  expect_no_lock_at_allocations(
      stores::compressed({.max_slowdown = kAnyTime, .min_bytes = 0, .keep_last = 1}));
}

// Asks `asked` at each call.
class AskingStore final : public ActivationStore {
 public:
  explicit AskingStore(std::shared_ptr<Looks> looks) : looks_(std::move(looks)) {}

  Stored put(const at::Tensor& tensor) override {
    looks_->look(asked);
    return std::make_unique<Entry>(*this, tensor);
  }

  std::function<void()> asked;

 private:
  class Entry final : public StoredTensor {
   public:
    Entry(AskingStore& store, const at::Tensor& tensor)
        : store_(store), kept_(stores::device()->put(tensor.clone())) {}
    ~Entry() override { ask(); }
    void prefetch() override { ask(); }
    at::Tensor get() override {
      ask();
      return kept_->get();
    }
    [[nodiscard]] std::int64_t device_bytes() const override {
      ask();
      return kept_->device_bytes();
    }

   private:
    void ask() const { store_.looks_->look(store_.asked); }
    AskingStore& store_;
    const Stored kept_;
  };

  const std::shared_ptr<Looks> looks_;
};

template <class Store>
void expect_no_lock_at_the_next_store(const std::shared_ptr<Store>& store) {
  const auto looks = std::make_shared<Looks>();
  const auto asking = std::make_shared<AskingStore>(looks);
  asking->asked = [store] { static_cast<void>(store->counters()); };
  {
    const auto row = store | asking;
    std::vector<Stored> stored;
    for (int i = 0; i < 4; ++i) {
      stored.push_back(row->put(at::rand({kLength})));
    }
    store->flush();
    for (const Stored& each : stored) {
      EXPECT_GT(each->device_bytes(), 0U);
      each->prefetch();
      each->get();
    }
  }
  testing::settled_cpu_bytes();
  EXPECT_GE(looks->looks, 4 * 4);
  EXPECT_TRUE(looks->all_answered);
}

TEST_F(StoreLocksTest, DiskHoldsNoLockWhereItForwards) {
  expect_no_lock_at_the_next_store(
      stores::disk({.min_bytes = 0, .max_disk_bytes = 0, .keep_last = 0, .direct = false}));
}

TEST_F(StoreLocksTest, CompressionHasNoneWhereItHandsOn) {
  expect_no_lock_at_the_next_store(stores::compressed(
      {.max_ratio = 1e-9, .max_slowdown = kAnyTime, .min_bytes = 0, .keep_last = 0}));
  expect_no_lock_at_the_next_store(stores::compressed(
      {.max_ratio = 1e9, .max_slowdown = kAnyTime, .min_bytes = 0, .keep_last = 0}));
}

// A handler of warnings that asks.
class AskingHandler final : public c10::WarningHandler {
 public:
  explicit AskingHandler(std::function<void()> ask) : ask_(std::move(ask)), handling_(this) {}
  void process(const c10::Warning& /*warning*/) override { looks.look(ask_); }
  Looks looks;

 private:
  const std::function<void()> ask_;
  c10::WarningUtils::WarningHandlerGuard handling_;
  c10::WarningUtils::WarnAlways always_;
};

TEST_F(StoreLocksTest, SlabHoldsNoLockWhereItWarns) {
  const auto store = stores::slab({.initial_bytes = kLength * 4, .min_bytes = 0});
  AskingHandler handler([store] { static_cast<void>(store->counters()); });
  use(*store);
  EXPECT_GT(handler.looks.looks, 0);
  EXPECT_TRUE(handler.looks.all_answered);
}

}  // namespace
}  // namespace reprise::store_locks_test
