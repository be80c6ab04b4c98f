// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// saved_tensors(): the bytes that a graph holds are those that are freed with it.
#include "reprise/engine/saved_tensors.h"

#include <torch/csrc/autograd/custom_function.h>

#include <cstdint>
#include <string>
#include <vector>

#include "reprise/engine/checkpoint_scope.h"
#include "reprise/engine/cpu_memory.h"
#include "reprise/hooks/save_on_cpu.h"
#include "reprise/hooks/saved_tensor_hooks.h"
#include "reprise/policies/policies.h"
#include "tests/conformance/conformance_fixture.h"

namespace reprise::testing::saved_tensors_test {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::int64_t kOne = 128 * 64 * 4;  // bytes of an activation

struct Doubled : torch::autograd::Function<Doubled> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x) {
    context->save_for_backward({x});
    return 2 * x;
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               const torch::autograd::tensor_list& gradients) {
    return {2 * gradients[0] + 0 * context->get_saved_variables()[0]};
  }
};

class SavedTensorsTest : public ::testing::Test {
 protected:
  at::Tensor model(const at::Tensor& x) { return at::gelu(linear_->forward(x)).sin(); }

  // Compares the bill of the graph that `make` returns with the bytes that are freed with it.
  template <class Make>
  void expect_bytes_of(const Make& make) {
    at::Tensor loss = make(torch::randn({128, 64}));
    const SavedTensors bill = saved_tensors(loss);
    EXPECT_THAT(bill.unread, ElementsAre());
    const auto own = static_cast<std::int64_t>(loss.storage().nbytes());
    const std::int64_t before = cpu_memory().current_bytes;
    loss.reset();
    EXPECT_EQ(bill.total_bytes(), before - cpu_memory().current_bytes - own);
    EXPECT_GT(bill.total_bytes(), 0);
  }

  torch::nn::Linear linear_{64, 64};
};

TEST_F(SavedTensorsTest, HasTheBytesThatAreFreedWithTheGraph) {
  const auto run = [this](const at::Tensor& t) { return model(t); };
  expect_bytes_of(run);
  expect_bytes_of([&](const at::Tensor& x) { return Doubled::apply(run(x)); });
  expect_bytes_of([&](const at::Tensor& x) { return checkpoint(run, x).sin(); });
  expect_bytes_of([&](const at::Tensor& x) {
    return checkpoint({.name = "mine", .policy = policies::save_matmuls()}, run, x.sin());
  });
  expect_bytes_of([&](const at::Tensor& x) {
    const SaveOnCpuGuard offload;
    return run(x);
  });
  expect_bytes_of([&](const at::Tensor& x) {
    const CheckpointScope scope({.name = "mine"});
    return run(x.sin());
  });
}

TEST_F(SavedTensorsTest, NamesRegionsNodesAndOperators) {
  const at::Tensor x = torch::randn({128, 64});
  const at::Tensor h = checkpoint(
      {.name = "mine"}, [](const at::Tensor& t) { return t.exp(); }, linear_->forward(x));
  const SavedTensors bill = saved_tensors(at::gelu(h).sum());
  std::vector<std::string> rows;
  for (const SavedTensorRow& row : bill.rows) {
    EXPECT_EQ(row.bytes, kOne);
    rows.push_back(row.region + "|" + row.node + "|" + row.op + "|" + row.kind + "|" + row.shape +
                   "|" + row.dtype + "|" + row.device);
  }
  EXPECT_THAT(rows, ElementsAre("|AddmmBackward0|aten::addmm|saved|128x64|float32|cpu",
                                "mine|ExpBackward0||input of a region|128x64|float32|cpu",
                                "|GeluBackward0|aten::gelu|saved|128x64|float32|cpu"));
  ASSERT_EQ(bill.leaves.size(), 2U);
  EXPECT_EQ(bill.leaves[0].bytes + bill.leaves[1].bytes, 64 * 64 * 4 + 64 * 4);
  EXPECT_THAT(bill.to_string(), HasSubstr("saved for backward: 0.09 MiB in 3 storages, and"));
  EXPECT_THAT(bill.to_string(), HasSubstr("input of a region"));
}

TEST_F(SavedTensorsTest, CallsNoHookAndChangesNothing) {
  int unpacked = 0;
  const at::Tensor x = torch::randn({4, 64});
  at::Tensor loss;
  {
    const SavedTensorHooksGuard hooks([](const at::Tensor& t) { return t; },
                                      [&](const at::Tensor& t) {
                                        ++unpacked;
                                        return t;
                                      });
    loss = checkpoint([this](const at::Tensor& t) { return model(t); }, model(x)).sum();
  }
  const SavedTensors bill = saved_tensors(loss);
  EXPECT_EQ(unpacked, 0);
  EXPECT_THAT(bill.unread, Contains("AddmmBackward0"));  // what these hooks hold is unknown
  loss.backward();
  EXPECT_GT(unpacked, 0);
  EXPECT_EQ(saved_tensors(loss).rows.size(), 0U);
  EXPECT_THAT(saved_tensors(loss).unread, ElementsAre());
}

TEST_F(SavedTensorsTest, SaysWhichNodesAreUnknown) {
  const at::Tensor x = torch::randn({4, 64}, at::requires_grad());
  at::Tensor h = x * 2;
  const at::Tensor y = h.exp();
  const at::Tensor z = y.sin();
  y.detach().add_(1);
  EXPECT_THAT(saved_tensors(z).unread, ElementsAre("ExpBackward0", "SinBackward0"));
  EXPECT_THAT(saved_tensors(z).to_string(),
              HasSubstr("unknown tensors of 2 nodes, the first of them ExpBackward0"));
}

}  // namespace
}  // namespace reprise::testing::saved_tensors_test
