// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <tuple>
#include <vector>

#include "reprise/hooks/disk_store.h"
#include "reprise/hooks/store_guard.h"
#include "reprise/hooks/stores.h"
#include "tests/hooks/background_test.h"
#include "tests/hooks/diary_store.h"
#include "tests/hooks/store_cases.h"
#include "tests/testing/bitwise.h"

namespace reprise::quantized_store_test {
namespace {

class QuantizedStoreTest : public testing::BackgroundTest {};

using stores::QuantizedFormat;
using stores::QuantizedOptions;
using testing::bitwise_equal;
using ::testing::HasSubstr;

constexpr auto kInt8 = QuantizedFormat::kInt8;
constexpr auto kFloat8 = QuantizedFormat::kFloat8E4m3;

at::Tensor round_trip(const at::Tensor& tensor, const QuantizedOptions& options) {
  return stores::quantized(options)->put(tensor)->get();
}

// The bound that stores.h states, with what the computation in float32 and the rounding to the
// dtype add.
at::Tensor bound(const at::Tensor& row, const QuantizedOptions& options) {
  const std::int64_t padding =
      (options.block_size - row.numel() % options.block_size) % options.block_size;
  const at::Tensor blocks =
      at::constant_pad_nd(row.to(at::kDouble).abs(), {0, padding}).view({-1, options.block_size});
  const at::Tensor a = blocks.amax(1, true);
  const double chance = options.stochastic_rounding ? 2 : 1;
  const at::Tensor of_format = options.format == kInt8
                                   ? (a / 254 * chance).expand_as(blocks)
                                   : at::maximum(blocks / 16, a / 448 / 1024) * chance;
  const double of_dtype = row.scalar_type() == at::kBFloat16 ? 1.0 / 256
                          : row.scalar_type() == at::kHalf   ? 1.0 / 2048
                                                             : 1e-6;
  return (of_format * 1.00001 + a * of_dtype).view({-1}).narrow(0, 0, row.numel());
}

std::vector<QuantizedOptions> all_options() {
  std::vector<QuantizedOptions> all;
  for (const QuantizedFormat format : {kInt8, kFloat8}) {
    for (const std::int64_t block_size : {1, 7, 64, 128}) {
      for (const bool stochastic : {false, true}) {
        all.push_back({format, block_size, stochastic, /*seed=*/5, /*min_bytes=*/0});
      }
    }
  }
  return all;
}

TEST_F(QuantizedStoreTest, ErrorIsWithinTheBound) {
  torch::manual_seed(2);
  const at::Tensor values =
      (at::randn({3001}) * at::randn({3001}).mul_(3).exp_()).clamp_(-6e4, 6e4);  // finite as halves
  for (const QuantizedOptions& options : all_options()) {
    for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16}) {
      const at::Tensor x = values.to(dtype);
      const at::Tensor found = round_trip(x, options);
      EXPECT_EQ(found.scalar_type(), dtype);
      const at::Tensor error = (found.to(at::kDouble) - x.to(at::kDouble)).abs();
      EXPECT_TRUE(error.le(bound(x, options)).all().item<bool>());
      EXPECT_GT(error.max().item<double>(), options.block_size == 1 ? -1 : 0);
    }
  }
}

TEST_F(QuantizedStoreTest, ShapesAndStridesComeBack) {
  for (const auto& [name, tensor, keeps_strides] : store_cases::layouts(at::kFloat, at::kCPU)) {
    SCOPED_TRACE(name);
    const at::Tensor values = at::ones_like(tensor).mul_(3);
    const at::Tensor same_layout = tensor.clone(at::MemoryFormat::Preserve).fill_(3);
    const at::Tensor found = round_trip(same_layout, {.min_bytes = 0});
    EXPECT_EQ(found.sizes(), tensor.sizes());
    EXPECT_EQ(found.strides(), same_layout.strides());
    EXPECT_TRUE(at::allclose(found, values, 1e-6, 0));
  }
}

TEST_F(QuantizedStoreTest, TakesAByteAnElementAndAScaleABlock) {
  for (const QuantizedFormat format : {kInt8, kFloat8}) {
    const auto store = stores::quantized({.format = format, .block_size = 100});
    EXPECT_EQ(store->put(at::randn({2050}))->device_bytes(), 2100U + 21 * 4);
    EXPECT_EQ(store->put(at::randn({10000}).to(at::kBFloat16))->device_bytes(), 10000U + 100 * 4);
  }
}

TEST_F(QuantizedStoreTest, ReturnsOtherTensorsUnchanged) {
  const auto store = stores::quantized();
  for (const at::Tensor& tensor :
       {at::randn({1023}), at::randint(0, 9, {5000}), at::rand({9000}) < 0.5,
        at::randn({3000}, at::kComplexFloat), at::randn({9000}).to(at::kFloat8_e5m2)}) {
    EXPECT_TRUE(bitwise_equal(store->put(tensor)->get(), tensor));
  }
}

TEST_F(QuantizedStoreTest, ZerosStayAndBlocksThatAreNotFiniteAreNans) {
  for (const QuantizedFormat format : {kInt8, kFloat8}) {
    at::Tensor x = at::ones({4, 100});
    x[0].zero_();
    x[1][3] = INFINITY;
    x[2][5] = NAN;
    const at::Tensor found = round_trip(x, {.format = format, .block_size = 100, .min_bytes = 0});
    EXPECT_TRUE(bitwise_equal(found[0], at::zeros({100})));
    EXPECT_TRUE(found[1].isnan().all().item<bool>());
    EXPECT_TRUE(found[2].isnan().all().item<bool>());
    EXPECT_TRUE(at::allclose(found[3], at::ones({100})));
  }
}

TEST_F(QuantizedStoreTest, PreservesTheMeanOfRandomRounding) {
  for (const QuantizedFormat format : {kInt8, kFloat8}) {
    at::Tensor x = at::full({2000, 100}, 0.3003);
    x.select(1, 0).fill_(1);
    for (const bool stochastic : {false, true}) {
      const at::Tensor found =
          round_trip(x, {.format = format, .block_size = 100, .stochastic_rounding = stochastic});
      const at::Tensor rest = found.narrow(1, 1, 99);
      const double off = std::abs(rest.mean(at::kDouble).item<double>() - 0.3003);
      EXPECT_EQ(off < 1e-4, stochastic) << off;
      EXPECT_EQ(std::get<0>(at::_unique2(rest)).numel(), stochastic ? 2 : 1);
    }
  }
}

TEST_F(QuantizedStoreTest, DrawsFromGeneratorsOfItsOwn) {
  const at::Tensor x = at::randn({5000});
  const QuantizedOptions options{.stochastic_rounding = true, .seed = 11};
  torch::manual_seed(1);
  const at::Tensor expected = at::rand({4});
  torch::manual_seed(1);
  const at::Tensor found = round_trip(x, options);
  EXPECT_TRUE(bitwise_equal(at::rand({4}), expected));
  EXPECT_TRUE(bitwise_equal(round_trip(x, options), found));
  EXPECT_FALSE(bitwise_equal(round_trip(x, {.stochastic_rounding = true, .seed = 12}), found));
}

TEST_F(QuantizedStoreTest, GradientsAreThoseOfWhatComesBack) {
  const at::Tensor x = at::randn({60, 50});
  const at::Tensor w = at::randn({60, 50}).requires_grad_();
  for (const auto& store :
       {stores::quantized(), stores::quantized() | stores::disk({.min_bytes = 0})}) {
    at::Tensor y;
    {
      const StoreGuard guard(store);
      y = (x.clone() * w).sum();
    }
    EXPECT_TRUE(bitwise_equal(torch::autograd::grad({y}, {w})[0], round_trip(x, {})));
  }
}

// A store of several ranks makes one collective of it.
TEST_F(QuantizedStoreTest, HandsOnTogetherWhatItIsGivenTogether) {
  const auto diary = std::make_shared<testing::DiaryStore>();
  const std::vector<at::Tensor> tensors = {at::randn({50}), at::arange(60), at::randn({7, 9})};
  const auto stored = (stores::quantized({.min_bytes = 0}) | diary)->put_all(tensors, "region 'a'");
  EXPECT_THAT(diary->take_lines(), ::testing::ElementsAre("put 5 of region 'a'"));
  ASSERT_EQ(stored.size(), tensors.size());
  EXPECT_TRUE(bitwise_equal(stored[0]->get(), round_trip(tensors[0], {.min_bytes = 0})));
  EXPECT_TRUE(bitwise_equal(stored[1]->get(), tensors[1]));
  EXPECT_TRUE(bitwise_equal(stored[2]->get(), round_trip(tensors[2], {.min_bytes = 0})));
}

TEST_F(QuantizedStoreTest, AcceptsABlockWithoutElements) {
  EXPECT_THAT([] { static_cast<void>(stores::quantized({.block_size = 0})); },
              ::testing::ThrowsMessage<std::invalid_argument>(HasSubstr("block_size is 0")));
}

}  // namespace
}  // namespace reprise::quantized_store_test
