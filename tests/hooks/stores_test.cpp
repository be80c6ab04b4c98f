// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The lossless stores on the CPU.
#include "reprise/hooks/stores.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <limits>

#include "reprise/hooks/compressed_store.h"
#include "reprise/hooks/disk_store.h"
#include "reprise/hooks/slab_store.h"
#include "tests/hooks/lossless_store.h"
#include "tests/hooks/store_cases.h"
#include "tests/testing/bitwise.h"
#include "tests/testing/counting.h"

namespace reprise::stores_test {
namespace {

using store_cases::LosslessStoreTest;
using store_cases::StoreCase;
using testing::bitwise_equal;
using testing::live_cpu_bytes;

// However slow.
auto compressed(double max_ratio, CompressionCodec codec = CompressionCodec::kAutomatic) {
  return stores::compressed({.codec = codec,
                             .max_ratio = max_ratio,
                             .max_slowdown = std::numeric_limits<double>::infinity(),
                             .min_bytes = 0,
                             .keep_last = 0});
}

INSTANTIATE_TEST_SUITE_P(
    Stores, LosslessStoreTest,
    ::testing::Values(
        StoreCase{"device", stores::device}, StoreCase{"packed", [] { return stores::packed(); }},
        StoreCase{"packed_any_size", [] { return stores::packed({.min_bytes = 0}); }},
        StoreCase{"packed_with_constants",
                  [] { return stores::packed({.min_bytes = 0, .find_constants = true}); }},
        StoreCase{"disk", [] { return stores::disk({.min_bytes = 0, .keep_last = 0}); }},
        StoreCase{"disk_as_it_comes", [] { return stores::disk(); }},
        StoreCase{"packed_disk",
                  [] {
                    return stores::packed({.min_bytes = 0}) |
                           stores::disk({.min_bytes = 0, .keep_last = 0, .direct = false});
                  }},
        StoreCase{"compressed", [] { return compressed(1e9); }},
        StoreCase{"compressed_by_lz4", [] { return compressed(1e9, CompressionCodec::kLz4); }},
        StoreCase{"compressed_by_zstandard",
                  [] { return compressed(1e9, CompressionCodec::kZstandard); }},
        StoreCase{"compressed_as_it_comes", [] { return stores::compressed(); }},
        StoreCase{"packed_compressed_disk",
                  [] {
                    return stores::packed({.min_bytes = 0}) | compressed(0.9) |
                           stores::disk({.min_bytes = 0, .keep_last = 0});
                  }},
        StoreCase{"slab", [] { return stores::slab({.min_bytes = 0}); }},
        StoreCase{"slab_of_a_size",
                  [] { return stores::slab({.initial_bytes = 3000, .min_bytes = 0}); }},
        StoreCase{"packed_slab",
                  [] { return stores::packed({.min_bytes = 0}) | stores::slab({.min_bytes = 0}); }},
        StoreCase{"two_in_a_row",
                  [] { return stores::packed({.min_bytes = 0}) | stores::packed(); }}),
    [](const auto& info) { return info.param.name; });

TEST_P(LosslessStoreTest, GivesBackSparseTensors) {
  const at::Tensor dense = at::randn({30, 40}).relu();
  for (const at::Tensor& tensor :
       {dense.to_sparse(), dense.to_sparse(1), dense.to_sparse_csr(), dense.to_sparse_csc(),
        dense.to_sparse_bsr({3, 4}), dense.to_sparse_bsc({3, 4})}) {
    const at::Tensor found = put(tensor)->get();
    EXPECT_EQ(found.layout(), tensor.layout());
    EXPECT_EQ(found.dense_dim(), tensor.dense_dim());
    EXPECT_TRUE(bitwise_equal(found.to_dense(), dense));
  }
}

TEST_P(LosslessStoreTest, KeepsWhetherASparseTensorIsCoalesced) {
  const at::Tensor twice =
      at::sparse_coo_tensor(at::zeros({1, 300}, at::kLong), at::ones({300}), at::IntArrayRef({5}));
  const at::Tensor found = put(twice)->get();
  EXPECT_FALSE(found.is_coalesced());
  EXPECT_EQ(found._nnz(), 300);
  EXPECT_TRUE(put(twice.coalesce())->get().is_coalesced());
}

TEST_P(LosslessStoreTest, LeavesNothingBehind) {
  const std::int64_t before = testing::settled_cpu_bytes();
  for (const at::ScalarType dtype : {at::kBool, at::kLong, at::kFloat}) {
    const auto stored = put(store_cases::any_bits({64, 64}, dtype, at::kCPU));
    stored->prefetch();
    stored->get();
  }
  EXPECT_TRUE(testing::cpu_bytes_come_to(before));
}

// Bytes that `stored` holds once the caller's tensor is gone, counted and as it says itself.
std::int64_t kept_bytes(ActivationStore& store, at::Tensor tensor) {
  const std::int64_t before =
      live_cpu_bytes() - static_cast<std::int64_t>(tensor.storage().nbytes());
  const auto stored = store.put(tensor);
  tensor.reset();
  const std::int64_t kept = live_cpu_bytes() - before;
  EXPECT_EQ(static_cast<std::int64_t>(stored->device_bytes()), kept);
  return kept;
}

TEST(PackedStoreTest, BytesOfEachForm) {
  const auto store = stores::packed();
  EXPECT_EQ(kept_bytes(*store, at::rand({1000, 33}) < 0.5), 1000 * 33 / 8);
  EXPECT_EQ(kept_bytes(*store, at::rand({8195}) < 0.5), 1025);
  EXPECT_EQ(kept_bytes(*store, at::arange(256)), 256);
  EXPECT_EQ(kept_bytes(*store, at::arange(-128, 128)), 256);
  EXPECT_EQ(kept_bytes(*store, at::arange(257)), 257 * 2);
  EXPECT_EQ(kept_bytes(*store, at::arange(-40000, 40000, at::kInt)), 80000 * 4);
  EXPECT_EQ(kept_bytes(*store, at::arange(-40000, 40000)), 80000 * 4);
  EXPECT_EQ(kept_bytes(*store, at::arange(1000).add(1L << 40)), 1000 * 8);
  EXPECT_EQ(kept_bytes(*store, at::full({500}, 1L << 40, at::kLong)), 8);
  EXPECT_EQ(kept_bytes(*store, at::arange(300, at::kFloat).unsqueeze(1).expand({300, 9})), 1200);
  EXPECT_EQ(kept_bytes(*store, at::randn({300})), 1200);
}

TEST(PackedStoreTest, IndicesOfASparseTensorAreNarrowed) {
  const auto stored = stores::packed()->put(at::ones({200, 250}).to_sparse());
  EXPECT_EQ(stored->device_bytes(), 200U * 250 * (2 * 1 + 4));
}

TEST(PackedStoreTest, SmallTensorsAreLeftAlone) {
  EXPECT_EQ(kept_bytes(*stores::packed(), at::zeros({1023}, at::kBool)), 1023);
  EXPECT_EQ(kept_bytes(*stores::packed(), at::zeros({1024}, at::kBool)), 128);
  EXPECT_EQ(kept_bytes(*stores::packed({.min_bytes = 9}), at::zeros({8}, at::kBool)), 8);
  EXPECT_EQ(kept_bytes(*stores::packed({.min_bytes = 8}), at::zeros({8}, at::kBool)), 1);
}

TEST(PackedStoreTest, ConstantsWhereAskedFor) {
  const at::Tensor ones = at::ones({400});
  EXPECT_EQ(kept_bytes(*stores::packed(), ones.clone()), 1600);
  EXPECT_EQ(kept_bytes(*stores::packed({.find_constants = true}), ones.clone()), 4);
  at::Tensor zeros = at::zeros({400});
  zeros[7] = -0.0;  // equal, but not in its bits
  EXPECT_EQ(kept_bytes(*stores::packed({.find_constants = true}), zeros.clone()), 1600);
}

TEST(PackedStoreTest, RefusesChangedTensorsUnlessPacked) {
  const at::Tensor mask = at::zeros({2000}, at::kBool);
  const at::Tensor values = at::zeros({2000});
  const std::int64_t version = values._version();
  const auto packed = stores::packed()->put(mask);
  const auto kept = stores::packed()->put(values);
  mask.fill_(true);
  values.fill_(1);
  EXPECT_FALSE(packed->get().any().item<bool>());
  EXPECT_THAT([&] { kept->get(); },
              ::testing::ThrowsMessage<c10::Error>(::testing::HasSubstr(c10::str(
                  "modified by an inplace operation: CPUFloatType [2000] on cpu is at version ",
                  version + 1, "; expected version ", version))));
}

TEST(StoresTest, RefusesImpossibleChains) {
  EXPECT_THAT([] { static_cast<void>(stores::device() | stores::packed()); },
              ::testing::ThrowsMessage<std::invalid_argument>(
                  ::testing::HasSubstr("this store passes no tensor to another one")));
  EXPECT_THAT([] { static_cast<void>(stores::packed() | nullptr); },
              ::testing::ThrowsMessage<std::invalid_argument>(::testing::HasSubstr("null")));
  EXPECT_THAT([&] { static_cast<void>(stores::packed() | stores::device() | stores::packed()); },
              ::testing::ThrowsMessage<std::invalid_argument>(
                  ::testing::HasSubstr("this store passes no tensor to another one")));
}

}  // namespace
}  // namespace reprise::stores_test
