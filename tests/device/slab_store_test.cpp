// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Parts of a slab that one stream gives up and another takes.
#include "reprise/hooks/slab_store.h"

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <chrono>
#include <memory>
#include <optional>

#include "tests/device/device_cases.h"
#include "tests/testing/bitwise.h"

namespace reprise::device_slab_store_test {
namespace {

using namespace device_cases;  // NOLINT(google-build-using-namespace)
using testing::bitwise_equal;

class SlabOnStreamsTest : public ::testing::Test {
 protected:
  SlabOnStreamsTest() { wait(); }

  // Takes the part that is free, on `stream`.
  void overwrite_on(const c10::Stream& stream) {
    const c10::StreamGuard on_stream(stream);
    const auto other = store_->put(nines_);
    EXPECT_EQ(store_->counters().slabs, 1);  // so it has the same part
  }

  const at::Tensor ones_ = on_device(at::ones({1024}));
  const at::Tensor nines_ = on_device(at::full({1024}, 9.0));
  const at::Tensor twos_ = at::full({1024}, 2.0);
  const std::shared_ptr<SlabStore> store_ = stores::slab({.initial_bytes = 4096, .min_bytes = 0});
};

TEST_F(SlabOnStreamsTest, TakerWaitsForTheReaderBefore) {
  const c10::Stream side = side_stream();
  at::Tensor read;
  {
    const DelayGuard late({.kernel = milliseconds(5)});
    {
      const auto stored = store_->put(ones_);
      read = stored->get() * 2;
    }
    overwrite_on(side);
  }
  EXPECT_TRUE(bitwise_equal(read.cpu(), twos_));
}

TEST_F(SlabOnStreamsTest, WaitsForReadersOnOtherStreams) {
  const c10::Stream side = side_stream();
  at::Tensor read;
  {
    const DelayGuard late({.kernel = milliseconds(5)});
    auto stored = store_->put(ones_);
    at::Tensor found = stored->get();
    c10::Event made(test_device().type());
    made.record(default_stream());
    made.block(side);
    const c10::StreamGuard on_side(side);
    static_cast<void>(nines_ * 1);  // its reader comes later
    static_cast<void>(nines_ * 1);
    read = found * 2;
    found.reset();
    stored.reset();
    overwrite_on(default_stream());
  }
  EXPECT_TRUE(bitwise_equal(read.cpu(), twos_));
}

}  // namespace
}  // namespace reprise::device_slab_store_test
