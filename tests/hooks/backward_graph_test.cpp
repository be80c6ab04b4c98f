// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// A backward's nodes as they are known before it begins: those that LibTorch's engine then runs.
#include "reprise/hooks/seam/backward_scope.h"

#include <ATen/record_function.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

namespace reprise::testing::backward_graph_test {
namespace {

using hooks_internal::BackwardGraph;
using hooks_internal::BackwardNode;

std::vector<std::string> g_run;

std::unique_ptr<at::ObserverContext> on_node(const at::RecordFunction& node) {
  g_run.emplace_back(node.name());
  return nullptr;
}

std::vector<std::string> names_as_run(const at::Tensor& root) {
  g_run.clear();
  const at::CallbackHandle nodes = at::addThreadLocalCallback(
      at::RecordFunctionCallback(&on_node).scopes({at::RecordScope::BACKWARD_FUNCTION}));
  root.backward();
  at::removeCallback(nodes);
  return g_run;
}

std::vector<BackwardNode> nodes_of(const at::Tensor& root) {
  return BackwardGraph({torch::autograd::impl::gradient_edge(root)}).nodes();
}

std::vector<std::string> names(const std::vector<BackwardNode>& nodes) {
  std::vector<std::string> all;
  for (const BackwardNode& node : nodes) {
    all.push_back(node.name);
  }
  return all;
}

const BackwardNode& node_of(const std::vector<BackwardNode>& nodes, const std::string& name) {
  return *std::find_if(nodes.begin(), nodes.end(),
                       [&](const BackwardNode& node) { return node.name == name; });
}

// A diamond whose branches join late, several results of one node, and a leaf that is used twice.
TEST(BackwardGraphTest, NodesAreInTheOrderInWhichTheEngineRunsThem) {
  const at::Tensor x = at::randn({4, 6}).requires_grad_(), w = at::randn({6, 6}).requires_grad_();
  const at::Tensor h = x.mm(w).sin();
  const std::vector<at::Tensor> parts = h.exp().chunk(2, 1);
  const at::Tensor other = h.tanh().mm(w);
  const at::Tensor loss = (parts[0] * parts[1]).sum() + other.cos().sum();
  const std::vector<std::string> expected = names(nodes_of(loss));
  EXPECT_GT(expected.size(), 12U);
  EXPECT_EQ(expected, names_as_run(loss));
}

TEST(BackwardGraphTest, GradientsHaveTheBytesOfWhatTheyAreGradientsOf) {
  const at::Tensor x = at::randn({4, 6}).requires_grad_(), w = at::randn({6, 8}).requires_grad_();
  const std::vector<BackwardNode> nodes = nodes_of(x.mm(w).sum());
  const BackwardNode& product = node_of(nodes, "MmBackward0");
  ASSERT_EQ(product.gradients.size(), 2U);
  EXPECT_EQ(product.gradients[0].bytes, 4 * 6 * 4);
  EXPECT_EQ(product.gradients[1].bytes, 6 * 8 * 4);
  const BackwardNode& sum = node_of(nodes, "SumBackward0");
  ASSERT_EQ(sum.gradients.size(), 1U);
  EXPECT_EQ(sum.gradients[0].bytes, 4 * 8 * 4);
  EXPECT_EQ(nodes[sum.gradients[0].node].name, "MmBackward0");
  EXPECT_TRUE(node_of(nodes, "torch::autograd::AccumulateGrad").keeps_gradient);
}

TEST(BackwardGraphTest, ALeafThatHasAGradientKeepsNoOther) {
  const at::Tensor x = at::randn({4}).requires_grad_();
  x.sin().sum().backward();
  const std::vector<BackwardNode> nodes = nodes_of(x.sin().sum());
  EXPECT_FALSE(node_of(nodes, "torch::autograd::AccumulateGrad").keeps_gradient);
}

}  // namespace
}  // namespace reprise::testing::backward_graph_test
