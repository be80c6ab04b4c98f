// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/hooks/seam/backward_scope.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/variable.h>

#include <atomic>
#include <queue>
#include <unordered_map>
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

using NodeNumbers = std::unordered_map<const torch::autograd::Node*, std::size_t>;

// Returns the nodes as the engine runs them: of those that have all their gradients, the one that
// was made last.
std::vector<torch::autograd::Node*> in_order(const torch::autograd::edge_list& roots) {
  std::unordered_map<const torch::autograd::Node*, std::size_t> awaited;  // gradients
  std::vector<torch::autograd::Node*> all;
  any_node(roots, [&](torch::autograd::Node& node) {
    all.push_back(&node);
    for (const auto& edge : node.next_edges()) {
      awaited[edge.function.get()] += edge.is_valid() ? 1 : 0;
    }
    return false;
  });
  const auto runs_later = [](const torch::autograd::Node* one, const torch::autograd::Node* other) {
    return one->sequence_nr() < other->sequence_nr();
  };
  std::priority_queue<torch::autograd::Node*, std::vector<torch::autograd::Node*>,
                      decltype(runs_later)>
      ready(runs_later);
  for (torch::autograd::Node* const node : all) {
    if (awaited[node] == 0) {
      ready.push(node);
    }
  }
  std::vector<torch::autograd::Node*> order;
  while (!ready.empty()) {
    torch::autograd::Node* const node = ready.top();
    ready.pop();
    order.push_back(node);
    for (const auto& edge : node->next_edges()) {
      if (edge.is_valid() && --awaited[edge.function.get()] == 0) {
        ready.push(edge.function.get());
      }
    }
  }
  return order;
}

// Sets nothing if it is not known: of nested tensors, and of sizes that a compiler has not fixed.
void describe_size(BackwardNode::Gradient& gradient, const torch::autograd::Edge& edge) {
  if (edge.input_nr >= edge.function->num_inputs()) {
    return;
  }
  const torch::autograd::InputMetadata& input = edge.function->input_metadata(edge.input_nr);
  if (input.was_default_constructed() || input.is_nested_tensor() || input.is_cpp_nested_tensor()) {
    return;
  }
  const auto sizes = input.shape_as_dim_vector();
  gradient.dims = sizes.size();
  gradient.bytes = static_cast<std::int64_t>(input.dtype().itemsize());
  for (const c10::SymInt& size : sizes) {
    gradient.bytes *= size.maybe_as_int().value_or(0);
  }
}

BackwardNode describe(const torch::autograd::Node& node, const NodeNumbers& numbers) {
  BackwardNode described{node.name(), node.thread_id(), node.sequence_nr(), {}, false};
  const torch::autograd::edge_list& edges = node.next_edges();
  for (std::uint32_t output = 0; output < edges.size(); ++output) {
    const torch::autograd::Edge& edge = edges[output];
    if (edge.is_valid()) {
      described.gradients.push_back(
          {output, numbers.at(edge.function.get()), edge.input_nr, /*bytes=*/0, /*dims=*/0});
      describe_size(described.gradients.back(), edge);
    }
  }
  const auto* const leaf = dynamic_cast<const torch::autograd::AccumulateGrad*>(&node);
  described.keeps_gradient = leaf != nullptr && !leaf->variable.grad().defined();
  return described;
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

std::vector<BackwardNode> BackwardGraph::nodes() const {
  const std::vector<torch::autograd::Node*> order = in_order(roots_);
  NodeNumbers numbers;
  for (std::size_t i = 0; i < order.size(); ++i) {
    numbers.emplace(order[i], i);
  }
  std::vector<BackwardNode> nodes;
  nodes.reserve(order.size());
  for (const torch::autograd::Node* const node : order) {
    nodes.push_back(describe(*node, numbers));
  }
  return nodes;
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
