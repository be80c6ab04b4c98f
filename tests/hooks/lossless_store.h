// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Promises of each lossless store, on any device; a program that includes this says with
// INSTANTIATE_TEST_SUITE_P which stores it has.
#ifndef REPRISE_TESTS_HOOKS_LOSSLESS_STORE_H_
#define REPRISE_TESTS_HOOKS_LOSSLESS_STORE_H_

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "reprise/hooks/activation_store.h"
#include "tests/hooks/store_cases.h"
#include "tests/testing/bitwise.h"
#include "tests/testing/counting.h"

namespace reprise::store_cases {

struct StoreCase {
  std::string name;
  std::function<std::shared_ptr<ActivationStore>()> make;
  at::Device device = at::kCPU;
};

inline void PrintTo(const StoreCase& store, std::ostream* out) { *out << store.name; }

class LosslessStoreTest : public ::testing::TestWithParam<StoreCase> {
 protected:
  void TearDown() override { testing::settled_cpu_bytes(); }  // of the background

  static std::unique_ptr<StoredTensor> put(const at::Tensor& tensor) {
    return GetParam().make()->put(tensor);
  }
};

TEST_P(LosslessStoreTest, GivesBackEachDtypeAndLayout) {
  const auto store = GetParam().make();
  expect_all_back(*store, GetParam().device);
}

TEST_P(LosslessStoreTest, KeepsRequiresGradAndNoGraph) {
  const at::Tensor x = at::randn({40, 50}).to(GetParam().device).requires_grad_();
  const at::Tensor y = x.sin();
  for (const at::Tensor& tensor : {x, y, x.detach()}) {
    const at::Tensor found = put(tensor)->get();
    EXPECT_EQ(found.requires_grad(), tensor.requires_grad());
    EXPECT_TRUE(found.is_leaf());
  }
}

TEST_P(LosslessStoreTest, AllowsTheCallersTensorToChange) {
  const at::Tensor x = at::randn({40, 50}).to(GetParam().device);
  const at::Tensor expected = values(x);
  {
    const auto unused = put(x);
    unused->prefetch();
  }
  EXPECT_TRUE(testing::bitwise_equal(values(x), expected));
}

}  // namespace reprise::store_cases

#endif  // REPRISE_TESTS_HOOKS_LOSSLESS_STORE_H_
