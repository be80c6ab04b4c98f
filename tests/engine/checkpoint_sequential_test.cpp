// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Conformance rows 109 to 113 and 115; row 114 has no meaning here.
#include "reprise/engine/checkpoint_sequential.h"

#include <ATen/autocast_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "reprise/engine/errors.h"
#include "reprise/engine/recomputing.h"
#include "tests/testing/modules.h"

namespace reprise::checkpoint_sequential_test {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using testing::expect_same_bits;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

using TensorFunction = std::function<at::Tensor(at::Tensor)>;

// A layer that counts how often it ran.
struct LayerImpl : torch::nn::Cloneable<LayerImpl> {
  LayerImpl() { reset(); }
  void reset() override { fc = register_module("fc", torch::nn::Linear(5, 5)); }
  at::Tensor forward(const at::Tensor& x) {
    ++runs;
    return torch::relu(fc(x));
  }
  torch::nn::Linear fc{nullptr};
  int runs = 0;
};
TORCH_MODULE(Layer);

std::vector<Layer> make_layers(int count) {
  torch::manual_seed(7);
  std::vector<Layer> layers;
  for (int i = 0; i < count; ++i) {
    layers.emplace_back();
  }
  return layers;
}

std::vector<int> runs_of(const std::vector<Layer>& layers) {
  std::vector<int> runs;
  for (const Layer& layer : layers) {
    runs.push_back(layer->runs);
  }
  return runs;
}

// The output, and the gradients of the input and of all parameters.
std::vector<at::Tensor> outcome(const std::vector<Layer>& layers,
                                const std::function<at::Tensor(const at::Tensor&)>& forward) {
  const at::Tensor x = torch::linspace(-1, 1, 15).view({3, 5}).requires_grad_();
  const at::Tensor y = forward(x);
  y.square().sum().backward();
  std::vector<at::Tensor> found = {y.detach(), x.grad()};
  for (const Layer& layer : layers) {
    for (const at::Tensor& parameter : layer->parameters()) {
      found.push_back(parameter.grad().clone());
    }
    layer.ptr()->zero_grad();
  }
  return found;
}

at::Tensor run_plainly(const std::vector<Layer>& layers, at::Tensor x) {
  for (const Layer& layer : layers) {
    x = layer.ptr()->forward(x);
  }
  return x;
}

// Checks a way to run six layers in two segments against the plain run.
void expect_same_as_plain(const std::vector<Layer>& layers,
                          const std::function<at::Tensor(const at::Tensor&)>& in_segments) {
  const auto expected =
      outcome(layers, [&](const at::Tensor& x) { return run_plainly(layers, x); });
  for (const Layer& layer : layers) {
    layer.ptr()->runs = 0;
  }
  expect_same_bits(outcome(layers, in_segments), expected);
  EXPECT_THAT(runs_of(layers), ElementsAre(2, 2, 2, 1, 1, 1));
}

TEST(CheckpointSequentialTest, C109_KeepsAutocast) {
  torch::nn::Sequential model(torch::nn::Linear(4, 4), torch::nn::Linear(4, 4),
                              torch::nn::Linear(4, 4));
  const at::Tensor x = torch::rand({2, 4}).to(at::kBFloat16).requires_grad_();
  at::Tensor y;
  {
    at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
    at::autocast::set_autocast_enabled(at::kCPU, true);
    y = checkpoint_sequential(model, 2, x);
    at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(at::kCPU, false);
  }
  EXPECT_TRUE(y.requires_grad());
  EXPECT_EQ(y.scalar_type(), at::kBFloat16);
  y.sum().backward();
  EXPECT_EQ(x.grad().scalar_type(), at::kBFloat16);
  for (const at::Tensor& parameter : model->parameters()) {
    EXPECT_TRUE(parameter.grad().defined());
  }
}

TEST(CheckpointSequentialTest, C110_LastSegmentRunsOnce) {
  const std::vector<Layer> layers = make_layers(10);
  const at::Tensor y = checkpoint_sequential(layers, 2, torch::rand({2, 5}));
  EXPECT_THAT(runs_of(layers), Each(1));
  y.sum().backward();
  EXPECT_THAT(runs_of(layers), ElementsAre(2, 2, 2, 2, 2, 1, 1, 1, 1, 1));
}

TEST(CheckpointSequentialTest, C110_AddsTheRemainderToTheLastSegment) {
  const std::vector<Layer> layers = make_layers(8);
  checkpoint_sequential(layers, 3, torch::rand({2, 5})).sum().backward();
  EXPECT_THAT(runs_of(layers), ElementsAre(2, 2, 2, 2, 1, 1, 1, 1));
}

TEST(CheckpointSequentialTest, C110_OneSegmentIsAPlainRun) {
  const std::vector<Layer> layers = make_layers(3);
  checkpoint_sequential(layers, 1, torch::rand({2, 5})).sum().backward();
  EXPECT_THAT(runs_of(layers), Each(1));
}

TEST(CheckpointSequentialTest, C111_MatchesListOfHoldersRunPlainly) {
  const std::vector<Layer> layers = make_layers(6);
  expect_same_as_plain(layers,
                       [&](const at::Tensor& x) { return checkpoint_sequential(layers, 2, x); });
}

TEST(CheckpointSequentialTest, C111_MatchesListOfPointersRunPlainly) {
  const std::vector<Layer> layers = make_layers(6);
  std::list<std::shared_ptr<LayerImpl>> pointers;
  for (const Layer& layer : layers) {
    pointers.push_back(layer.ptr());
  }
  expect_same_as_plain(layers,
                       [&](const at::Tensor& x) { return checkpoint_sequential(pointers, 2, x); });
}

TEST(CheckpointSequentialTest, C111_MatchesListOfFunctionsRunPlainly) {
  const std::vector<Layer> layers = make_layers(6);
  std::vector<TensorFunction> functions;
  for (const Layer& layer : layers) {
    functions.emplace_back([layer](const at::Tensor& x) { return layer.ptr()->forward(x); });
  }
  expect_same_as_plain(layers,
                       [&](const at::Tensor& x) { return checkpoint_sequential(functions, 2, x); });
}

TEST(CheckpointSequentialTest, C111_MatchesSequentialRunPlainly) {
  const std::vector<Layer> layers = make_layers(6);
  torch::nn::Sequential model;
  model->extend(layers);
  expect_same_as_plain(layers,
                       [&](const at::Tensor& x) { return checkpoint_sequential(model, 2, x); });
  expect_same_as_plain(layers, [&](const at::Tensor& x) {
    return checkpoint_sequential({.name = "model"}, *model, 2, x);
  });
}

TEST(CheckpointSequentialTest, C112_MatchesModuleListRunPlainly) {
  const std::vector<Layer> layers = make_layers(6);
  torch::nn::ModuleList list;
  list->extend(layers);
  expect_same_as_plain(
      layers, [&](const at::Tensor& x) { return checkpoint_sequential<Layer>(list, 2, x); });
  expect_same_as_plain(layers, [&](const at::Tensor& x) {
    return checkpoint_sequential<LayerImpl>({.name = "list"}, *list, 2, x);
  });
}

TEST(CheckpointSequentialTest, C112_MatchesChildrenOfAModuleListRunPlainly) {
  const std::vector<Layer> layers = make_layers(6);
  torch::nn::ModuleList list;
  list->extend(layers);
  expect_same_as_plain(layers, [&](const at::Tensor& x) {
    return checkpoint_sequential<Layer>(list->children(), 2, x);
  });
}

TEST(CheckpointSequentialTest, C112_AllowsModuleListToHoldSeveralTypes) {
  torch::nn::ModuleList list{Layer(), torch::nn::Linear(5, 3), torch::nn::ReLU()};
  const at::Tensor x = torch::rand({2, 5});
  const at::Tensor y =
      checkpoint_sequential<torch::nn::Linear, Layer, torch::nn::ReLUImpl>(list, 3, x);
  const at::Tensor expected =
      list[1]->as<torch::nn::Linear>()->forward(list[0]->as<Layer>()->forward(x)).relu();
  EXPECT_TRUE(at::equal(y, expected));
}

TEST(CheckpointSequentialTest, C112_ElementOfNoneOfTheTypesIsNamedBeforeAnythingRuns) {
  const Layer layer;
  torch::nn::ModuleList list{layer, torch::nn::ReLU()};
  const auto run = [&] {
    checkpoint_sequential<Layer, torch::nn::Linear>(list, 2, torch::rand({2, 5}));
  };
  EXPECT_THAT(run, ThrowsMessage<std::invalid_argument>(
                       AllOf(HasSubstr("element 1 "), HasSubstr("torch::nn::ReLUImpl"),
                             HasSubstr("LayerImpl, torch::nn::LinearImpl"))));
  EXPECT_EQ(layer->runs, 0);
}

TEST(CheckpointSequentialTest, C113_SupportsGradWithAGraph) {
  const std::vector<Layer> layers = make_layers(4);
  const auto second_order = [&](const std::function<at::Tensor(const at::Tensor&)>& forward) {
    const at::Tensor x = torch::linspace(-1, 1, 10).view({2, 5}).requires_grad_();
    const at::Tensor y = forward(x);
    const auto first =
        torch::autograd::grad({y.square().sum()}, {x}, {}, std::nullopt, /*create_graph=*/true);
    const auto second = torch::autograd::grad({first[0].square().sum()}, {x});
    return std::vector<at::Tensor>{y.detach(), first[0].detach(), second[0]};
  };
  const auto expected = second_order([&](const at::Tensor& x) { return run_plainly(layers, x); });
  expect_same_bits(
      second_order([&](const at::Tensor& x) { return checkpoint_sequential(layers, 2, x); }),
      expected);
}

TEST(CheckpointSequentialTest, C115_ThrowsForEmptyList) {
  EXPECT_THAT(
      [] {
        checkpoint_sequential(std::vector<Layer>(), 1, torch::rand({2, 5}));
      },
      ThrowsMessage<std::invalid_argument>(HasSubstr("received an empty list")));
  EXPECT_THAT(
      [] {
        checkpoint_sequential(torch::nn::Sequential(), 1, torch::rand({2, 5}));
      },
      ThrowsMessage<std::invalid_argument>(HasSubstr("received an empty list")));
}

TEST(CheckpointSequentialTest, C115_SegmentsOutOfRangeAreAnError) {
  const std::vector<Layer> layers = make_layers(3);
  for (const std::int64_t segments : {-1, 0, 4}) {
    EXPECT_THAT(
        [&] {
          checkpoint_sequential(layers, segments, torch::rand({2, 5}));
        },
        ThrowsMessage<std::invalid_argument>(
            HasSubstr("received segments = " + std::to_string(segments) + " for 3 function(s)")));
  }
  EXPECT_THAT(runs_of(layers), Each(0));
}

TEST(CheckpointSequentialTest, RegionsOwnTheirFunctions) {
  std::vector<Layer> layers = make_layers(4);
  const at::Tensor x = torch::rand({2, 5});
  const at::Tensor weight = layers[0]->fc->weight;
  const at::Tensor y = checkpoint_sequential(layers, 2, x);
  layers.clear();
  y.sum().backward();
  EXPECT_TRUE(weight.grad().defined());
}

TEST(CheckpointSequentialTest, RegionsLetGoOfTheirFunctionsWithTheGraph) {
  std::vector<Layer> layers = make_layers(4);
  const std::weak_ptr<LayerImpl> first = layers[0].ptr();
  at::Tensor y = checkpoint_sequential(layers, 2, torch::rand({2, 5}));
  layers.clear();
  EXPECT_FALSE(first.expired());
  y.reset();
  EXPECT_TRUE(first.expired());
}

TEST(CheckpointSequentialTest, FunctionsMayAgreeOnAnotherTypeThanTensor) {
  using Pair = std::pair<at::Tensor, at::Tensor>;
  int runs = 0;
  const std::vector<std::function<Pair(const Pair&)>> functions(4, [&runs](const Pair& in) {
    ++runs;
    return Pair(in.first * in.second, in.first.sin());
  });
  const at::Tensor a = torch::rand({3}).requires_grad_();
  const at::Tensor b = torch::rand({3}).requires_grad_();
  Pair expected(a, b);
  for (const auto& function : functions) {
    expected = function(expected);
  }
  const auto expected_grads = torch::autograd::grad({expected.first.sum()}, {a, b});
  runs = 0;
  const Pair result = checkpoint_sequential(functions, 2, Pair(a, b));
  const auto grads = torch::autograd::grad({result.first.sum()}, {a, b});
  EXPECT_EQ(runs, 6);
  EXPECT_TRUE(at::equal(result.first, expected.first));
  expect_same_bits(grads, expected_grads);
}

struct LastOutputImpl : torch::nn::Module {
  using Result = std::tuple<at::Tensor, std::tuple<at::Tensor, at::Tensor>>;
  at::Tensor forward(Result result) { return std::get<0>(result); }  // NOLINT(performance-*)
};
TORCH_MODULE(LastOutput);

TEST(CheckpointSequentialTest, ElementsOfASequentialMayPassOnOtherTypesThanTensors) {
  torch::nn::Sequential model(torch::nn::LSTM(4, 4), LastOutput(), torch::nn::Linear(4, 2));
  const at::Tensor x = torch::rand({3, 2, 4}).requires_grad_();
  const at::Tensor expected = model->forward(x);
  const auto expected_grads = torch::autograd::grad({expected.sum()}, {x});
  for (const std::int64_t segments : {1, 2, 3}) {
    const at::Tensor y = checkpoint_sequential(model, segments, x);
    EXPECT_TRUE(at::equal(y, expected));
    expect_same_bits(torch::autograd::grad({y.sum()}, {x}), expected_grads);
  }
}

TEST(CheckpointSequentialTest, NamesRegionsBySegment) {
  const TensorFunction steady = [](const at::Tensor& x) { return x.sin(); };
  const TensorFunction fickle = [](const at::Tensor& x) {
    return is_recomputing() ? x.narrow(0, 0, 1).sin() : x.sin();
  };
  const at::Tensor x = torch::rand({3}).requires_grad_();
  const at::Tensor y = checkpoint_sequential(
      {.name = "chain"}, std::vector<TensorFunction>{steady, fickle, steady}, 3, x);
  EXPECT_THAT([&] { y.sum().backward(); }, ThrowsMessage<DeterminismError>(HasSubstr("chain[1]")));
}

TEST(CheckpointSequentialTest, WithoutGradModeEachFunctionRunsOnce) {
  const std::vector<Layer> layers = make_layers(4);
  const torch::NoGradGuard no_grad;
  const at::Tensor y = checkpoint_sequential(layers, 2, torch::rand({2, 5}));
  EXPECT_FALSE(y.requires_grad());
  EXPECT_THAT(runs_of(layers), Each(1));
}

// As in torchvision's VGG.
torch::nn::Sequential make_features(bool starts_in_place) {
  namespace nn = torch::nn;
  torch::manual_seed(7);
  nn::Sequential features;
  if (starts_in_place) {
    features->push_back(nn::ReLU(nn::ReLUOptions(true)));
  }
  for (int i = 0; i < 4; ++i) {
    features->push_back(nn::Linear(5, 5));
    features->push_back(nn::Dropout(nn::DropoutOptions(0.5).inplace(true)));
    features->push_back(nn::ReLU(nn::ReLUOptions(true)));
  }
  return features;
}

TEST(CheckpointSequentialTest, StartsNoRegionWithAnOperatorInPlace) {
  for (const bool starts_in_place : {false, true}) {
    torch::nn::Sequential features = make_features(starts_in_place);
    const auto outcome = [&](const std::function<at::Tensor(const at::Tensor&)>& forward) {
      features->zero_grad();
      torch::manual_seed(3);
      const at::Tensor x = torch::rand({2, 5}).requires_grad_();
      const at::Tensor y = forward(x.mul(2));
      y.sum().backward();
      std::vector<at::Tensor> results = {y.detach(), x.grad()};
      for (const at::Tensor& parameter : features->parameters()) {
        results.push_back(parameter.grad().clone());
      }
      return results;
    };
    const auto expected = outcome([&](const at::Tensor& x) { return features->forward(x); });
    for (std::int64_t segments = 1; segments <= static_cast<std::int64_t>(features->size());
         ++segments) {
      expect_same_bits(outcome([&](const at::Tensor& x) {
                         return checkpoint_sequential(features, segments, x);
                       }),
                       expected);
    }
  }
}

}  // namespace
}  // namespace reprise::checkpoint_sequential_test
