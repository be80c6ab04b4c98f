// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Tensors of each dtype in each shape and layout that a lossless store has to give back.
#ifndef REPRISE_TESTS_HOOKS_STORE_CASES_H_
#define REPRISE_TESTS_HOOKS_STORE_CASES_H_

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "reprise/hooks/activation_store.h"
#include "tests/testing/bitwise.h"

namespace reprise::store_cases {

inline const std::vector<at::ScalarType>& dtypes() {
  static const std::vector<at::ScalarType> kDtypes = {
      at::kBool,         at::kByte,          at::kChar,          at::kShort,      at::kInt,
      at::kLong,         at::kHalf,          at::kBFloat16,      at::kFloat,      at::kDouble,
      at::kComplexFloat, at::kComplexDouble, at::kFloat8_e4m3fn, at::kFloat8_e5m2};
  return kDtypes;
}

// Any bits, NaNs included, except that a bool is 0 or 1.
inline at::Tensor any_bits(at::IntArrayRef sizes, at::ScalarType dtype, at::Device device) {
  const auto numel = c10::multiply_integers(sizes);
  const auto itemsize = static_cast<std::int64_t>(c10::elementSize(dtype));
  const at::Tensor bytes =
      at::randint(0, dtype == at::kBool ? 2 : 256, {numel * itemsize}, at::kByte);
  const at::Tensor values = dtype == at::kBool ? bytes.to(at::kBool) : bytes.view(dtype);
  return values.view(sizes).to(device);
}

struct LayoutCase {
  std::string name;
  at::Tensor tensor;
  bool keeps_strides = true;  // false where elements overlap
};

inline std::vector<LayoutCase> layouts(at::ScalarType dtype, at::Device device) {
  const auto make = [&](at::IntArrayRef sizes) { return any_bits(sizes, dtype, device); };
  std::vector<LayoutCase> cases = {
      {"scalar", make({})},
      {"no element", make({3, 0, 2})},
      {"one element", make({1})},
      {"odd length", make({1031})},
      {"contiguous", make({33, 65})},
      {"eight dimensions", make({2, 1, 3, 2, 5, 2, 3, 7})},
      {"transposed", make({33, 65}).t()},
      {"permuted", make({7, 11, 13}).permute({2, 0, 1})},
      {"channels last", make({2, 5, 9, 11}).contiguous(at::MemoryFormat::ChannelsLast)},
      {"slice with gaps", make({40, 60}).slice(1, 3, 57, 2)},
      {"small part of a large one", make({200, 50}).narrow(0, 7, 3)},
      {"offset", make({5, 300}).narrow(0, 1, 4)},
      {"expanded", make({1, 40}).expand({70, 40})},
      {"expanded scalar", make({1}).expand({1500})},
      {"expanded inside", make({20, 1, 9}).expand({20, 8, 9})},
      {"overlapping", make({600}).as_strided({200, 300}, {1, 1}), /*keeps_strides=*/false},
      {"all equal", make({1}).expand({900}).clone()},
  };
  if (at::isComplexType(dtype)) {
    cases.push_back({"conjugate", make({20, 30}).conj()});
    cases.push_back({"negative", at::imag(make({20, 30}).conj())});
  }
  return cases;
}

inline at::Tensor values(const at::Tensor& tensor) {
  return tensor.resolve_conj().resolve_neg().cpu().clone();
}

// Tensors of get_own() may be written by any means, and resized.
inline void expect_own_back(StoredTensor& stored, const at::Tensor& expected,
                            const LayoutCase& layout, at::IntArrayRef strides) {
  const at::Tensor own = stored.get_own();
  EXPECT_TRUE(testing::bitwise_equal(values(own), expected));
  EXPECT_TRUE(own.storage().resizable());
  if (layout.keeps_strides) {
    EXPECT_EQ(own.strides(), strides);
  }
  if (own.is_cpu() && own.storage().nbytes() > 0) {
    std::memset(own.storage().mutable_data(), 0x5A, own.storage().nbytes());
  } else if (own.is_non_overlapping_and_dense()) {
    own.zero_();
  }
  EXPECT_TRUE(testing::bitwise_equal(values(stored.get()), expected));
}

// Puts the tensor, which is let go of, and gets it twice.
inline void expect_back(ActivationStore& store, LayoutCase& layout) {
  at::Tensor& tensor = layout.tensor;
  const at::Device device = tensor.device();
  const at::Tensor expected = values(tensor);
  const std::vector<std::int64_t> strides = tensor.strides().vec();
  const std::int64_t version = tensor._version();
  const auto stored = store.put(tensor);
  EXPECT_EQ(tensor._version(), version);
  EXPECT_TRUE(testing::bitwise_equal(values(tensor), expected));
  tensor.reset();
  for (int time = 0; time < 2; ++time) {
    stored->prefetch();
    const at::Tensor found = stored->get();
    EXPECT_TRUE(testing::bitwise_equal(values(found), expected));
    EXPECT_EQ(found.sizes(), expected.sizes());
    EXPECT_EQ(found.device(), device);
    EXPECT_FALSE(found.requires_grad());
    if (layout.keeps_strides) {
      EXPECT_EQ(found.strides(), strides);
    }
    expect_own_back(*stored, expected, layout, strides);
  }
  expect_own_back(*stored, expected, layout, strides);
}

inline void expect_all_back(ActivationStore& store, at::Device device) {
  for (const at::ScalarType dtype : dtypes()) {
    for (LayoutCase& layout : layouts(dtype, device)) {
      SCOPED_TRACE(c10::str(layout.name, " of ", dtype));
      expect_back(store, layout);
    }
  }
}

}  // namespace reprise::store_cases

#endif  // REPRISE_TESTS_HOOKS_STORE_CASES_H_
