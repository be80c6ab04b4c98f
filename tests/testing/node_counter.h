// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Counts which autograd nodes of a graph are still alive.
#ifndef REPRISE_TESTS_TESTING_NODE_COUNTER_H_
#define REPRISE_TESTS_TESTING_NODE_COUNTER_H_

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <memory>
#include <vector>

namespace reprise::testing {

// Holds weak references only: watching keeps no node alive. The nodes that accumulate a leaf's
// gradient count like any other; a leaf keeps its own only weakly too.
//
// From LibTorch 2.13 on, a node that is weakly referenced is destroyed with the last weak
// reference. What it keeps beyond its last strong one (the gradient accumulator of a leaf that it
// saved) goes when alive() has seen it dead.
class NodeCounter {
 public:
  NodeCounter();
  ~NodeCounter();
  NodeCounter(const NodeCounter&) = delete;
  NodeCounter& operator=(const NodeCounter&) = delete;

  // Adds each node reachable from the output's, once. A tensor without graph adds none.
  void watch(const at::Tensor& output);

  // Lets go of the nodes that are dead.
  [[nodiscard]] std::size_t alive();
  [[nodiscard]] std::size_t watched() const;

 private:
  struct Node;
  std::vector<Node> nodes_;  // not yet seen dead
  std::size_t watched_ = 0;
  static constexpr std::size_t kMany = 1000;
  std::size_t many_ = kMany;
};

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_TESTING_NODE_COUNTER_H_
