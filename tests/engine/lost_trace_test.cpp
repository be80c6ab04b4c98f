// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Code that runs other operators in a replay than in forward, under a policy.
#include "reprise/engine/errors.h"
#include "reprise/engine/recomputing.h"
#include "reprise/policies/policies.h"
#include "tests/conformance/conformance_fixture.h"

namespace reprise::testing::lost_trace_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

struct LostTraceTest : ConformanceTest {};

at::Tensor body(const at::Tensor& x) { return x.mm(x).tanh(); }

// Under a policy, code that runs other operators on memory from outside runs once more, without the
// tape; code that computes saved tensors otherwise is an error, which names the place.
TEST_F(LostTraceTest, OtherOperatorsThatNoSavedTensorDependsOn) {
  const at::Tensor x = leaf({4, 4});
  at::Tensor cache;
  const auto code = [&](const at::Tensor& t) {
    if (!cache.defined()) {
      cache = at::eye(4) * 2;
    }
    return body(t).mm(cache).exp();
  };
  const at::Tensor y = checkpoint({.policy = policies::save_matmuls()}, code, x);
  const Tensors got = torch::autograd::grad({y.sum()}, {x});
  expect_same_bits(got, torch::autograd::grad({code(x).sum()}, {x}));
}

// The place where the code has left the tape explains no other error than one of the checks.
TEST_F(LostTraceTest, MemoryThatTheRunWithoutTheTraceLacksIsTheError) {
  const at::Tensor x = leaf({4, 4});
  at::Tensor cache;
  int runs = 0;
  const auto code = [&](const at::Tensor& t) {
    if (!cache.defined()) {
      cache = at::eye(4) * 2;
    }
    TORCH_CHECK_WITH(OutOfMemoryError, ++runs < 3, "no room for run ", runs);
    return body(t).mm(cache).exp();
  };
  const at::Tensor y = checkpoint({.policy = policies::save_matmuls()}, code, x);
  EXPECT_THAT([&] { torch::autograd::grad({y.sum()}, {x}); },
              ThrowsMessage<c10::OutOfMemoryError>(HasSubstr("no room for run 3")));
}

TEST_F(LostTraceTest, OtherOperatorsThatASavedTensorDependsOnAreAnError) {
  const at::Tensor x = leaf({4, 4});
  const at::Tensor y = checkpoint(
      {.policy = policies::save_matmuls()},
      [](const at::Tensor& t) {
        return is_recomputing() ? t.sin().cos().exp() : t.cos().exp().sin();
      },
      x);
  EXPECT_THAT([&] { torch::autograd::grad({y.sum()}, {x}); },
              ThrowsMessage<DeterminismError>(
                  AllOf(HasSubstr("operator 0 of the recomputation is aten::sin"),
                        HasSubstr("forward ran aten::cos"))));
}

}  // namespace
}  // namespace reprise::testing::lost_trace_test
