// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Note [Deferred puts].
#include "reprise/hooks/stored/deferred_tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "reprise/hooks/stores.h"
#include "tests/testing/bitwise.h"

namespace reprise::hooks_internal::deferred_tensor_test {
namespace {

using testing::bitwise_equal;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// Copies.
class CopyingStore final : public ActivationStore {
 public:
  std::unique_ptr<StoredTensor> put(const at::Tensor& tensor) override {
    if (fails) {
      throw std::runtime_error("no space");
    }
    ++puts;
    return stores::device()->put(tensor.clone());
  }
  bool copies_on_device(const at::Tensor& /*tensor*/) const override { return true; }

  int puts = 0;
  bool fails = false;
};

class DeferredTensorTest : public ::testing::Test {
 protected:
  void TearDown() override { put_waiting(); }

  std::shared_ptr<CopyingStore> store_ = std::make_shared<CopyingStore>();
};

TEST_F(DeferredTensorTest, WaitsUntilNobodyElseOwnsTheMemory) {
  at::Tensor x = at::ones({10});
  const auto stored = put_or_defer(store_, x.detach());
  put_waiting();
  EXPECT_EQ(store_->puts, 0);
  EXPECT_EQ(stored->get().const_data_ptr(), x.const_data_ptr());
}

TEST_F(DeferredTensorTest, IsPutAfterItsLastOwner) {
  at::Tensor x = at::ones({10});
  const auto stored = put_or_defer(store_, x.detach());
  x.reset();
  put_waiting();
  EXPECT_EQ(store_->puts, 1);
  EXPECT_TRUE(bitwise_equal(stored->get(), at::ones({10})));
}

TEST_F(DeferredTensorTest, IsPutWhenLaterTensorsAreStored) {
  const auto first = put_or_defer(store_, at::ones({10}));
  EXPECT_EQ(store_->puts, 0);
  const auto second = put_or_defer(store_, at::ones({10}));
  EXPECT_EQ(store_->puts, 1);
}

TEST_F(DeferredTensorTest, IsStoredOnceForTheSameView) {
  at::Tensor x = at::ones({10});
  const auto first = put_or_defer(store_, x.detach());
  const auto same = put_or_defer(store_, x.detach());
  const auto other = put_or_defer(store_, x.narrow(0, 0, 5).detach());
  EXPECT_EQ(first, same);
  EXPECT_NE(first, other);
  x.reset();
  put_waiting();
  EXPECT_EQ(store_->puts, 2);
}

TEST_F(DeferredTensorTest, StaysOnceItWasRequested) {
  at::Tensor x = at::ones({10});
  const auto stored = put_or_defer(store_, x.detach());
  stored->prefetch();
  x.reset();
  put_waiting();
  EXPECT_EQ(store_->puts, 0);
  EXPECT_EQ(stored->device_bytes(), 40);
}

TEST_F(DeferredTensorTest, ThrowsAfterAChangeInPlace) {
  at::Tensor x = at::ones({10});
  const auto stored = put_or_defer(store_, x.detach());
  x.add_(1);
  const auto later = put_or_defer(store_, x.detach());
  EXPECT_NE(stored, later);
  x.reset();
  put_waiting();
  EXPECT_EQ(store_->puts, 1);  // the later one
  EXPECT_THAT([&] { static_cast<void>(stored->get()); },
              ThrowsMessage<c10::Error>(HasSubstr("modified by an inplace operation")));
  EXPECT_TRUE(bitwise_equal(later->get(), at::full({10}, 2.0)));
}

TEST_F(DeferredTensorTest, StaysIfTheStoreFails) {
  const auto stored = put_or_defer(store_, at::ones({10}));
  store_->fails = true;
  put_waiting();
  EXPECT_TRUE(bitwise_equal(stored->get(), at::ones({10})));
}

TEST_F(DeferredTensorTest, IsForgottenWithItsGraph) {
  at::Tensor x = at::ones({10});
  put_or_defer(store_, x.detach());
  x.reset();
  put_waiting();
  EXPECT_EQ(store_->puts, 0);
}

}  // namespace
}  // namespace reprise::hooks_internal::deferred_tensor_test
