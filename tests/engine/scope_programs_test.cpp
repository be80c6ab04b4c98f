// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// CheckpointScope around code that no callable is made of: long loops, TorchScript, early returns.
#include <torch/jit.h>

#include "reprise/engine/checkpoint_scope.h"
#include "reprise/engine/memory_report.h"
#include "tests/conformance/conformance_fixture.h"
#include "tests/testing/kernel_counter.h"

namespace reprise::testing::scope_programs_test {
namespace {

class ScopeProgramsTest : public ConformanceTest {
 protected:
  // The bits of the result and of the gradients of its sum.
  template <class Code>
  void expect_as_plain_in_scope(const Code& code, const Tensors& leaves) {
    const auto run = [&](bool in_scope) {
      torch::manual_seed(5);
      std::optional<CheckpointScope> scope;
      if (in_scope) {
        scope.emplace();
      }
      const at::Tensor y = code();
      scope.reset();
      Tensors found = gradients(y, leaves);
      found.push_back(y.detach());
      return found;
    };
    expect_same_bits(run(true), run(false));
  }
};

TEST_F(ScopeProgramsTest, TenThousandOperatorsInARow) {
  const at::Tensor x = leaf({8});
  const auto code = [&] {
    at::Tensor h = x;
    for (int i = 0; i < 2500; ++i) {
      h = (h.sin() * 1.01 + x).tanh();
    }
    return h;
  };
  const MemoryReportGuard collecting;
  expect_as_plain_in_scope(code, {x});
  const RegionReport region = memory_report().regions.at(0);
  EXPECT_EQ(region.tape_operators, 10'000);
  EXPECT_LT(region.tape_bytes, 10'000 * 400);
}

// Each is asked for by itself: the cost of a request must not grow with the scope.
TEST_F(ScopeProgramsTest, TenThousandOperatorsSideBySide) {
  const at::Tensor x = leaf({8});
  const auto code = [&] {
    at::Tensor sum = x;
    for (int i = 0; i < 2500; ++i) {
      sum = sum + (x * i).sin().exp();
    }
    return sum;
  };
  KernelCounter counter;
  expect_as_plain_in_scope(code, {x});
  EXPECT_EQ(counter.count("aten::sin"), 3U * 2500U);
  EXPECT_EQ(counter.count("aten::exp"), 3U * 2500U);
}

// The JIT's executor profiles the first runs and changes its graphs after them, and with them the
// bits of gradients: each form has an executor of its own.
TEST_F(ScopeProgramsTest, TorchScript) {
  const char* const source = R"(
    def block(x, w):
        h = torch.relu(torch.mm(x, w))
        for i in range(3):
            h = torch.dropout(torch.tanh(h * w) + h, 0.2, True)
        if bool(h.sum() > 0):
            h.mul_(0.5)
        return h.exp()
  )";
  const auto plain = torch::jit::compile(source);
  const auto scoped = torch::jit::compile(source);
  const at::Tensor x = leaf({4, 4});
  const at::Tensor w = leaf({4, 4});
  for (int run = 0; run < 5; ++run) {
    SCOPED_TRACE(run);
    torch::manual_seed(run);
    const Tensors expected = gradients(plain->run_method("block", x, w).toTensor(), {x, w});
    torch::manual_seed(run);
    at::Tensor y;
    {
      const CheckpointScope scope;
      y = scoped->run_method("block", x, w).toTensor();
    }
    expect_same_bits(gradients(y, {x, w}), expected);
  }
}

at::Tensor leaves_early(const at::Tensor& x, bool early) {
  const CheckpointScope scope;
  const at::Tensor h = x.sin();
  if (early) {
    return h.exp();
  }
  return h.cos();
}

TEST_F(ScopeProgramsTest, EndsAtAnEarlyReturn) {
  const at::Tensor x = leaf({4});
  for (const bool early : {true, false}) {
    const at::Tensor y = leaves_early(x, early);
    const at::Tensor h = x.sin();
    const at::Tensor expected = early ? h.exp() : h.cos();
    expect_same_bits(gradients(y, {x}), gradients(expected, {x}));
  }
}

TEST_F(ScopeProgramsTest, RunsInALoopAroundALoop) {
  const at::Tensor x = leaf({4, 4});
  const auto run = [&](bool scoped) {
    at::Tensor h = x;
    for (int outer = 0; outer < 5; ++outer) {
      std::optional<CheckpointScope> scope;
      if (scoped) {
        scope.emplace();
      }
      for (int inner = 0; inner < 5; ++inner) {
        if (inner == 3 && outer % 2 == 0) {
          continue;
        }
        h = torch::dropout(h.mm(x).tanh(), 0.3, true);
      }
      if (outer == 3) {
        break;
      }
    }
    return gradients(h, {x});
  };
  torch::manual_seed(1);
  const Tensors expected = run(false);
  torch::manual_seed(1);
  expect_same_bits(run(true), expected);
}

}  // namespace
}  // namespace reprise::testing::scope_programs_test
