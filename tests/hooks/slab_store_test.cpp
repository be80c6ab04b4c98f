// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/hooks/slab_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstddef>
#include <deque>
#include <memory>
#include <vector>

#include "reprise/engine/checkpoint.h"
#include "reprise/hooks/store_guard.h"
#include "tests/testing/bitwise.h"
#include "tests/testing/counting.h"
#include "tests/testing/warning_log.h"

namespace reprise::slab_store_test {
namespace {

using testing::bitwise_equal;
using ::testing::HasSubstr;
using testing::live_cpu_bytes;

using Stored = std::unique_ptr<StoredTensor>;

constexpr std::size_t kBytes = 8192;  // of a tensor
at::Tensor tensor_of(double value) { return at::full({kBytes / 4}, value); }

// Puts `count` tensors, and lets go of them in the reverse order.
void step(ActivationStore& store, int count) {
  std::vector<Stored> stored;
  for (int i = 0; i < count; ++i) {
    stored.push_back(store.put(tensor_of(i)));
  }
  for (; !stored.empty(); stored.pop_back()) {
    const at::Tensor found = stored.back()->get();
    EXPECT_TRUE(bitwise_equal(found, tensor_of(static_cast<double>(stored.size() - 1))));
  }
}

TEST(SlabStoreTest, MergesSlabsFromTheSecondStepOn) {
  const auto store = stores::slab();
  step(*store, 5);
  EXPECT_EQ(store->counters().slab_bytes, 0U);
  EXPECT_EQ(store->counters().peak_used_bytes, 5 * kBytes);
  for (int i = 0; i < 200; ++i) {
    step(*store, 5);
    EXPECT_EQ(store->counters().slab_bytes, 5 * kBytes);
    EXPECT_EQ(store->counters().slabs, 1);
    EXPECT_EQ(store->counters().used_bytes, 0U);
  }
  EXPECT_EQ(store->counters().growths, 0);
}

TEST(SlabStoreTest, ServesTheFirstStepWithAGivenSize) {
  const auto store = stores::slab({.initial_bytes = 5 * kBytes});
  step(*store, 5);
  EXPECT_EQ(store->counters().slabs, 1);
  EXPECT_EQ(store->counters().slab_bytes, 5 * kBytes);
}

TEST(SlabStoreTest, TensorsLieSideBySide) {
  const auto store = stores::slab({.initial_bytes = 4 * kBytes});
  const Stored a = store->put(tensor_of(1));
  const Stored b = store->put(tensor_of(2).to(at::kDouble));
  const Stored c = store->put(tensor_of(3));
  const auto address = [](const Stored& stored) {
    return static_cast<const std::byte*>(stored->get().const_data_ptr());
  };
  EXPECT_EQ(address(b) - address(a), kBytes);
  EXPECT_EQ(address(c) - address(b), 2 * kBytes);
  EXPECT_EQ(b->get().scalar_type(), at::kDouble);
  EXPECT_TRUE(bitwise_equal(b->get(), tensor_of(2).to(at::kDouble)));
}

// Each forward before the backward of an earlier one, and backwards in the order of forwards.
void interleaved_step(ActivationStore& store, int regions) {
  std::deque<std::vector<Stored>> in_flight;
  const auto backward = [&] {
    for (auto& stored = in_flight.front(); !stored.empty(); stored.pop_back()) {
      stored.back()->get();
    }
    in_flight.pop_front();
  };
  for (int micro_batch = 0; micro_batch < 8; ++micro_batch) {
    if (in_flight.size() == 3) {
      backward();
    }
    in_flight.emplace_back();
    for (int region = 0; region < regions; ++region) {
      in_flight.back().push_back(store.put(tensor_of(region)));
    }
  }
  while (!in_flight.empty()) {
    backward();
  }
}

TEST(SlabStoreTest, OneForwardOneBackwardUsesPartsAgain) {
  const auto store = stores::slab();
  for (int i = 0; i < 5; ++i) {
    interleaved_step(*store, 4);
  }
  EXPECT_EQ(store->counters().slabs, 1);
  EXPECT_EQ(store->counters().slab_bytes, 3 * 4 * kBytes);
  EXPECT_EQ(store->counters().growths, 0);
}

TEST(SlabStoreTest, MoreThanTheFirstStepMakesItGrowAndWarns) {
  const auto store = stores::slab();
  step(*store, 2);
  {
    const testing::WarningLog log;
    step(*store, 7);
    EXPECT_THAT(log.messages(), ::testing::SizeIs(5));
    EXPECT_THAT(log.messages(), ::testing::Each(HasSubstr("the slab of 16384 bytes on cpu is full, "
                                                          "and 8192 more bytes are needed")));
  }
  EXPECT_EQ(store->counters().growths, 5);
  step(*store, 7);
  EXPECT_EQ(store->counters().growths, 5);
  EXPECT_EQ(store->counters().slabs, 1);
  EXPECT_EQ(store->counters().slab_bytes, 7 * kBytes);
}

TEST(SlabStoreTest, ForwardsWithoutBackwardLeaveItAsItWas) {
  const auto store = stores::slab();
  step(*store, 4);
  step(*store, 4);
  for (int batch = 0; batch < 3; ++batch) {
    std::vector<Stored> never_asked_for;
    for (int i = 0; i < 4; ++i) {
      never_asked_for.push_back(store->put(tensor_of(i)));
    }
  }
  step(*store, 4);
  EXPECT_EQ(store->counters().slab_bytes, 4 * kBytes);
  EXPECT_EQ(store->counters().growths, 0);
}

TEST(SlabStoreTest, CountersShowHowFreeMemoryIsCutUp) {
  const auto store = stores::slab({.initial_bytes = 8 * kBytes});
  std::vector<Stored> stored;
  for (int i = 0; i < 8; ++i) {
    stored.push_back(store->put(tensor_of(i)));
  }
  for (int i = 0; i < 8; i += 2) {
    stored[static_cast<std::size_t>(i)].reset();
  }
  EXPECT_EQ(store->counters().used_bytes, 4 * kBytes);
  EXPECT_EQ(store->counters().largest_free_bytes, kBytes);
  stored.clear();
  EXPECT_EQ(store->counters().largest_free_bytes, 8 * kBytes);
}

TEST(SlabStoreTest, HoldsItsPartWhileTheTensorLives) {
  const auto store = stores::slab({.initial_bytes = kBytes});
  at::Tensor found = store->put(tensor_of(1))->get();
  EXPECT_EQ(store->counters().used_bytes, kBytes);
  const Stored other = store->put(tensor_of(2));
  EXPECT_TRUE(bitwise_equal(found, tensor_of(1)));
  EXPECT_EQ(store->counters().used_bytes, 2 * kBytes);
  found.reset();
  EXPECT_EQ(store->counters().used_bytes, kBytes);
}

TEST(SlabStoreTest, ViewsOfOneStorageAreKeptOnce) {
  const auto store = stores::slab();
  const at::Tensor x = tensor_of(3);
  const Stored first = store->put(x.narrow(0, 0, 1500));
  const Stored second = store->put(x.narrow(0, 500, 1500));
  EXPECT_EQ(store->counters().used_bytes, kBytes);
  EXPECT_TRUE(first->get().is_alias_of(second->get()));
}

TEST(SlabStoreTest, RefusesChangesToReturnedTensors) {
  const auto store = stores::slab();
  const Stored stored = store->put(tensor_of(1));
  stored->get().add_(1);
  EXPECT_THAT([&] { stored->get(); },
              ::testing::ThrowsMessage<c10::Error>(HasSubstr("modified by an inplace operation")));
}

TEST(SlabStoreTest, OutlivesItsTensorsOnlyAsLongAsTheyAreHeld) {
  const std::int64_t before = live_cpu_bytes();
  at::Tensor found = stores::slab()->put(tensor_of(4))->get();
  EXPECT_TRUE(bitwise_equal(found, tensor_of(4)));
  found.reset();
  EXPECT_EQ(live_cpu_bytes(), before);
}

// The inputs of the regions are of two sizes and three dtypes.
TEST(SlabStoreTest, KeepsInputsOfSeveralSizesAndDtypes) {
  const at::Tensor x = at::randn({64, 64}).requires_grad_();
  const auto run = [&](const CheckpointOptions& options) {
    const auto region = [&](at::ScalarType next, const at::Tensor& h) {
      return checkpoint(
          options, [next](const at::Tensor& t) { return t.sin().to(next).exp(); }, h);
    };
    at::Tensor h = region(at::kDouble, x * 1);
    h = region(at::kBFloat16, h).narrow(0, 0, 40).clone();
    h = region(at::kFloat, h);
    h = region(at::kDouble, h);
    return torch::autograd::grad({h.sum()}, {x})[0];
  };
  const auto plain = [&] {
    at::Tensor h = (x * 1).sin().to(at::kDouble).exp();
    h = h.sin().to(at::kBFloat16).exp().narrow(0, 0, 40).clone();
    h = h.sin().to(at::kFloat).exp();
    h = h.sin().to(at::kDouble).exp();
    return torch::autograd::grad({h.sum()}, {x})[0];
  };
  const at::Tensor expected = plain();
  const auto store = stores::slab({.initial_tensors = 4});
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(bitwise_equal(run({.input_store = store}), expected));
  }
  EXPECT_EQ(store->counters().peak_used_bytes, 64U * 64 * (4 + 8) + 40U * 64 * (2 + 4));
  EXPECT_EQ(store->counters().used_bytes, 0U);
}

TEST(SlabStoreTest, KeepsTheInputsOfRegions) {
  const at::Tensor x = at::randn({64, 64}).requires_grad_();
  const at::Tensor w = at::randn({64, 64}).requires_grad_();
  const auto run = [&](const CheckpointOptions& options) {
    at::Tensor h = x;
    for (int i = 0; i < 4; ++i) {
      h = checkpoint(
          options, [&](const at::Tensor& t) { return t.matmul(w).tanh(); }, h);
    }
    return torch::autograd::grad({h.sum()}, {x, w});
  };
  const auto expected = run({});
  const auto store = stores::slab();
  for (int i = 0; i < 3; ++i) {
    const auto found = run({.input_store = store});
    EXPECT_TRUE(bitwise_equal(found[0], expected[0]));
    EXPECT_TRUE(bitwise_equal(found[1], expected[1]));
  }
  EXPECT_EQ(store->counters().slabs, 1);
  EXPECT_EQ(store->counters().growths, 0);
}

}  // namespace
}  // namespace reprise::slab_store_test
