// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Backward of inputs and backward of weights apart, as in zero-bubble schedules: both halves read
// the same tensors.
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/variable.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "reprise/engine/graph_exec_group.h"
#include "tests/engine/budgeted_steps.h"
#include "tests/testing/kernel_counter.h"

namespace reprise::testing::zero_bubble_test {
namespace {

using torch::autograd::Edge;
using torch::autograd::Engine;
using torch::autograd::impl::gradient_edge;

constexpr int kLayers = 6;
constexpr std::int64_t kRows = 256;

enum class Halves : std::uint8_t {
  kFromLoss,     // both begin at the loss
  kFromProducts  // that of weights begins where the other one has left the layers' gradients
};

struct Graph {
  at::Tensor input;
  at::Tensor loss;
  std::vector<Edge> products;  // of the layers' weights
};

class ZeroBubbleTest : public BudgetedSteps {
 protected:
  using Layer = std::function<at::Tensor(const at::Tensor& h, const at::Tensor& weight)>;

  static at::Tensor make_input(int number) {
    at::Tensor input = at::linspace(0.1 * (number + 1), 1, kRows * kWidth).view({kRows, kWidth});
    return input.requires_grad_();
  }

  // Notes where the product's gradient arrives, in the first run of each layer alone.
  static at::Tensor run_layer(const at::Tensor& h, const at::Tensor& weight,
                              std::vector<Edge>* products) {
    const at::Tensor product = h.matmul(weight);
    if (products != nullptr && products->size() < kLayers) {
      products->push_back(gradient_edge(product));
    }
    return h + at::dropout(at::gelu(product), 0.2, /*train=*/true);
  }

  static Tensors input_half(const Graph& graph, Halves halves) {
    if (halves == Halves::kFromLoss) {
      return torch::autograd::grad({graph.loss}, {graph.input}, {}, /*retain_graph=*/true);
    }
    std::vector<Edge> outputs = graph.products;
    outputs.push_back(gradient_edge(graph.input));
    return Engine::get_default_engine().execute(
        {gradient_edge(graph.loss)}, {at::ones_like(graph.loss)}, /*keep_graph=*/true,
        /*create_graph=*/false, /*accumulate_grad=*/false, outputs);
  }

  // gradients: those of the other half.
  static Tensors weight_half(const Graph& graph, const Tensors& weights, Halves halves,
                             const Tensors& gradients) {
    if (halves == Halves::kFromLoss) {
      return torch::autograd::grad({graph.loss}, weights);
    }
    std::vector<Edge> outputs;
    for (const at::Tensor& weight : weights) {
      outputs.push_back(gradient_edge(weight));
    }
    return Engine::get_default_engine().execute(
        graph.products, {gradients.begin(), gradients.end() - 1}, /*keep_graph=*/false,
        /*create_graph=*/false, /*accumulate_grad=*/false, outputs);
  }

  // Returns the gradients of the input and of the weights.
  static Tensors both_halves(Graph graph, const Tensors& weights, Halves halves) {
    Tensors of_inputs = input_half(graph, halves);
    Tensors all = weight_half(graph, weights, halves, of_inputs);
    all.push_back(of_inputs.back());
    return all;
  }

  EqualTimes equal_times;
};

class ZeroBubbleRegionsTest : public ZeroBubbleTest,
                              public ::testing::WithParamInterface<std::tuple<ReplayMode, Halves>> {
 protected:
  struct Run {
    Tensors gradients;
    std::int64_t peak_bytes = 0;
    std::size_t gelus = 0;
  };

  // options: of a region per layer; none for plain layers.
  static Run run(const Tensors& weights, const std::optional<CheckpointOptions>& options,
                 Halves halves) {
    torch::manual_seed(5);
    reset_peak_cpu_memory();
    Run found;
    GraphExecGroup group;
    const KernelCounter kernels;
    {
      const GraphExecGroupGuard entered(group);
      Graph graph{.input = make_input(0), .loss = {}, .products = {}};
      at::Tensor h = graph.input;
      for (const at::Tensor& weight : weights) {
        const auto layer = [&products = graph.products](const at::Tensor& in, const at::Tensor& w) {
          return run_layer(in, w, &products);
        };
        h = options ? checkpoint(*options, layer, h, weight) : layer(h, weight);
      }
      graph.loss = h.square().mean();
      h.reset();
      found.gradients = both_halves(std::move(graph), weights, halves);
    }
    found.peak_bytes = cpu_memory().peak_bytes;
    found.gelus = kernels.count("aten::gelu");
    return found;
  }
};

TEST_P(ZeroBubbleRegionsTest, ReplaysEachRegionOnceForBothHalves) {
  const auto [replay, halves] = GetParam();
  const Tensors weights = make_weights(kLayers);
  run(weights, std::nullopt, halves);
  const std::int64_t before = cpu_memory().current_bytes;
  const Run plain = run(weights, std::nullopt, halves);
  const Run got = run(weights, CheckpointOptions{.replay = replay}, halves);
  expect_same_bits(got.gradients, plain.gradients);
  EXPECT_EQ(plain.gelus, kLayers);
  EXPECT_EQ(got.gelus, 2U * kLayers);
  EXPECT_LE(got.peak_bytes, plain.peak_bytes + (cpu_memory().current_bytes - before));
  EXPECT_EQ(live_frames(), 0);
}

INSTANTIATE_TEST_SUITE_P(
    Forms, ZeroBubbleRegionsTest,
    ::testing::Combine(::testing::Values(ReplayMode::kFunction, ReplayMode::kTape),
                       ::testing::Values(Halves::kFromLoss, Halves::kFromProducts)));

class ZeroBubbleBudgetTest : public ZeroBubbleTest, public ::testing::WithParamInterface<Halves> {
 protected:
  struct Run {
    Tensors gradients;
    std::int64_t growth = 0;
    std::size_t gelus_of_inputs = 0;  // in the halves
    std::size_t gelus_of_weights = 0;
    std::vector<BudgetedStep> steps;
  };

  // width: of a large result that is gone before backward.
  static at::Tensor head(const at::Tensor& h, std::int64_t width) {
    if (width > 0) {
      const at::NoGradGuard no_grad;
      h.matmul(at::linspace(-0.1, 0.1, kWidth * width).view({kWidth, width})).max();
    }
    return h.square().mean();
  }

  static Graph forward(const Tensors& weights, MemoryBudget* budget, int number,
                       std::int64_t head_width) {
    Graph graph{.input = make_input(number), .loss = {}, .products = {}};
    graph.loss = within(budget, [&] {
      at::Tensor h = graph.input;
      for (const at::Tensor& weight : weights) {
        h = run_layer(h, weight, &graph.products);
      }
      return head(h, head_width);
    });
    return graph;
  }

  struct Schedule {
    std::string order;  // "F": a forward; "I", "W": halves of the oldest one without
    std::int64_t head_width = 0;
    bool settles = true;  // into plans with which nothing is evicted
  };

  static Run run(const Tensors& weights, MemoryBudget* budget, const Schedule& schedule,
                 Halves halves) {
    torch::manual_seed(5);
    const std::int64_t before = cpu_memory().current_bytes;
    reset_peak_cpu_memory();
    Run found;
    std::deque<Graph> for_inputs;
    std::deque<std::pair<Graph, Tensors>> for_weights;
    int number = 0;
    for (const char next : schedule.order) {
      const KernelCounter kernels;
      if (next == 'F') {
        for_inputs.push_back(forward(weights, budget, number++, schedule.head_width));
      } else if (next == 'I') {
        Tensors gradients = input_half(for_inputs.front(), halves);
        for_weights.emplace_back(std::move(for_inputs.front()), std::move(gradients));
        for_inputs.pop_front();
        found.gelus_of_inputs += kernels.count("aten::gelu");
        if (budget != nullptr) {
          found.steps.push_back(*budget->last_step());
        }
      } else {
        auto& [graph, gradients] = for_weights.front();
        Tensors of_weights = weight_half(graph, weights, halves, gradients);
        found.gradients.push_back(gradients.back());
        found.gradients.insert(found.gradients.end(), of_weights.begin(), of_weights.end());
        for_weights.pop_front();
        found.gelus_of_weights += kernels.count("aten::gelu");
      }
    }
    found.growth = cpu_memory().peak_bytes - before;
    return found;
  }

  // Iterations within that part of the plain schedule's memory. Returns the last one.
  static Run expect_to_fit(const Schedule& schedule, double part, Halves halves) {
    SCOPED_TRACE(c10::str(schedule.order, ", part ", part));
    constexpr int kIterations = 8;
    const Tensors weights = make_weights(kLayers);
    run(weights, nullptr, schedule, halves);
    const Run plain = run(weights, nullptr, schedule, halves);
    const std::int64_t before = cpu_memory().current_bytes;
    const auto growth = static_cast<std::int64_t>(part * static_cast<double>(plain.growth));
    MemoryBudget budget({.peak_bytes = before + growth});
    Run got;
    for (int i = 0; i < kIterations; ++i) {
      SCOPED_TRACE(c10::str("iteration ", i));
      got = Run();
      got = run(weights, &budget, schedule, halves);
      expect_same_bits(got.gradients, plain.gradients);
      EXPECT_LE(got.growth, growth);
      for (const BudgetedStep& step : got.steps) {
        if (i == kIterations - 1) {
          EXPECT_TRUE(step.is_planned());
          EXPECT_TRUE(step.evicted_bytes == 0 || !schedule.settles) << step.evicted_bytes;
        }
      }
    }
    EXPECT_EQ(live_frames(), 0);
    return got;
  }
};

TEST_P(ZeroBubbleBudgetTest, RecomputesOnceForBothHalvesWhereThatFits) {
  const Run got = expect_to_fit({.order = "FIW", .head_width = 2048}, 0.85, GetParam());
  EXPECT_GT(got.gelus_of_inputs, 0U);
  EXPECT_EQ(got.gelus_of_weights, 0U);
}

TEST_P(ZeroBubbleBudgetTest, KeepsTheBudgetWhereItDoesNot) {
  for (const double part : {0.6, 0.8}) {
    expect_to_fit({.order = "FIW"}, part, GetParam());
  }
}

TEST_P(ZeroBubbleBudgetTest, KeepsTheBudgetOfSeveralInFlight) {
  expect_to_fit({.order = "FFFIFIWIWIWW"}, 0.7, GetParam());
  expect_to_fit({.order = "FFFIFIWIWIWW", .settles = false}, 0.5, GetParam());
}

INSTANTIATE_TEST_SUITE_P(Forms, ZeroBubbleBudgetTest,
                         ::testing::Values(Halves::kFromLoss, Halves::kFromProducts));

}  // namespace
}  // namespace reprise::testing::zero_bubble_test
