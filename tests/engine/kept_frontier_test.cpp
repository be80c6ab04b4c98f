// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Of the results that a policy saves, those are retained that backward reads: see Note [Frontier].
#include "reprise/engine/errors.h"
#include "reprise/engine/memory_report.h"
#include "reprise/engine/value_annotations.h"
#include "reprise/policies/policies.h"
#include "tests/conformance/conformance_fixture.h"
#include "tests/testing/kernel_counter.h"

namespace reprise::testing::kept_frontier_test {
namespace {

constexpr std::int64_t kMatrix = 16 * 16 * 4;

class KeptFrontierTest : public ConformanceTest, public ::testing::WithParamInterface<ReplayMode> {
 protected:
  // Runs `code` plainly and as a region with `policy`, and compares the gradients. Returns the
  // bytes that the region retains besides its results.
  template <class Code>
  std::int64_t kept_by_region(const PolicyHolder& policy, const Code& code) {
    const at::Tensor x = leaf({16, 16});
    const Tensors expected = gradients(code(x), {x});
    std::int64_t bytes = 0;
    for (const bool is_again : {false, true}) {
      const std::int64_t before = live_cpu_bytes();
      const at::Tensor y = checkpoint({.policy = policy, .replay = GetParam()}, code, x);
      bytes = live_cpu_bytes() - before - static_cast<std::int64_t>(y.storage().nbytes());
      if (is_again) {
        torch::autograd::grad({y.sum()}, {x}, {}, /*retain_graph=*/true);
      }
      const KernelCounter counter;
      expect_same_bits(gradients(y, {x}), expected);
      products_ = static_cast<std::int64_t>(counter.count("aten::mm"));
    }
    return bytes;
  }

  static at::Tensor weight() { return torch::randn({16, 16}); }

  std::int64_t products_ = 0;  // in the last backward
};

TEST_P(KeptFrontierTest, KeepsTheReluOfAMatmul) {
  const auto code = [w = weight()](const at::Tensor& t) { return at::relu(t.mm(w)).mm(w).sum(); };
  EXPECT_EQ(kept_by_region(policies::save_matmuls(), code), kMatrix);
  EXPECT_EQ(products_, 2);  // of backward alone
}

TEST_P(KeptFrontierTest, KeepsNothingBesidesAResultThatIsTheRelu) {
  const auto code = [w = weight()](const at::Tensor& t) { return at::relu(t.mm(w)); };
  EXPECT_EQ(kept_by_region(policies::save_matmuls(), code), 0);
}

TEST_P(KeptFrontierTest, FollowsAChainOfOperators) {
  const auto code = [w = weight()](const at::Tensor& t) {
    at::Tensor h = t.mm(w);
    h = h + 1;
    h = h * 2;
    h = h.sigmoid();
    return h.sum();
  };
  EXPECT_EQ(kept_by_region(policies::save_matmuls(), code), kMatrix);
}

TEST_P(KeptFrontierTest, KeepsASumInsteadOfItsTerms) {
  const auto code = [w = weight()](const at::Tensor& t) {
    at::Tensor h = t.mm(w) + t.mm(w.t());
    h = h + t.mm(w * 2);
    return h.tanh().sum();
  };
  EXPECT_EQ(kept_by_region(policies::save_matmuls(), code), kMatrix);
}

TEST_P(KeptFrontierTest, KeepsAMatmulWhoseReaderIsLarger) {
  const auto code = [w = weight()](const at::Tensor& t) {
    const at::Tensor h = t.mm(w);
    return at::relu(at::cat({h, h}, 1)).sum();
  };
  EXPECT_EQ(kept_by_region(policies::save_matmuls(), code), kMatrix);
}

TEST_P(KeptFrontierTest, KeepsASmallResultInsteadOfALargeOne) {
  const auto code = [](const at::Tensor& t) {
    at::Tensor h = t.detach().pow(2);
    h = h.mean(-1, /*keepdim=*/true);
    h = h.rsqrt();
    return t * h;
  };
  const auto squares = [](const PolicyContext& context) { return context.op() == "aten::pow"; };
  EXPECT_EQ(kept_by_region(squares, code), kMatrix / 16);
}

// All parts of the expression end at once, so none can take the place of another.
TEST_P(KeptFrontierTest, DropsWhatExceedsAutogradsShareUnlessThePolicyInsists) {
  const auto code = [](const at::Tensor& t) {
    return t * (t.detach().pow(2).mean(-1, /*keepdim=*/true) + 1e-5).rsqrt();
  };
  const auto answer_for_squares = [](CheckpointPolicy answer) {
    return [answer](const PolicyContext& context) {
      return context.op() == "aten::pow" ? answer : CheckpointPolicy::PREFER_RECOMPUTE;
    };
  };
  EXPECT_EQ(kept_by_region(answer_for_squares(CheckpointPolicy::PREFER_SAVE), code), 0);
  EXPECT_EQ(kept_by_region(answer_for_squares(CheckpointPolicy::MUST_SAVE), code), kMatrix);
}

// Both results of sort() are saved by the policy, and the values are read by nobody.
TEST_P(KeptFrontierTest, DropsResultsThatNobodyReads) {
  const auto code = [](const at::Tensor& t) {
    return t.gather(1, std::get<1>(t.detach().sort(1))) * 2;
  };
  const std::int64_t indices = 2 * kMatrix;
  EXPECT_EQ(kept_by_region(policies::save_everything(), code), indices);
}

TEST_P(KeptFrontierTest, RecomputesAReleasedResultFromTheRightState) {
  const auto code = [w = weight()](const at::Tensor& t) {
    at::Tensor a = t.sin() * 1;
    at::Tensor r = at::relu(a.mm(w));
    r = r.reshape_as(r);  // an operator after which the product has no owner
    a.add_(1);
    must_recompute(r);
    return (r * a).tanh().sum();
  };
  kept_by_region([](const PolicyContext& context) { return context.op() != "aten::add_"; }, code);
}

TEST_P(KeptFrontierTest, KeepsTheStandInOfAResultThatMustBeSaved) {
  const auto code = [w = weight()](const at::Tensor& t) {
    at::Tensor r = t.mm(w) + 1;
    const at::Tensor s = r.exp();
    r.mul_(2);
    return (s * r.sigmoid()).sum();
  };
  kept_by_region(policies::save_operators({"aten::mm"}), code);
  EXPECT_EQ(products_, 1);  // of backward alone
}

TEST_P(KeptFrontierTest, ReportsTheResultThatIsKept) {
  const MemoryReportGuard collecting;
  const auto code = [w = weight()](const at::Tensor& t) {
    const at::Tensor h = at::relu(t.mm(w));
    return h.sum();
  };
  checkpoint({.policy = policies::save_matmuls(), .replay = GetParam()}, code, leaf({16, 16}));
  const MemoryReport report = memory_report();
  std::int64_t bytes = 0;
  for (const OperatorReport& op : report.regions.at(0).operators) {
    bytes += op.kept_bytes;
    EXPECT_EQ(op.kept_bytes, op.name == "aten::relu" ? kMatrix : 0) << op.name;
  }
  EXPECT_EQ(bytes, kMatrix);
}

INSTANTIATE_TEST_SUITE_P(Forms, KeptFrontierTest,
                         ::testing::Values(ReplayMode::kFunction, ReplayMode::kTape),
                         [](const auto& info) {
                           return info.param == ReplayMode::kTape ? "tape" : "function";
                         });

}  // namespace
}  // namespace reprise::testing::kept_frontier_test
