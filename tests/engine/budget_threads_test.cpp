// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Memory that other threads than the step's allocate while the step is observed.
#include <ATen/EmptyTensor.h>
#include <ATen/Parallel.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <torch/library.h>

#include <thread>

#include "reprise/engine/memory_budget.h"
#include "tests/engine/budgeted_steps.h"

namespace reprise::testing::budget_threads_test {
namespace {

at::Tensor busy_kernel(const at::Tensor& x) {
  std::thread([] {
    static_cast<void>(at::detail::empty_cpu({1 << 10}, at::TensorOptions().dtype(at::kByte)));
  }).join();
  return x.clone();
}

TORCH_LIBRARY(reprise_budget_threads, library) { library.def("busy(Tensor x) -> Tensor"); }
TORCH_LIBRARY_IMPL(reprise_budget_threads, CompositeImplicitAutograd, library) {
  library.impl("busy", busy_kernel);
}

at::Tensor busy(const at::Tensor& x) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("reprise_budget_threads::busy", "")
                             .typed<at::Tensor(const at::Tensor&)>();
  return op.call(x);
}

class BudgetThreadsTest : public BudgetedSteps {
 protected:
  BudgetThreadsTest() : threads_(at::get_num_threads()) { at::set_num_threads(2); }
  ~BudgetThreadsTest() override { at::set_num_threads(threads_); }

  static void expect_bytes_before_step(const Forward& forward) {
    const Tensors weights = make_weights(3);
    zero_gradients(weights);
    const std::int64_t before = cpu_memory().current_bytes;
    MemoryBudget budget({.max_overhead = 0.0});
    for (int i = 0; i < 3; ++i) {
      step(weights, &budget, forward);
      EXPECT_EQ(budget.trace().value().bytes_before_step(), before);
    }
  }

 private:
  const int threads_;
};

TEST_F(BudgetThreadsTest, WhatOtherThreadsFreeIsNotFromBeforeTheStep) {
  expect_bytes_before_step([](const Tensors& weights) {
    at::Tensor h = weights[0];
    for (const at::Tensor& weight : weights) {
      h = busy(at::gelu(h.matmul(weight)));
    }
    return h.square().mean();
  });
}

// The kernel's workers allocate their own buffers, and free them.
TEST_F(BudgetThreadsTest, WhatWorkersFreeIsNotFromBeforeTheStep) {
  expect_bytes_before_step([](const Tensors& weights) {
    at::Tensor h = weights[0].view({4, 4, 16, 16});
    for (const at::Tensor& weight : weights) {
      const at::Tensor key = weight.view({4, 4, 16, 16});
      h = at::scaled_dot_product_attention(h, key, at::gelu(key));
    }
    return h.square().mean();
  });
}

}  // namespace
}  // namespace reprise::testing::budget_threads_test
