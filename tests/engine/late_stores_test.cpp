// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// A store with a thread of its own may read a tensor after put(). Code that meanwhile writes to the
// tensor through a pointer, which counts no version, must not change a gradient. Nor must what the
// code of a replay writes in this way to memory that hooks return again.
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "reprise/engine/checkpoint_scope.h"
#include "reprise/engine/errors.h"
#include "reprise/hooks/compressed_store.h"
#include "reprise/hooks/disk_store.h"
#include "reprise/hooks/host_store.h"
#include "reprise/hooks/saved_tensor_hooks.h"
#include "reprise/hooks/slab_store.h"
#include "reprise/hooks/store_guard.h"
#include "reprise/hooks/stored/exact_tensor.h"
#include "reprise/hooks/stores.h"
#include "tests/conformance/conformance_fixture.h"

namespace reprise::testing::late_stores_test {
namespace {

using ::testing::HasSubstr;

// Reads the tensor as late as possible.
class LateTensor final : public hooks_internal::ExactTensor {
 public:
  explicit LateTensor(const at::Tensor& tensor) : tensor_(tensor) {}
  at::Tensor get() override { return tensor_.clone(); }
  std::int64_t device_bytes() const override { return 0; }

 private:
  const at::Tensor tensor_;
};

class LateStore final : public ActivationStore {
 public:
  std::unique_ptr<StoredTensor> put(const at::Tensor& tensor) override {
    return std::make_unique<LateTensor>(tensor);
  }
};

using LateStoresTest = ConformanceTest;

at::Tensor code(const at::Tensor& t, const at::Tensor& b) { return (t * (b + 1)).sin().exp(); }

TEST_F(LateStoresTest, AnyByteOfAnInputThatIsWrittenBeforeItsStoreReadsItIsAnError) {
  std::mt19937 random(7);
  const auto store = std::make_shared<LateStore>();
  const auto recompute = [](const PolicyContext&) { return CheckpointPolicy::PREFER_RECOMPUTE; };
  const std::vector<CheckpointOptions> all = {{.input_store = store},
                                              {.policy = recompute, .input_store = store},
                                              {.replay = ReplayMode::kTape, .input_store = store},
                                              {},
                                              {.policy = recompute},
                                              {.replay = ReplayMode::kTape}};
  for (int round = 0; round < 60; ++round) {
    SCOPED_TRACE(round);
    const at::Tensor x = leaf({1000});
    const at::Tensor buffer = at::rand({1000});
    const CheckpointOptions& options = all[round % all.size()];
    const at::Tensor y = [&] {
      std::optional<StoreGuard> guard;
      if (options.input_store == nullptr) {
        guard.emplace(store);
      }
      return checkpoint(options, code, x, buffer);
    }();
    auto* const bytes = static_cast<unsigned char*>(buffer.mutable_data_ptr());
    bytes[random() % buffer.nbytes()] ^= 1;
    try {
      y.sum().backward();
      ADD_FAILURE() << "no error";
    } catch (const MutationError& error) {
      EXPECT_THAT(error.what(), HasSubstr("written through a pointer"));
    }
  }
}

// A workspace, which the code fills again in each run.
TEST_F(LateStoresTest, AnInputThatTheCodeFillsIsAsInPlain) {
  const auto fill = [](const at::Tensor& t, const at::Tensor& filled) {
    std::fill_n(filled.mutable_data_ptr<float>(), filled.numel(), 3.0F);
    const at::Tensor y = (t * filled.clone()).sin();
    std::fill_n(filled.mutable_data_ptr<float>(), filled.numel(), 4.0F);
    return y * filled.clone();
  };
  const at::Tensor x = leaf({6, 8});
  const at::Tensor expected = torch::autograd::grad({fill(x, at::zeros({6, 8})).sum()}, {x})[0];
  const CheckpointOptions options{.input_store = std::make_shared<LateStore>()};
  const at::Tensor y = checkpoint(options, fill, x, at::zeros({6, 8}));
  EXPECT_TRUE(bitwise_equal(torch::autograd::grad({y.sum()}, {x})[0], expected));
}

// Plain autograd has no replays, so that nothing writes to what the hooks keep.
TEST_F(LateStoresTest, AnyByteOfAnInputThatAReplayHasWrittenIsAnErrorOfTheNext) {
  std::mt19937 random(8);
  std::size_t place = 0;
  const auto code = [&place](const at::Tensor& t, const at::Tensor& b) {
    const at::Tensor y = t * (b + 1);
    ++static_cast<unsigned char*>(b.mutable_data_ptr())[place];
    return y.sin().exp();
  };
  for (int round = 0; round < 20; ++round) {
    SCOPED_TRACE(round);
    place = random() % 4000;
    const at::Tensor x = leaf({1000});
    const at::Tensor b = at::rand({1000});
    const at::Tensor expected = torch::autograd::grad({code(x, b.clone()).sum()}, {x})[0];
    const at::Tensor y = [&] {
      const SavedTensorHooksGuard copies([](const at::Tensor& t) { return t.clone(); },
                                         [](const at::Tensor& copy) { return copy; });
      return checkpoint(code, x, b);
    }();
    const auto gradient = [&] {
      return torch::autograd::grad({y.sum()}, {x}, {}, /*retain_graph=*/true)[0];
    };
    EXPECT_TRUE(bitwise_equal(gradient(), expected));
    EXPECT_THAT(gradient, ::testing::ThrowsMessage<MutationError>(
                              HasSubstr("reads an input of the region, Float [1000]")));
  }
}

// The memory of what a store returns is no memory that the region wraps: a region inside keeps it
// as it kept the input in forward.
TEST_F(LateStoresTest, ARegionInsideReadsAnInputFromAnyStore) {
  const std::vector<std::shared_ptr<ActivationStore>> all = {
      stores::disk({.min_bytes = 0}),   stores::compressed({.min_bytes = 0}), stores::slab({}),
      stores::packed({.min_bytes = 0}), stores::host({.min_bytes = 0}),       stores::device()};
  const at::Tensor x = leaf({6, 8});
  const auto inside = [](const at::Tensor& t, const at::Tensor& mask) {
    const CheckpointScope scope;
    return at::where(mask.cos() > 0.5, t, t * 0.1).sin();
  };
  const at::Tensor expected = torch::autograd::grad({inside(x, at::ones({6, 8})).sum()}, {x})[0];
  for (const auto& store : all) {
    const at::Tensor y =
        checkpoint(CheckpointOptions{.input_store = store}, inside, x, at::ones({6, 8}));
    EXPECT_TRUE(bitwise_equal(torch::autograd::grad({y.sum()}, {x})[0], expected));
  }
}

}  // namespace
}  // namespace reprise::testing::late_stores_test
