// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Thread-local state for the threads of a backward: LibTorch gives them that of the thread that
// calls it.
#ifndef REPRISE_HOOKS_SEAM_BACKWARD_SCOPE_H_
#define REPRISE_HOOKS_SEAM_BACKWARD_SCOPE_H_

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "reprise/base/export.h"

namespace torch::autograd {
struct Edge;
}  // namespace torch::autograd

namespace reprise::hooks_internal {

// A node of a backward, with the gradients that it passes on.
struct BackwardNode {
  struct Gradient {
    std::uint32_t output;  // of this node
    std::size_t node;      // that receives it
    std::uint32_t input;   // of that node
    std::int64_t bytes;    // as its metadata have it; 0 if they do not tell
    std::size_t dims;      // likewise
  };
  std::string name;
  std::uint64_t thread;  // see BackwardGraph
  std::uint64_t sequence;
  std::vector<Gradient> gradients;
  bool keeps_gradient;  // adds to the gradient of a leaf that has none yet
};

// The graph of a backward that is about to begin.
class REPRISE_API BackwardGraph {
 public:
  explicit BackwardGraph(const std::vector<torch::autograd::Edge>& roots) : roots_(roots) {}

  // Visits each node until `visitor` returns true, and returns whether it has. A node is known by
  // the thread that made it, in LibTorch's numbers, and by its sequence number there.
  bool any_of(
      const std::function<bool(std::uint64_t thread, std::uint64_t sequence)>& visitor) const;

  // Returns all nodes in the order in which LibTorch's engine runs them on one thread.
  std::vector<BackwardNode> nodes() const;

 private:
  const std::vector<torch::autograd::Edge>& roots_;
};

// Called when a backward is about to begin, on the thread that calls it. The result, perhaps null,
// is destroyed there when the backward has ended.
using BackwardScopeMaker = std::shared_ptr<void> (*)(const BackwardGraph& graph);

// One per process. Serves backwards once the engine is installed, see forwarding_engine.h.
REPRISE_API void set_backward_scope_maker(BackwardScopeMaker maker);

// A backward from these nodes is about to begin. The result, perhaps null, is to be destroyed on
// this thread when that backward has ended. accumulates: it adds to the gradients of leaves.
[[nodiscard]] std::shared_ptr<void> begin_backward_from(
    const std::vector<torch::autograd::Edge>& roots, bool accumulates);

// For a backward from `roots` that is run past the default engine, as Python's Tensor.backward()
// is: the same.
[[nodiscard]] REPRISE_API std::shared_ptr<void> begin_backward(const std::vector<at::Tensor>& roots,
                                                               bool accumulates);

}  // namespace reprise::hooks_internal

#endif  // REPRISE_HOOKS_SEAM_BACKWARD_SCOPE_H_
