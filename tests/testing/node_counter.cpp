// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "tests/testing/node_counter.h"

#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/autograd/function.h>
#include <torch/version.h>

#include <type_traits>
#include <unordered_set>
#include <utility>

namespace reprise::testing {
namespace {

using torch::autograd::Edge;
using NodePtr = std::remove_cvref_t<decltype(Edge::function)>;

#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 13
using WeakNode = c10::weak_intrusive_ptr<torch::autograd::Node>;
#else
using WeakNode = std::weak_ptr<torch::autograd::Node>;
#endif

}  // namespace

// A weak reference keeps the address from being used again, so the address tells nodes apart.
struct NodeCounter::Node {
  const torch::autograd::Node* address;
  WeakNode weak;
};

NodeCounter::NodeCounter() = default;

NodeCounter::~NodeCounter() = default;

void NodeCounter::watch(const at::Tensor& output) {
  // What is looked at here must not grow with each graph that has come and gone. But a dead node's
  // tensors may live as long as a weak reference to it (LibTorch 2.13 and later), and tests compare
  // bytes: so not each time.
  if (nodes_.size() >= many_) {
    many_ = 2 * alive() + kMany;
  }
  std::unordered_set<const torch::autograd::Node*> seen;
  for (const Node& node : nodes_) {
    seen.insert(node.address);
  }
  std::vector<NodePtr> pending;
  pending.push_back(output.grad_fn());
  while (!pending.empty()) {
    const NodePtr node = std::move(pending.back());
    pending.pop_back();
    if (node == nullptr || !seen.insert(node.get()).second) {
      continue;
    }
    nodes_.push_back({node.get(), WeakNode(node)});
    ++watched_;
    for (const Edge& edge : node->next_edges()) {
      pending.push_back(edge.function);
    }
  }
}

std::size_t NodeCounter::alive() {
  // Each dead node that goes may have been the last to hold others.
  while (std::erase_if(nodes_, [](const Node& node) { return node.weak.expired(); }) > 0) {
  }
  return nodes_.size();
}

std::size_t NodeCounter::watched() const { return watched_; }

}  // namespace reprise::testing
