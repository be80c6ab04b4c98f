// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// On each model of the zoo, whatever the store: no step needs more memory than without it, and with
// a store that is lossless, results have the same bits.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "bench/zoo/stepped_model.h"
#include "bench/zoo/zoo.h"
#include "reprise/hooks/compressed_store.h"
#include "reprise/hooks/disk_store.h"
#include "reprise/hooks/host_store.h"
#include "reprise/hooks/saved_tensor_hooks.h"
#include "reprise/hooks/store_guard.h"
#include "reprise/hooks/stores.h"
#include "tests/models/model_names.h"
#include "tests/testing/counting.h"
#include "tests/testing/modules.h"

namespace reprise::testing::store_bounds_test {
namespace {

using Store = std::shared_ptr<ActivationStore>;

struct NamedStore {
  std::string name;
  std::function<Store()> make;
  // Otherwise the tensor that backward reads exists twice, the second time a quarter as large.
  bool is_lossless = true;
};

// All but slab(), which copies each tensor to reduce fragmentation, at the price of the copy.
std::vector<NamedStore> ready_stores() {
  namespace s = stores;
  const auto disk = [] { return s::disk({.directory = ::testing::TempDir(), .min_bytes = 4096}); };
  const auto compressed = [] {
    return s::compressed(
        {.max_slowdown = std::numeric_limits<double>::infinity(), .min_bytes = 4096});
  };
  return {
      {"device", [] { return s::device(); }},
      {"packed", [] { return s::packed(); }},
      {"host", [] { return s::host(); }},
      {"disk", disk},
      {"compressed", compressed},
      {"compressed, within its time", [] { return s::compressed({.min_bytes = 4096}); }},
      {"packed | compressed", [compressed] { return s::packed() | compressed(); }},
      {"compressed | disk", [=] { return compressed() | disk(); }},
      {"quantized", [] { return s::quantized(); }, false},
  };
}

constexpr std::int64_t kScale = 4;  // of the batches
constexpr int kSteps = 3;

class StoreBoundsTest : public ::testing::TestWithParam<std::string> {
 protected:
  // The steps of a store that starts empty.
  void expect_within_bounds(const NamedStore& named,
                            const std::function<at::Tensor(const Store&)>& forward) {
    const Store store = named.make();
    for (int i = 0; i < kSteps; ++i) {
      SCOPED_TRACE(named.name + ", step " + std::to_string(i));
      const zoo::Step step = stepped_.run([&] { return forward(store); });
      EXPECT_LE(step.kept, stepped_.plain().kept);
      EXPECT_LE(step.peak, stepped_.plain().peak + (named.is_lossless ? 0 : largest_saved_ / 3));
      if (named.is_lossless) {
        expect_same_bits(step.results, stepped_.plain().results);
      }
      settled_cpu_bytes();
    }
  }

  std::int64_t find_largest_saved() {
    std::int64_t largest = 0;
    stepped_.run([&] {
      const SavedTensorHooksGuard hooks(
          [&](const at::Tensor& tensor) {
            largest = std::max(largest, static_cast<std::int64_t>(tensor.nbytes()));
            return tensor;
          },
          [](const at::Tensor& tensor) { return tensor; });
      return stepped_.model().loss({});
    });
    return largest;
  }

  zoo::SteppedModel stepped_{GetParam(), kScale};
  const std::int64_t largest_saved_ = find_largest_saved();
};

TEST_P(StoreBoundsTest, NoStoreNeedsMoreThanPlainAutograd) {
  for (const NamedStore& named : ready_stores()) {
    expect_within_bounds(named, [this](const Store& store) {
      const StoreGuard guard(store);
      return stepped_.model().loss({});
    });
  }
}

TEST_P(StoreBoundsTest, NoStoreOfInputsNeedsMoreThanPlainAutograd) {
  for (const NamedStore& named : ready_stores()) {
    expect_within_bounds(named, [this](const Store& store) {
      return stepped_.model().loss({zoo::Form::kScope, {.input_store = store}});
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Zoo, StoreBoundsTest, ::testing::ValuesIn(model_names()),
                         [](const auto& info) { return identifier_of(info.param); });

}  // namespace
}  // namespace reprise::testing::store_bounds_test
