// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Custom autograd Functions and hand-written nodes in regions.
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <exception>
#include <memory>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "reprise/hooks/seam/torch_version.h"
#include "reprise/policies/policies.h"
#include "tests/conformance/conformance_fixture.h"

namespace reprise::handwritten_nodes_test {
namespace {

using hooks_internal::NodePtr;
using testing::expect_as_plain;
using testing::leaf;
using testing::Tensors;
using torch::autograd::AutogradContext;
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

  void save(const at::Tensor& x) {
    saved_ = torch::autograd::SavedVariable(x, /*is_output=*/false);
  }

  static at::Tensor square(const at::Tensor& x) {
    auto node = make();
    node->set_next_edges(torch::autograd::collect_next_edges(x));
    node->save(x);
    at::Tensor result = x.detach() * x.detach();
    torch::autograd::set_history(result, node);
    return result;
  }

 private:
  torch::autograd::SavedVariable saved_;
};

// The same as compiled kernels are called: no operator makes the result.
at::Tensor square_past_dispatcher(const at::Tensor& x) {
  at::Tensor result = at::detail::empty_cpu(x.sizes(), x.scalar_type());
  const auto* const from = static_cast<const float*>(x.const_data_ptr());
  std::transform(from, from + x.numel(), static_cast<float*>(result.mutable_data_ptr()),
                 [](float value) { return value * value; });
  auto node = Untraceable::make();
  node->set_next_edges(torch::autograd::collect_next_edges(x));
  node->save(x);
  torch::autograd::set_history(result, node);
  return result;
}

using HandwrittenNodesTest = testing::ConformanceTest;

TEST_F(HandwrittenNodesTest, AreNotAskedWhetherTheyAreTraceable) {
  expect_as_plain([&](auto run) -> Tensors {
    const at::Tensor x = leaf({3, 4});
    const at::Tensor y =
        run([](const at::Tensor& t) { return Untraceable::square(t.cos()).sin().exp(); }, x);
    return gradients(y, {x});
  });
}

TEST_F(HandwrittenNodesTest, MayReturnTensorsThatNoOperatorHasMade) {
  expect_as_plain([&](auto run) -> Tensors {
    const at::Tensor x = leaf({3, 4});
    const at::Tensor y = run(
        [](const at::Tensor& t) {
          const at::Tensor square = square_past_dispatcher(t.cos());
          return (square * square).exp();
        },
        x);
    return gradients(y, {x});
  });
}

// Twice its argument.
struct Twice : torch::autograd::Function<Twice> {
  static at::Tensor forward(AutogradContext* /*context*/, const at::Tensor& x) { return x * 2; }
  static variable_list backward(AutogradContext* /*context*/, const variable_list& gradients) {
    return {gradients[0] * 2};
  }
};

// Saves its argument, the result of another Function mostly.
struct SavesArgument : torch::autograd::Function<SavesArgument> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x) {
    context->save_for_backward({x});
    return x * x;
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    return {gradients[0] * 2 * context->get_saved_variables()[0]};
  }
};

struct SavesResult : torch::autograd::Function<SavesResult> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x) {
    const at::Tensor result = x.exp();
    context->save_for_backward({result});
    return result;
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    return {gradients[0] * context->get_saved_variables()[0]};
  }
};

class EndOfReplayTest : public testing::ConformanceTest {
 protected:
  // How often the code behind `code`, and one operator more, runs in forward and backward.
  template <class Code>
  int runs_of_the_end(Code code, const CheckpointOptions& options = {}) {
    int runs = 0;
    const at::Tensor x = leaf({3, 4});
    const auto with_end = [&](const at::Tensor& t) {
      const at::Tensor y = code(t).clone();
      ++runs;
      return y;
    };
    const at::Tensor gradient = gradients(checkpoint(options, with_end, x), {x})[0];
    const int found = runs;
    EXPECT_TRUE(testing::bitwise_equal(gradient, gradients(with_end(x), {x})[0]));
    return found;
  }
};

at::Tensor argument_of_another(const at::Tensor& t) {
  return SavesArgument::apply(Twice::apply(t));
}

TEST_F(EndOfReplayTest, IsTheOperatorAfterAFunctionThatSavesAnothersResult) {
  EXPECT_EQ(runs_of_the_end(argument_of_another), 1);
  EXPECT_EQ(runs_of_the_end(argument_of_another, {.policy = policies::save_nothing()}), 1);
  EXPECT_EQ(runs_of_the_end(argument_of_another, {.early_stop = false}), 2);
}

TEST_F(EndOfReplayTest, IsTheOperatorAfterAFunctionThatSavesItsResult) {
  const auto code = [](const at::Tensor& t) { return SavesResult::apply(t.sin()); };
  EXPECT_EQ(runs_of_the_end(code), 1);
  EXPECT_EQ(runs_of_the_end(code, {.policy = policies::save_nothing()}), 1);
}

TEST_F(EndOfReplayTest, IsInsideTheNextFunction) {
  EXPECT_EQ(
      runs_of_the_end([](const at::Tensor& t) { return Twice::apply(SavesResult::apply(t)); }), 1);
}

TEST_F(EndOfReplayTest, LetsADestructorRunItsOperators) {
  struct CountsAtItsEnd {
    at::Tensor count;
    ~CountsAtItsEnd() {
      const torch::NoGradGuard no_grad;
      count = at::ones({1}).exp();
    }
  };
  const auto code = [](const at::Tensor& t) {
    const CountsAtItsEnd counts;
    return argument_of_another(t);
  };
  EXPECT_EQ(runs_of_the_end(code), 1);
}

TEST_F(EndOfReplayTest, ComesAgainIfCodeSwallowsIt) {
  int swallowed = 0;
  const auto code = [&swallowed](const at::Tensor& t) {
    at::Tensor y = argument_of_another(t);
    try {
      y = y.clone();
    } catch (const std::exception&) {
      ++swallowed;
    }
    return y;
  };
  EXPECT_EQ(runs_of_the_end(code), 1);
  EXPECT_EQ(swallowed, 1);
}

// An exception that left it would leave its nodes in LibTorch's queue.
TEST_F(EndOfReplayTest, IsNotInABackwardInsideTheRegion) {
  const at::Tensor inner = leaf({3, 4});
  const at::Tensor cubes = (inner * inner * inner).sum();
  const auto code = [&](const at::Tensor& t) {
    const at::Tensor squared = argument_of_another(t);
    const at::Tensor slope = torch::autograd::grad({cubes}, {inner}, {}, /*retain_graph=*/true,
                                                   /*create_graph=*/true)[0];
    return squared + slope.detach();
  };
  EXPECT_EQ(runs_of_the_end(code), 1);
}

}  // namespace
}  // namespace reprise::handwritten_nodes_test
