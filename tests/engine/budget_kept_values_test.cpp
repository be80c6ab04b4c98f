// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The values that no plan of a memory budget drops, and why, in its report.
#include <ATen/EmptyTensor.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include <algorithm>
#include <string>

#include "reprise/engine/memory_budget.h"
#include "reprise/engine/region/framework_code.h"
#include "tests/engine/budgeted_steps.h"

namespace reprise::testing::budget_kept_values_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

using Context = torch::autograd::AutogradContext;

at::Tensor exchange_kernel(const at::Tensor& x) { return x.clone(); }

at::Tensor exchange(const at::Tensor& x) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("c10d::reprise_exchange", "")
                             .typed<at::Tensor(const at::Tensor&)>();
  return op.call(x);
}

// Without an operator that makes the result, or one that fills it.
at::Tensor filled_by_pointer(const at::Tensor& x, at::Tensor result) {
  std::copy_n(x.data_ptr<float>(), x.numel(), result.data_ptr<float>());
  return result;
}

at::Tensor compiled(const at::Tensor& x) {
  return filled_by_pointer(x, at::detail::empty_cpu(x.sizes(), x.options()));
}

at::Tensor filled(const at::Tensor& x) { return filled_by_pointer(x, at::empty_like(x)); }

at::Tensor of_framework(const at::Tensor& x) {
  const engine_internal::FrameworkCodeGuard code;
  return x.exp();
}

using Copy = at::Tensor (*)(const at::Tensor&);

// Its gradient is the result's.
template <Copy copy>
class Copied : public torch::autograd::Function<Copied<copy>> {
 public:
  static at::Tensor forward(Context*, const at::Tensor& x) {
    const at::AutoDispatchBelowADInplaceOrView below;
    return copy(x);
  }
  static Tensors backward(Context*, Tensors gradients) { return gradients; }
};

template <Copy copy>
at::Tensor copied(const at::Tensor& x) {
  return Copied<copy>::apply(x);
}

// Keeps what it computes beside its saved tensors, where nothing but itself reads it.
class Keeper : public torch::autograd::Function<Keeper> {
 public:
  static at::Tensor forward(Context* context, const at::Tensor& x) {
    context->saved_data["sigmoid"] = x.sigmoid();
    return x * 2;
  }
  static Tensors backward(Context* context, const Tensors& gradients) {
    return {gradients[0] * context->saved_data["sigmoid"].toTensor()};
  }
};

class BudgetKeptValuesTest : public BudgetedSteps {
 protected:
  // Returns the report on a step whose layers have `function` in them, after comparing gradients.
  static std::string report_of(at::Tensor (*function)(const at::Tensor&)) {
    const Tensors weights = make_weights(4);
    const at::Tensor x = at::randn({2048, kWidth});  // half a MiB
    const auto forward = [&](const Tensors& w) {
      at::Tensor h = x;
      for (const at::Tensor& weight : w) {
        h = at::gelu(function(h.matmul(weight)));
      }
      return h.square().mean();
    };
    const Outcome plain = step(weights, nullptr, forward);
    MemoryBudget budget({.max_overhead = 1});
    for (int i = 0; i < 4; ++i) {
      expect_same_bits(step(weights, &budget, forward).gradients, plain.gradients);
    }
    return budget.report();
  }
};

TEST_F(BudgetKeptValuesTest, NoneOfOperatorsThatCanRunAgain) {
  EXPECT_THAT(report_of([](const at::Tensor& x) { return x + 1; }),
              AllOf(Not(HasSubstr("cannot be computed again")), Not(HasSubstr("held by"))));
}

TEST_F(BudgetKeptValuesTest, Collectives) {
  EXPECT_THAT(report_of(copied<exchange>),
              HasSubstr("cannot be computed again: 2.00 MiB, of which 2.00 MiB of "
                        "c10d::reprise_exchange (a collective or another transfer between ranks)"));
}

TEST_F(BudgetKeptValuesTest, MemoryThatNoOperatorMakes) {
  EXPECT_THAT(report_of(copied<compiled>),
              HasSubstr("cannot be computed again: 2.00 MiB, of which 2.00 MiB of memory allocated "
                        "outside of operators (no operator is seen to make it)"));
}

TEST_F(BudgetKeptValuesTest, MemoryThatNoOperatorFills) {
  EXPECT_THAT(report_of(copied<filled>),
              HasSubstr("cannot be computed again: 2.00 MiB, of which 2.00 MiB of aten::empty_like "
                        "(its result is written through a pointer or on another thread)"));
}

TEST_F(BudgetKeptValuesTest, OperatorsThatAreNotRecorded) {
  EXPECT_THAT(report_of(copied<of_framework>),
              HasSubstr("cannot be computed again: 2.00 MiB, of which 2.00 MiB of aten::exp (left "
                        "out of the tape)"));
}

TEST_F(BudgetKeptValuesTest, TensorsThatACustomFunctionKeeps) {
  EXPECT_THAT(report_of([](const at::Tensor& x) { return Keeper::apply(x); }),
              HasSubstr("held by the program until backward: 2.00 MiB, of which 2.00 MiB of "
                        "aten::sigmoid\n"));
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(c10d, library) { library.def("reprise_exchange(Tensor x) -> Tensor"); }
TORCH_LIBRARY_IMPL(c10d, CPU, library) { library.impl("reprise_exchange", exchange_kernel); }

}  // namespace reprise::testing::budget_kept_values_test
