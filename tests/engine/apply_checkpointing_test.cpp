// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Conformance row 32, and rows 31 and 122 for modules that `apply_checkpointing()` wraps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "reprise/engine/apply_checkpointing.h"
#include "reprise/engine/checkpointed.h"
#include "reprise/engine/cpu_memory.h"
#include "tests/testing/modules.h"

namespace reprise::apply_checkpointing_test {
namespace {

using ::testing::AllOf;
using testing::archive_of;
using ::testing::ElementsAre;
using testing::expect_same_bits;
using ::testing::HasSubstr;
using testing::load_archive;
using testing::outcome_of;
using testing::small_input;
using ::testing::ThrowsMessage;
using torch::nn::Sequential;

// Counts how often it ran; clones share the count.
struct LayerImpl : torch::nn::Cloneable<LayerImpl> {
  LayerImpl() { reset(); }
  void reset() override {
    fc = register_module("fc", torch::nn::Linear(4, 4));
    inner = register_module("inner", Sequential(torch::nn::Linear(4, 4), torch::nn::Dropout(0.5)));
  }
  at::Tensor forward(const at::Tensor& x) {
    ++*runs;
    return inner->forward(torch::gelu(fc(x)));
  }
  torch::nn::Linear fc{nullptr};
  Sequential inner{nullptr};
  std::shared_ptr<int> runs = std::make_shared<int>(0);
};
TORCH_MODULE(Layer);

struct NetImpl : torch::nn::Cloneable<NetImpl> {
  NetImpl() { reset(); }
  void reset() override {
    first = register_module("first", Layer());
    blocks = register_module("blocks", Sequential(Layer(), torch::nn::Tanh(), Layer()));
    head = register_module("head", Checkpointed<Layer>({.name = "own"}));
    head->set_checkpoint_options(std::nullopt);
  }
  at::Tensor forward(const at::Tensor& x) { return head(blocks->forward(first(x))); }
  Layer first{nullptr};
  Sequential blocks{nullptr};
  Checkpointed<Layer> head{nullptr};
};
TORCH_MODULE(Net);

template <class M>
bool is_a(const std::string& /*path*/, const torch::nn::Module& module) {
  return module.as<M>() != nullptr;
}

bool is_layer_of_blocks(const std::string& path, const torch::nn::Module& module) {
  return path.starts_with("blocks.") && module.as<LayerImpl>() != nullptr;
}

CheckpointedModule* wrapper(Sequential& sequential, std::size_t index) {
  return checkpointed_element(*sequential, index);
}

LayerImpl& layer(Sequential& sequential, std::size_t index) {
  return *sequential[index]->as<Layer>();
}

TEST(ApplyCheckpointingTest, C031_NamesAreUnchanged) {
  Net net;
  const auto parameters = net->named_parameters();
  const auto modules = net->named_modules().keys();
  apply_checkpointing(*net, is_layer_of_blocks);
  EXPECT_EQ(net->named_parameters().keys(), parameters.keys());
  for (const auto& parameter : net->named_parameters()) {
    EXPECT_TRUE(parameter.value().is_same(parameters[parameter.key()])) << parameter.key();
  }
  EXPECT_EQ(net->named_modules().keys(), modules);
}

TEST(ApplyCheckpointingTest, C031_ArchivesLoadBothWays) {
  Net plain;
  Net wrapped;
  apply_checkpointing(*wrapped, is_layer_of_blocks);
  const at::Tensor plain_weight = layer(plain->blocks, 0).fc->weight.detach().clone();
  const at::Tensor wrapped_weight = layer(wrapped->blocks, 0).fc->weight.detach().clone();
  const std::string archive = archive_of(wrapped);
  load_archive(wrapped, archive_of(plain));
  EXPECT_TRUE(at::equal(layer(wrapped->blocks, 0).fc->weight, plain_weight));
  load_archive(plain, archive);
  EXPECT_TRUE(at::equal(layer(plain->blocks, 0).fc->weight, wrapped_weight));
}

TEST(ApplyCheckpointingTest, C031_ElementsAreFoundAsBefore) {
  Sequential model(Layer{}, torch::nn::Tanh{});
  LayerImpl* const inner = &model->at<LayerImpl>(0);
  ASSERT_EQ(apply_checkpointing(*model, is_a<LayerImpl>), 1);
  ASSERT_NE(wrapper(model, 0), nullptr);
  EXPECT_EQ(wrapper(model, 1), nullptr);
  EXPECT_EQ(model->ptr(0).get(), inner);
  EXPECT_EQ(model->children()[0].get(), inner);
  EXPECT_EQ(model[0]->as<Layer>(), inner);
  int found = 0;
  model->apply([&](torch::nn::Module& module) { found += module.as<Layer>() == inner ? 1 : 0; });
  EXPECT_EQ(found, 1);
  EXPECT_TRUE(model[0]->as<Layer>()->forward(small_input()).requires_grad());
  EXPECT_THAT([&] { static_cast<void>(model->at<LayerImpl>(0)); },
              ThrowsMessage<c10::Error>(HasSubstr("CheckpointedElement")));
  EXPECT_THAT([&] { static_cast<void>(wrapper(model, 2)); },
              ThrowsMessage<std::out_of_range>(HasSubstr("no element 2 of 2")));
}

TEST(ApplyCheckpointingTest, C032_WrapsEveryLinearAlsoNestedOnes) {
  Sequential model(torch::nn::Linear(4, 4), torch::nn::ReLU(),
                   Checkpointed<Sequential>(CheckpointOptions{}, torch::nn::Linear(4, 4),
                                            torch::nn::Linear(4, 4)));
  ASSERT_EQ(apply_checkpointing(*model, is_a<torch::nn::LinearImpl>), 3);
  torch::optim::SGD optimizer(model->parameters(), 0.1);
  for (int iteration = 0; iteration < 6; ++iteration) {
    optimizer.zero_grad();
    model->forward(small_input()).sum().backward();
    for (const auto& parameter : model->named_parameters()) {
      EXPECT_TRUE(parameter.value().grad().defined()) << parameter.key();
    }
    optimizer.step();
  }
}

TEST(ApplyCheckpointingTest, C122_PeakMemoryEqualsTheFunctionForm) {
  install_cpu_memory_counter();
  const auto peak_of = [](const auto& forward) {
    const at::Tensor x = torch::rand({1024, 4}).requires_grad_();
    const std::int64_t before = cpu_memory().current_bytes;
    reset_peak_cpu_memory();
    forward(x).sum().backward();
    return cpu_memory().peak_bytes - before;
  };
  Layer plain;
  Sequential wrapped(plain);
  apply_checkpointing(*wrapped, [](const std::string& path, const auto&) { return path == "0"; });
  const auto through_function = [&](const at::Tensor& x) { return checkpoint(plain, x); };
  const auto through_wrapper = [&](const at::Tensor& x) { return wrapped->forward(x); };
  peak_of(through_function);  // makes the gradients, which stay
  const std::int64_t expected = peak_of(through_function);
  EXPECT_GE(expected, 1024 * 4 * 4);
  EXPECT_EQ(peak_of(through_wrapper), expected);
}

TEST(ApplyCheckpointingTest, GradientsHaveTheBitsOfThePlainRun) {
  Net net;
  const auto expected = outcome_of(net);
  *layer(net->blocks, 2).runs = 0;
  EXPECT_EQ(apply_checkpointing(*net, is_layer_of_blocks), 2);
  expect_same_bits(outcome_of(net), expected);
  EXPECT_EQ(*layer(net->blocks, 2).runs, 2);
  EXPECT_EQ(*net->first->runs, 2);
}

TEST(ApplyCheckpointingTest, SetsTheOptionsOfACheckpointedMember) {
  Net net;
  EXPECT_EQ(apply_checkpointing(*net,
                                [](const std::string& path, const auto&) {
                                  return path == "head" || path == "blocks.0";
                                },
                                {.early_stop = false}),
            2);
  EXPECT_EQ(net->head->checkpoint_options()->name, "head");
  EXPECT_FALSE(net->head->checkpoint_options()->early_stop);
  EXPECT_EQ(wrapper(net->blocks, 0)->checkpoint_options()->name, "blocks.0");
  net->forward(small_input()).sum().backward();
  EXPECT_EQ(*net->head->runs, 2);
}

TEST(ApplyCheckpointingTest, AppliedAgainItSetsTheOptionsOfItsWrappers) {
  Net net;
  apply_checkpointing(*net, is_layer_of_blocks);
  CheckpointedModule* const first = wrapper(net->blocks, 0);
  EXPECT_EQ(apply_checkpointing(*net, is_layer_of_blocks, {.name = "all"}), 2);
  EXPECT_EQ(wrapper(net->blocks, 0), first);
  EXPECT_EQ(first->checkpoint_options()->name, "all");
}

TEST(ApplyCheckpointingTest, WithoutOptionsAWrapperRunsPlainly) {
  Sequential model(Layer{});
  apply_checkpointing(*model, is_a<LayerImpl>);
  wrapper(model, 0)->set_checkpoint_options(std::nullopt);
  model->forward(small_input()).sum().backward();
  EXPECT_EQ(*layer(model, 0).runs, 1);
}

TEST(ApplyCheckpointingTest, MatchInsideAMatchIsARegionInsideARegion) {
  Net net;
  const auto expected = outcome_of(net);
  const auto in_blocks = [](const std::string& path, const torch::nn::Module& module) {
    return is_layer_of_blocks(path, module) || path.find(".inner.") != std::string::npos;
  };
  EXPECT_EQ(apply_checkpointing(*net,
                                [&](const std::string& path, const auto& module) {
                                  return path.starts_with("blocks.") && in_blocks(path, module);
                                }),
            6);
  EXPECT_NE(wrapper(layer(net->blocks, 0).inner, 0), nullptr);
  expect_same_bits(outcome_of(net), expected);
}

TEST(ApplyCheckpointingTest, TrainAndEvalReachWhatIsInside) {
  Net net;
  apply_checkpointing(*net, is_layer_of_blocks);
  net->eval();
  EXPECT_FALSE(net->blocks->ptr(0)->is_training());
  EXPECT_FALSE(layer(net->blocks, 0).is_training());
  EXPECT_FALSE(layer(net->blocks, 0).inner->ptr(1)->is_training());
  EXPECT_TRUE(at::equal(net->forward(small_input()), net->forward(small_input())));
  net->train();
  EXPECT_TRUE(layer(net->blocks, 0).inner->ptr(1)->is_training());
}

TEST(ApplyCheckpointingTest, MovesTheInnerModule) {
  Net net;
  apply_checkpointing(*net, is_layer_of_blocks);
  net->to(at::kDouble);
  EXPECT_EQ(layer(net->blocks, 0).fc->weight.scalar_type(), at::kDouble);
  const at::Tensor x = small_input().detach().to(at::kDouble).requires_grad_();
  net->forward(x).sum().backward();
  EXPECT_EQ(layer(net->blocks, 0).fc->weight.grad().scalar_type(), at::kDouble);
}

TEST(ApplyCheckpointingTest, CloneIsIndependentAndWrapped) {
  Net net;
  apply_checkpointing(*net, is_layer_of_blocks, {.name = "layer"});
  auto clone = std::dynamic_pointer_cast<NetImpl>(net->clone());
  ASSERT_NE(clone, nullptr);
  ASSERT_NE(wrapper(clone->blocks, 2), nullptr);
  EXPECT_EQ(wrapper(clone->blocks, 2)->checkpoint_options()->name, "layer");
  EXPECT_EQ(clone->named_parameters().keys(), net->named_parameters().keys());
  EXPECT_FALSE(layer(clone->blocks, 2).fc->weight.is_same(layer(net->blocks, 2).fc->weight));
  expect_same_bits(outcome_of(clone), outcome_of(net));
}

TEST(ApplyCheckpointingTest, ModuleThatIsUsedTwiceStaysOne) {
  const Layer shared;
  Sequential model(shared, torch::nn::Tanh(), shared);
  EXPECT_EQ(apply_checkpointing(*model, is_a<LayerImpl>), 1);
  EXPECT_EQ(model->ptr(0), model->ptr(2));
  model->forward(small_input()).sum().backward();
  EXPECT_EQ(*shared->runs, 4);
}

TEST(ApplyCheckpointingTest, WrapsOnlyOccurrencesThatThePredicateAccepts) {
  const Layer shared;
  Sequential model(shared, torch::nn::Tanh(), shared);
  EXPECT_EQ(
      apply_checkpointing(*model, [](const std::string& path, const auto&) { return path == "2"; }),
      1);
  EXPECT_EQ(wrapper(model, 0), nullptr);
  EXPECT_NE(wrapper(model, 2), nullptr);
}

// Required by torch::nn::Sequential to hold another one.
struct StageImpl : torch::nn::SequentialImpl {
  using SequentialImpl::SequentialImpl;
  at::Tensor forward(at::Tensor x) {  // NOLINT(performance-unnecessary-value-param)
    return SequentialImpl::forward(std::move(x));
  }
};
TORCH_MODULE(Stage);

TEST(ApplyCheckpointingTest, StageAndItsElementsCanBeWrappedInAnyOrder) {
  for (const bool stage_first : {true, false}) {
    const Layer inner;
    Sequential model(Stage(inner), torch::nn::Tanh{});
    const auto wrap = [&](const std::string& wanted) {
      return apply_checkpointing(
          *model, [&](const std::string& path, const auto&) { return path == wanted; });
    };
    EXPECT_EQ(wrap(stage_first ? "0" : "0.0"), 1);
    EXPECT_EQ(wrap(stage_first ? "0.0" : "0"), 1);
    EXPECT_NE(wrapper(model, 0), nullptr);
    EXPECT_NE(checkpointed_element(*model[0]->as<StageImpl>(), 0), nullptr);
    model->forward(small_input()).sum().backward();
    EXPECT_EQ(*inner->runs, 2);  // the outer replay stops at the inner region's inputs
  }
}

struct FirstOfImpl : torch::nn::Module {
  using Result = std::tuple<at::Tensor, std::tuple<at::Tensor, at::Tensor>>;
  at::Tensor forward(Result result) {  // NOLINT(performance-unnecessary-value-param)
    ++runs;
    return std::get<0>(result).sin();
  }
  int runs = 0;
};
TORCH_MODULE(FirstOf);

TEST(ApplyCheckpointingTest, WrapsElementsWithForwardsOfAnySignature) {
  FirstOf first_of;
  Sequential model(torch::nn::LSTM(4, 4), first_of);
  const at::Tensor x = torch::rand({3, 2, 4}).requires_grad_();
  const at::Tensor expected = model->forward(x);
  const auto expected_grads = torch::autograd::grad({expected.sum()}, {x});
  EXPECT_EQ(apply_checkpointing(*model,
                                [](const std::string& path, const auto&) { return !path.empty(); }),
            2);
  first_of->runs = 0;
  const at::Tensor y = model->forward(x);
  EXPECT_TRUE(at::equal(y, expected));
  expect_same_bits(torch::autograd::grad({y.sum()}, {x}), expected_grads);
  EXPECT_EQ(first_of->runs, 2);
}

TEST(ApplyCheckpointingTest, WrapsElementsThatTakeSeveralArguments) {
  Sequential model(torch::nn::Bilinear(4, 4, 2));
  const at::Tensor a = small_input();
  const at::Tensor b = small_input();
  const at::Tensor expected = model->forward(a, b);
  const auto expected_grads = torch::autograd::grad({expected.sum()}, {a, b});
  apply_checkpointing(*model, is_a<torch::nn::BilinearImpl>);
  const at::Tensor y = model->forward(a, b);
  EXPECT_TRUE(at::equal(y, expected));
  expect_same_bits(torch::autograd::grad({y.sum()}, {a, b}), expected_grads);
}

TEST(ApplyCheckpointingTest, ThrowsForPlainMemberAndNothingChanges) {
  Net net;
  EXPECT_THAT([&] { apply_checkpointing(*net, is_a<LayerImpl>); },
              ThrowsMessage<std::invalid_argument>(
                  AllOf(HasSubstr("received 'first', a "), HasSubstr("LayerImpl"),
                        HasSubstr("derive its class from reprise::CheckpointedModule"),
                        HasSubstr("declare the member as reprise::Checkpointed<...>"))));
  const auto all_but_root = [](const std::string& path, const torch::nn::Module& module) {
    return path == "head" || path.ends_with(".fc") || is_layer_of_blocks(path, module);
  };
  EXPECT_THAT([&] { apply_checkpointing(*net, all_but_root); },
              ThrowsMessage<std::invalid_argument>(
                  HasSubstr("this module cannot be wrapped, because it is no element")));
  EXPECT_EQ(wrapper(net->blocks, 0), nullptr);
  EXPECT_EQ(net->head->checkpoint_options(), std::nullopt);
}

TEST(ApplyCheckpointingTest, ThrowsForRootUnlessItIsCheckpointed) {
  const auto is_root = [](const std::string& path, const auto&) { return path.empty(); };
  Layer plain;
  EXPECT_THAT([&] { apply_checkpointing(*plain, is_root); },
              ThrowsMessage<std::invalid_argument>(HasSubstr(", the root")));
  Checkpointed<Layer> checkpointed(CheckpointOptions{});
  EXPECT_EQ(apply_checkpointing(*checkpointed, is_root, {.name = "root"}), 1);
  EXPECT_EQ(checkpointed->checkpoint_options()->name, "root");
}

TEST(ApplyCheckpointingTest, PredicateSeesEachPathOnceParentsFirst) {
  Sequential model(Layer{}, torch::nn::Tanh{});
  apply_checkpointing(*model, is_a<LayerImpl>);
  std::vector<std::string> paths;
  apply_checkpointing(*model, [&](const std::string& path, const auto&) {
    paths.push_back(path);
    return false;
  });
  EXPECT_THAT(paths, ElementsAre("", "0", "0.fc", "0.inner", "0.inner.0", "0.inner.1", "1"));
}

// With the one line.
struct OwnImpl : torch::nn::Cloneable<OwnImpl>, CheckpointedModule {
  OwnImpl() { reset(); }
  void reset() override { fc = register_module("fc", torch::nn::Linear(4, 4)); }
  at::Tensor forward(const at::Tensor& x) {
    const auto scope = checkpoint_scope(x);
    return fc(x).sin().cos();
  }
  torch::nn::Linear fc{nullptr};
};
TORCH_MODULE(Own);

// Modules that are called in each way that apply_checkpointing() cannot see.
struct CallerImpl : torch::nn::Cloneable<CallerImpl> {
  CallerImpl() { reset(); }
  void reset() override {
    member = register_module("member", Own());
    list = register_module("list", torch::nn::ModuleList(Own(), Own()));
    holders.clear();
    for (int i = 0; i < 2; ++i) {
      holders.push_back(register_module("holder" + std::to_string(i), Own()));
    }
  }
  at::Tensor forward(const at::Tensor& x) {
    at::Tensor h = member(x);
    for (const auto& each : *list) {
      h = each->as<Own>()->forward(h);
    }
    h = list->ptr<OwnImpl>(0)->forward(h);
    for (Own& each : holders) {
      h = each->forward(h);
    }
    return h;
  }
  Own member{nullptr};
  torch::nn::ModuleList list{nullptr};
  std::vector<Own> holders;
};
TORCH_MODULE(Caller);

std::int64_t kept_by(Caller& model) {
  const at::Tensor x = torch::rand({256, 4});
  const std::int64_t before = cpu_memory().current_bytes;
  const at::Tensor y = model->forward(x);
  return cpu_memory().current_bytes - before;
}

TEST(ApplyCheckpointingTest, ReachesOwnModulesHoweverTheyAreCalled) {
  install_cpu_memory_counter();
  Caller model;
  const auto expected = outcome_of(model);
  kept_by(model);
  const std::int64_t plain = kept_by(model);
  EXPECT_EQ(apply_checkpointing(*model, modules_named({"Own"})), 5);
  EXPECT_EQ(model->list->ptr<OwnImpl>(1)->checkpoint_options()->name, "list.1");
  EXPECT_LT(kept_by(model), plain / 2);
  expect_same_bits(outcome_of(model), expected);
  EXPECT_EQ(remove_checkpointing(*model), 5);
  EXPECT_EQ(remove_checkpointing(*model), 0);
  EXPECT_EQ(kept_by(model), plain);
}

TEST(ApplyCheckpointingTest, LeavesTheLastOnesPlain) {
  Caller model;
  EXPECT_EQ(apply_checkpointing(*model, modules_named({"Own"})), 5);
  EXPECT_EQ(apply_checkpointing(*model, modules_named({"Own"}), {}, 2), 3);
  EXPECT_TRUE(model->list->ptr<OwnImpl>(1)->checkpoint_options());
  EXPECT_FALSE(model->holders[0]->checkpoint_options());
  EXPECT_FALSE(model->holders[1]->checkpoint_options());
  EXPECT_EQ(apply_checkpointing(*model, modules_named({"Own"}), {}, 9), 0);
  EXPECT_THAT([&] { apply_checkpointing(*model, modules_named({"Own"}), {}, -1); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("keep_last is negative: -1")));
}

TEST(ApplyCheckpointingTest, LeavesSmallInputsAlone) {
  install_cpu_memory_counter();
  Caller model;
  const auto expected = outcome_of(model);
  kept_by(model);
  const std::int64_t plain = kept_by(model);
  apply_checkpointing(*model, modules_named({"Own"}), {.min_input_bytes = 256 * 4 * 4 + 1});
  EXPECT_EQ(kept_by(model), plain);
  apply_checkpointing(*model, modules_named({"Own"}), {.min_input_bytes = 256 * 4 * 4});
  EXPECT_LT(kept_by(model), plain / 2);
  expect_same_bits(outcome_of(model), expected);
}

TEST(ApplyCheckpointingTest, RemovesTheWrapperOfAnElement) {
  Sequential model(Layer{}, torch::nn::Tanh{});
  apply_checkpointing(*model, is_a<LayerImpl>);
  EXPECT_EQ(remove_checkpointing(*model, modules_named({"Tanh"})), 0);
  EXPECT_EQ(remove_checkpointing(*model, modules_named({"Layer"})), 1);
  EXPECT_EQ(wrapper(model, 0), nullptr);
  model->forward(small_input()).sum().backward();
  EXPECT_EQ(*model->at<LayerImpl>(0).runs, 1);
}

TEST(ModulesNamedTest, MustMatchAModule) {
  Sequential model(Layer{}, torch::nn::Tanh{});
  const auto expect_error = [](const auto& apply, const char* closest) {
    EXPECT_THAT(apply, ThrowsMessage<std::invalid_argument>(AllOf(
                           HasSubstr("no module has this path, name or type; received 'Layr'"),
                           HasSubstr(closest))));
  };
  expect_error(
      [&] {
        apply_checkpointing(*model, modules_named({"Tanh", "Layr"}));
      },
      "the closest are Layer");
  expect_error([&] { remove_checkpointing(*model, modules_named({"Layr"})); },
               "the closest are Layer");
  EXPECT_EQ(wrapper(model, 1), nullptr);
  EXPECT_EQ(apply_checkpointing(*model, modules_named({"Tanh", "Layer"})), 2);
}

TEST(ModulesNamedTest, MatchesPathsNamesAndTypes) {
  const Layer module;
  const auto is_matched = [&](const std::string& pattern) {
    return modules_named({"nothing", pattern})("blocks.0.mlp", *module);
  };
  for (const char* const pattern :
       {"blocks.0.mlp", "blocks.*", "*.mlp", "blocks.?.mlp", "mlp", "Layer", "LayerImpl"}) {
    EXPECT_TRUE(is_matched(pattern)) << pattern;
  }
  for (const char* const pattern : {"blocks", "0", "lp", "Lay", "mlp.*", "block.0.mlp"}) {
    EXPECT_FALSE(is_matched(pattern)) << pattern;
  }
}

}  // namespace
}  // namespace reprise::apply_checkpointing_test
