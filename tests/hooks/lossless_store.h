// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// What each lossless store promises, on any device; a program that includes this says with
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

class LosslessStore : public ::testing::TestWithParam<StoreCase> {
 protected:
  void TearDown() override { testing::settled_cpu_bytes(); }  // of the background

  static std::unique_ptr<StoredTensor> put(const at::Tensor& tensor) {
    return GetParam().make()->put(tensor);
  }

  static at::Tensor values(const at::Tensor& tensor) {
    return tensor.resolve_conj().resolve_neg().cpu().clone();
  }
};

TEST_P(LosslessStore, GivesBackEachDtypeAndLayout) {
  const auto store = GetParam().make();
  for (const at::ScalarType dtype : dtypes()) {
    for (auto& [name, tensor, keeps_strides] : layouts(dtype, GetParam().device)) {
      SCOPED_TRACE(c10::str(name, " of ", dtype));
      const at::Tensor expected = values(tensor);
      const std::vector<std::int64_t> strides = tensor.strides().vec();
      const std::int64_t version = tensor._version();
      const auto stored = store->put(tensor);
      EXPECT_EQ(tensor._version(), version);
      EXPECT_TRUE(testing::bitwise_equal(values(tensor), expected));
      tensor.reset();
      for (int time = 0; time < 2; ++time) {
        stored->prefetch();
        const at::Tensor found = stored->get();
        EXPECT_TRUE(testing::bitwise_equal(values(found), expected));
        EXPECT_EQ(found.sizes(), expected.sizes());
        EXPECT_EQ(found.device(), GetParam().device);
        EXPECT_FALSE(found.requires_grad());
        if (keeps_strides) {
          EXPECT_EQ(found.strides(), strides);
        }
      }
    }
  }
}

TEST_P(LosslessStore, KeepsRequiresGradAndNoGraph) {
  const at::Tensor x = at::randn({40, 50}).to(GetParam().device).requires_grad_();
  const at::Tensor y = x.sin();
  for (const at::Tensor& tensor : {x, y, x.detach()}) {
    const at::Tensor found = put(tensor)->get();
    EXPECT_EQ(found.requires_grad(), tensor.requires_grad());
    EXPECT_TRUE(found.is_leaf());
  }
}

TEST_P(LosslessStore, TheCallersTensorMayGoOn) {
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
