// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Budgets around TorchScript's interpreter, which turns exceptions into others.
#include <torch/csrc/jit/runtime/interpreter.h>
#include <torch/jit.h>

#include <cstdint>
#include <stdexcept>

#include "reprise/hooks/seam/forwarding_engine.h"
#include "tests/engine/budgeted_steps.h"

namespace reprise::testing::budget_torchscript_test {
namespace {

using ::testing::HasSubstr;

class BudgetTorchScriptTest : public BudgetedSteps {
 protected:
  static at::Tensor run(const Tensors& weights, torch::jit::CompilationUnit& code) {
    const at::Tensor h = at::linspace(0.1, 1, 512 * kWidth).view({512, kWidth});
    return code.run_method("layers", h, weights[0]).toTensor();
  }

  // Runs steps within the budget, whose error has to keep its type. Returns how many do not fit.
  static int failing_steps(std::int64_t room, int steps) {
    const auto code = torch::jit::compile(R"(
      def layers(h, w):
          for i in range(6):
              h = h + torch.tanh(torch.mm(h, w))
          return h.square().mean()
    )");
    const Tensors weights = make_weights(1);
    const std::int64_t peak_bytes = cpu_memory().current_bytes + room;
    MemoryBudget budget({.peak_bytes = peak_bytes});
    int failing = 0;
    for (int i = 0; i < steps; ++i) {
      SCOPED_TRACE(i);
      zero_gradients(weights);
      reset_peak_cpu_memory();
      try {
        within(&budget, [&] { return run(weights, *code); }).backward();
      } catch (const BudgetExceededError& error) {
        ++failing;
        EXPECT_THAT(error.what_without_backtrace(), HasSubstr("a step does not fit"));
        EXPECT_TRUE(FLAGS_torch_jit_enable_rethrow_caught_exception);
        hooks_internal::release_nodes_of_failed_backward();
      } catch (const std::exception& error) {
        ADD_FAILURE() << "another exception: " << error.what();
      }
      EXPECT_LE(cpu_memory().peak_bytes, peak_bytes);
      EXPECT_FALSE(FLAGS_torch_jit_enable_rethrow_caught_exception);
      EXPECT_EQ(live_frames(), 0);
    }
    return failing;
  }

  static constexpr std::int64_t kHiddenBytes = 512 * kWidth * 4;
};

// TorchScript profiles the first two runs, and runs other operators and nodes from then on.
constexpr int kSteps = 4;

TEST_F(BudgetTorchScriptTest, ForwardThrowsTheErrorOfTheBudget) {
  EXPECT_EQ(failing_steps(kHiddenBytes + kHiddenBytes / 2, kSteps), kSteps);
}

TEST_F(BudgetTorchScriptTest, BackwardThrowsTheErrorOfTheBudget) {
  EXPECT_EQ(failing_steps(3 * kHiddenBytes + kHiddenBytes / 2, kSteps), kSteps);
}

TEST_F(BudgetTorchScriptTest, StepsFitThatHaveRoom) {
  EXPECT_EQ(failing_steps(40 * kHiddenBytes, kSteps), 0);
}

// Of the code's own errors.
TEST_F(BudgetTorchScriptTest, OtherErrorsAreAsWithoutABudget) {
  const auto code = torch::jit::compile("def fails(h):\n    return torch.mm(h, h)\n");
  MemoryBudget budget({.peak_bytes = std::int64_t{1} << 40});
  const BudgetScope scope(budget);
  try {
    code->run_method("fails", leaf({2, 3}));
    ADD_FAILURE() << "no error";
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), HasSubstr("TorchScript interpreter"));
  }
}

}  // namespace
}  // namespace reprise::testing::budget_torchscript_test
