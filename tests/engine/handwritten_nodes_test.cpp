// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Custom autograd Functions and hand-written nodes in regions.
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <memory>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "reprise/hooks/seam/torch_version.h"
#include "tests/conformance/conformance_fixture.h"

namespace reprise::handwritten_nodes_test {
namespace {

using hooks_internal::NodePtr;
using testing::expect_as_plain;
using testing::leaf;
using testing::Tensors;
using torch::autograd::Node;
using torch::autograd::variable_list;

// The square. Asking it whether it is traceable throws, as for the nodes of Python's functions.
class Untraceable final : public Node {
 public:
  bool is_traceable() override { throw std::runtime_error("is not to be asked"); }

  variable_list apply(variable_list&& gradients) override {
    return {gradients[0] * 2 * saved_.unpack()};
  }
  void release_variables() override { saved_.reset_data(); }

  static auto make() {
    if constexpr (std::is_same_v<NodePtr, std::shared_ptr<Node>>) {
      return std::make_shared<Untraceable>();
    } else {
      return c10::make_intrusive<Untraceable>();
    }
  }

  static at::Tensor square(const at::Tensor& x) {
    auto node = make();
    node->set_next_edges(torch::autograd::collect_next_edges(x));
    node->saved_ = torch::autograd::SavedVariable(x, /*is_output=*/false);
    at::Tensor result = x.detach() * x.detach();
    torch::autograd::set_history(result, node);
    return result;
  }

 private:
  torch::autograd::SavedVariable saved_;
};

using HandwrittenNodesTest = testing::ConformanceTest;

TEST_F(HandwrittenNodesTest, AreNotAskedWhetherTheyAreTraceable) {
  expect_as_plain([&](auto run) -> Tensors {
    const at::Tensor x = leaf({3, 4});
    const at::Tensor y =
        run([](const at::Tensor& t) { return Untraceable::square(t.cos()).sin().exp(); }, x);
    return gradients(y, {x});
  });
}

}  // namespace
}  // namespace reprise::handwritten_nodes_test
