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

// Holds weak references only: watching changes no lifetime. The nodes that accumulate a leaf's
// gradient count like any other; a leaf keeps its own only weakly too.
class NodeCounter {
 public:
  NodeCounter();
  ~NodeCounter();
  NodeCounter(const NodeCounter&) = delete;
  NodeCounter& operator=(const NodeCounter&) = delete;

  // Adds each node reachable from the output's, once. A tensor without graph adds none.
  void watch(const at::Tensor& output);

  [[nodiscard]] std::size_t alive() const;
  [[nodiscard]] std::size_t watched() const;

 private:
  struct Node;
  std::vector<Node> nodes_;
};

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_TESTING_NODE_COUNTER_H_
