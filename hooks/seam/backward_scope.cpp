// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/hooks/seam/backward_scope.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/variable.h>

#include <atomic>
#include <unordered_set>

#include "reprise/hooks/seam/hook_stack.h"

namespace reprise::hooks_internal {
namespace {

std::atomic<BackwardScopeMaker> g_backward_scope_maker{nullptr};

// Calls `visitor` with each node of the graph until it returns true. Returns whether it has.
bool any_node(const torch::autograd::edge_list& roots, const auto& visitor) {
  std::unordered_set<torch::autograd::Node*> seen;
  std::vector<torch::autograd::Node*> pending;
  const auto visit = [&](const torch::autograd::edge_list& edges) {
    for (const auto& edge : edges) {
      if (edge.is_valid() && seen.insert(edge.function.get()).second) {
        pending.push_back(edge.function.get());
      }
    }
  };
  visit(roots);
  while (!pending.empty()) {
    torch::autograd::Node* node = pending.back();
    pending.pop_back();
    if (visitor(*node)) {
      return true;
    }
    visit(node->next_edges());
  }
  return false;
}

// Returns the leaves whose `.grad` a backward from `roots` can add to.
std::vector<at::Tensor> leaves_of(const torch::autograd::edge_list& roots) {
  std::vector<at::Tensor> leaves;
  any_node(roots, [&](const torch::autograd::Node& node) {
    if (const auto* leaf = dynamic_cast<const torch::autograd::AccumulateGrad*>(&node)) {
      leaves.push_back(leaf->variable);
    }
    return false;
  });
  return leaves;
}

}  // namespace

std::shared_ptr<void> begin_backward_from(const torch::autograd::edge_list& roots,
                                          bool accumulates) {
  if (accumulates && has_open_provider()) {
    offer_accumulation(leaves_of(roots));
  }
  const BackwardScopeMaker maker = g_backward_scope_maker.load(std::memory_order_acquire);
  return maker == nullptr ? nullptr : maker(BackwardGraph(roots));
}

bool BackwardGraph::any_of(
    const std::function<bool(std::uint64_t thread, std::uint64_t sequence)>& visitor) const {
  return any_node(roots_, [&](const torch::autograd::Node& node) {
    return visitor(node.thread_id(), node.sequence_nr());
  });
}

void set_backward_scope_maker(BackwardScopeMaker maker) {
  g_backward_scope_maker.store(maker, std::memory_order_release);
}

std::shared_ptr<void> begin_backward(const std::vector<at::Tensor>& roots, bool accumulates) {
  torch::autograd::edge_list edges;
  for (const at::Tensor& root : roots) {
    if (root.defined() && root.requires_grad()) {
      edges.push_back(torch::autograd::impl::gradient_edge(root));
    }
  }
  return begin_backward_from(edges, accumulates);
}

}  // namespace reprise::hooks_internal
