// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/checks/fingerprint.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

#include "reprise/engine/cpu_memory.h"
#include "tests/testing/counting.h"

namespace reprise::engine_internal::fingerprint_test {
namespace {

constexpr std::int64_t kChunk = std::int64_t{1} << 20;

// By hash of the bytes, and by operators as on an accelerator.
class FingerprintTest : public ::testing::TestWithParam<bool> {
 protected:
  static Fingerprint fingerprint(const at::Tensor& tensor) {
    const at::NoGradGuard no_grad;
    return GetParam() ? Fingerprint::of_by_operators(tensor) : Fingerprint::of(tensor);
  }

  static bool same(const at::Tensor& a, const at::Tensor& b) {
    return Fingerprint::equal(fingerprint(a), fingerprint(b));
  }

  static at::Tensor with_flipped_bit(const at::Tensor& tensor, std::size_t bit) {
    at::Tensor changed = tensor.clone();
    static_cast<unsigned char*>(changed.data_ptr())[bit / 8] ^=
        static_cast<unsigned char>(1U << (bit % 8));
    return changed;
  }

  static at::Tensor swapped(const at::Tensor& tensor, std::int64_t i, std::int64_t j) {
    at::Tensor changed = tensor.clone();
    changed[i].copy_(tensor[j]);
    changed[j].copy_(tensor[i]);
    return changed;
  }
};

INSTANTIATE_TEST_SUITE_P(Ways, FingerprintTest, ::testing::Bool(), [](const auto& info) {
  return info.param ? std::string("ByOperators") : std::string("ByBytes");
});

TEST_P(FingerprintTest, EachBitOfEachElementCounts) {
  for (const at::ScalarType dtype :
       {at::kByte, at::kChar, at::kShort, at::kInt, at::kLong, at::kHalf, at::kBFloat16, at::kFloat,
        at::kDouble, at::kComplexFloat, at::kComplexDouble, at::kFloat8_e4m3fn, at::kFloat8_e5m2}) {
    const at::Tensor x = torch::randn({3}).mul(50).to(dtype);
    EXPECT_TRUE(same(x, x.clone())) << dtype;
    for (std::size_t bit = 0; bit < x.nbytes() * 8; ++bit) {
      EXPECT_FALSE(same(x, with_flipped_bit(x, bit))) << dtype << " bit " << bit;
    }
  }
}

TEST_P(FingerprintTest, BoolCounts) {
  const at::Tensor x = torch::tensor({true, false, true});
  EXPECT_TRUE(same(x, x.clone()));
  EXPECT_FALSE(same(x, torch::tensor({true, true, false})));
  EXPECT_FALSE(same(x, torch::tensor({true, true, true})));
}

TEST_P(FingerprintTest, SignOfZeroAndPayloadOfNaNCount) {
  EXPECT_FALSE(same(torch::tensor({0.0}), torch::tensor({-0.0})));
  EXPECT_FALSE(same(torch::tensor({0.0F, 1.0F}), torch::tensor({-0.0F, 1.0F})));
  const at::Tensor quiet = torch::full({2}, std::numeric_limits<double>::quiet_NaN(), at::kDouble);
  EXPECT_TRUE(same(quiet, quiet.clone()));
  EXPECT_FALSE(same(quiet, with_flipped_bit(quiet, 3)));
}

TEST_P(FingerprintTest, SwappedElementsCount) {
  for (const at::ScalarType dtype :
       {at::kFloat, at::kDouble, at::kBFloat16, at::kBool, at::kLong}) {
    at::Tensor x = torch::zeros({300}, dtype);
    x[7].fill_(1);
    for (std::int64_t other = 0; other < 300; ++other) {
      EXPECT_EQ(same(x, swapped(x, 7, other)), other == 7) << dtype << ' ' << other;
    }
  }
}

TEST_P(FingerprintTest, SwappedSignsCount) {
  const at::Tensor x = torch::ones({64});
  for (std::int64_t i = 0; i < 60; ++i) {
    at::Tensor changed = x.clone();  // four signs, so that sums of places agree
    at::Tensor other = x.clone();
    changed[i].neg_(), changed[i + 3].neg_();
    other[i + 1].neg_(), other[i + 2].neg_();
    EXPECT_FALSE(same(changed, other)) << i;
  }
}

TEST_P(FingerprintTest, StridesDoNotCount) {
  const at::Tensor x = torch::randn({6, 5, 4});
  EXPECT_TRUE(same(x, x.permute({2, 0, 1}).contiguous().permute({1, 2, 0})));
  EXPECT_TRUE(same(x.slice(1, 0, 5, 2), x.slice(1, 0, 5, 2).contiguous()));
  EXPECT_TRUE(same(x.select(0, 0).expand({3, 5, 4}), x.select(0, 0).repeat({3, 1, 1})));
  EXPECT_FALSE(same(x.slice(1, 0, 5, 2), x.slice(1, 0, 4).slice(1, 0, 3)));
}

TEST_P(FingerprintTest, StridesDoNotCountInLargeTensors) {
  const at::Tensor x = torch::randint(0, 100, {3, 700, 1100}, at::kByte);
  const at::Tensor transposed = x.transpose(0, 2).contiguous().transpose(0, 2);
  ASSERT_FALSE(transposed.is_contiguous());
  EXPECT_TRUE(same(x, transposed));
  at::Tensor changed = transposed.clone();
  changed[2][699][1099].add_(1);
  EXPECT_FALSE(same(x, changed));
}

TEST_P(FingerprintTest, PlacesInDifferentChunksCount) {
  for (const at::ScalarType dtype : {at::kByte, at::kDouble}) {
    at::Tensor x = torch::zeros({3 * kChunk + 5}, dtype);
    x[11].fill_(1);
    for (const std::int64_t other :
         {11 + kChunk, 11 + 2 * kChunk, 12 + kChunk, kChunk / 2 + 11, 3 * kChunk + 4}) {
      EXPECT_FALSE(same(x, swapped(x, 11, other))) << dtype << ' ' << other;
    }
  }
}

TEST_P(FingerprintTest, ConjugateAndNegativeViewsAreResolved) {
  const at::Tensor z = torch::randn({4}, at::kComplexFloat);
  EXPECT_TRUE(same(z.conj(), z.conj().resolve_conj()));
  EXPECT_FALSE(same(z.conj(), z));
  const at::Tensor negative = at::imag(z.conj());
  ASSERT_TRUE(negative.is_neg());
  EXPECT_TRUE(same(negative, negative.resolve_neg()));
  EXPECT_FALSE(same(negative, at::imag(z)));
}

TEST_P(FingerprintTest, EmptyScalarUndefinedAndMetaTensorsWork) {
  EXPECT_TRUE(same(torch::empty({0}), torch::empty({0})));
  EXPECT_TRUE(same(torch::empty({0, 3}), torch::empty({0, 3})));
  EXPECT_TRUE(same(torch::scalar_tensor(2.5), torch::scalar_tensor(2.5)));
  EXPECT_FALSE(same(torch::scalar_tensor(2.5), torch::scalar_tensor(-2.5)));
  EXPECT_TRUE(same(at::Tensor(), at::Tensor()));
  const at::Tensor meta = torch::empty({3}, at::kMeta);
  EXPECT_TRUE(same(meta, torch::empty({3}, at::kMeta)));
}

TEST_P(FingerprintTest, ZeroTensorsEqualZeros) {
  const at::Tensor zero = at::_efficientzerotensor({3});
  EXPECT_TRUE(same(zero, torch::zeros({3})));
}

TEST_P(FingerprintTest, SparseTensorsCountAsStored) {
  const at::Tensor indices = torch::tensor({{0, 2}, {1, 0}}, at::kLong);
  const at::Tensor values = torch::tensor({1.5F, 2.5F});
  const at::Tensor coo = at::sparse_coo_tensor(indices, values, {3, 3});
  EXPECT_TRUE(same(coo, coo.clone()));
  EXPECT_FALSE(same(coo, at::sparse_coo_tensor(indices, values.flip(0), {3, 3})));
  EXPECT_FALSE(same(coo, at::sparse_coo_tensor(indices.flip(0), values, {3, 3})));
  const at::Tensor csr = coo.coalesce().to_sparse_csr();
  EXPECT_TRUE(same(csr, csr.clone()));
  EXPECT_FALSE(same(csr, csr * 2));
  const at::Tensor csc = coo.to_dense().to_sparse_csc();
  EXPECT_TRUE(same(csc, csc.clone()));
  EXPECT_FALSE(same(csc, (coo.to_dense() * 2).to_sparse_csc()));
}

TEST_P(FingerprintTest, NestedTensorsWork) {
  const auto nested = [](double last) {
    return at::_nested_tensor_from_tensor_list({torch::ones({2, 3}), torch::full({1, 3}, last)});
  };
  EXPECT_TRUE(same(nested(2), nested(2)));
  EXPECT_FALSE(same(nested(2), nested(3)));
}

TEST_P(FingerprintTest, DrawsNoRandomNumbersAndBuildsNoGraph) {
  const at::Tensor x = torch::randn({4}, torch::requires_grad());
  const auto generator = at::detail::getDefaultCPUGenerator();
  const at::Tensor state = generator.get_state();
  const auto uses = x.use_count();
  fingerprint(x);
  EXPECT_TRUE(at::equal(state, generator.get_state()));
  EXPECT_EQ(x.use_count(), uses);
}

TEST_P(FingerprintTest, MemoryIsBoundedWhateverTheStrides) {
  const at::Tensor x = torch::empty({1 << 12, 1 << 12}, at::kFloat).fill_(1).t();
  fingerprint(x);
  const std::int64_t before = cpu_memory().current_bytes;
  reset_peak_cpu_memory();
  fingerprint(x);
  EXPECT_LE(cpu_memory().peak_bytes - before, (GetParam() ? 36 : 5) * kChunk);
}

TEST_P(FingerprintTest, NothingIsLeftBehind) {
  const at::Tensor x = torch::randn({100});
  fingerprint(x);
  const reprise::testing::LeakCheck leak_check;
  EXPECT_TRUE(same(x, x));
}

TEST(FingerprintOnDeviceTest, CopiesNothingToTheHost) {
  if (!torch::cuda::is_available()) {
    GTEST_SKIP() << "needs a CUDA device";
  }
  const at::NoGradGuard no_grad;
  const at::Tensor x = torch::randn({300, 70}, torch::kCUDA);
  at::Tensor changed = x.clone();
  changed[299][69].neg_();
  EXPECT_TRUE(Fingerprint::equal(Fingerprint::of(x), Fingerprint::of(x.t().contiguous().t())));
  EXPECT_FALSE(Fingerprint::equal(Fingerprint::of(x), Fingerprint::of(changed)));
  EXPECT_FALSE(Fingerprint::equal(Fingerprint::of(x), Fingerprint::of(x.cpu())));
}

}  // namespace
}  // namespace reprise::engine_internal::fingerprint_test
