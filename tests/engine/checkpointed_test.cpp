// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Conformance rows 30, 31 and 122 for `Checkpointed`; apply_checkpointing_test.cpp has row 32.
#include "reprise/engine/checkpointed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "reprise/engine/cpu_memory.h"
#include "reprise/engine/errors.h"
#include "tests/testing/modules.h"

namespace reprise::checkpointed_module_test {
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

// A module that counts how often it ran.
struct BlockImpl : torch::nn::Cloneable<BlockImpl> {
  explicit BlockImpl(std::int64_t width) : width_(width) { reset(); }
  void reset() override {
    fc = register_module("fc", torch::nn::Linear(width_, width_));
    dropout = register_module("dropout", torch::nn::Dropout(0.5));
    register_buffer("scale", torch::full({1}, 2.0));
  }
  at::Tensor forward(const at::Tensor& x) {
    ++runs;
    return dropout(torch::gelu(fc(x))) * named_buffers()["scale"];
  }
  torch::nn::Linear fc{nullptr};
  torch::nn::Dropout dropout{nullptr};
  int runs = 0;

 private:
  std::int64_t width_;
};
TORCH_MODULE(Block);

struct Four {
  at::Tensor a, b, c, d;
};
struct ManyImpl : torch::nn::Module {
  Four forward(at::Tensor x, std::optional<at::Tensor> y, double factor) {  // NOLINT(performance-*)
    ++runs;
    const at::Tensor product = x * y.value_or(x) * factor;
    return {product.sin(), product.detach(), x + 1, x.gt(0)};
  }
  int runs = 0;
};
TORCH_MODULE(Many);

TEST(CheckpointedModuleTest, C030_TakesSeveralArgumentsAndReturnsSeveralResults) {
  Many plain;
  Checkpointed<Many> checkpointed(CheckpointOptions{});
  const at::Tensor x = small_input();
  const at::Tensor y = torch::full({3, 4}, 0.5).requires_grad_();
  const Four expected = plain->forward(x, y, 3.0);
  const Four through_forward = checkpointed->forward(x, y, 3.0);
  const Four through_holder = checkpointed(x, y, 3.0);
  for (const Four& got : {through_forward, through_holder}) {
    expect_same_bits({got.a, got.b, got.c, got.d},
                     {expected.a, expected.b, expected.c, expected.d});
    EXPECT_EQ(std::make_tuple(got.a.requires_grad(), got.b.requires_grad(), got.c.requires_grad(),
                              got.d.requires_grad()),
              std::make_tuple(true, false, true, false));
  }
  const auto expected_grads = torch::autograd::grad({(expected.a * expected.c).sum()}, {x, y});
  expect_same_bits(torch::autograd::grad({(through_forward.a * through_forward.c).sum()}, {x, y}),
                   expected_grads);
  EXPECT_EQ(checkpointed->runs, 3);
}

TEST(CheckpointedModuleTest, C030_TakesTheDefaultArgumentsOfForward) {
  torch::manual_seed(1);
  torch::nn::MultiheadAttention plain(4, 2);
  Checkpointed<torch::nn::MultiheadAttention> checkpointed({.name = "attention"}, plain);
  const at::Tensor x = torch::rand({3, 2, 4}).requires_grad_();
  const at::Tensor expected = std::get<0>(plain(x, x, x));
  const at::Tensor got = std::get<0>(checkpointed(x, x, x));
  EXPECT_TRUE(at::equal(got, expected));
  expect_same_bits(torch::autograd::grad({got.sum()}, {x}),
                   torch::autograd::grad({expected.sum()}, {x}));
  EXPECT_FALSE(std::get<1>(checkpointed(x, x, x, at::Tensor(), false)).defined());
}

TEST(CheckpointedModuleTest, C031_ParameterNamesAreUnchanged) {
  const Block plain(4);
  const Checkpointed<Block> checkpointed(CheckpointOptions{}, 4);
  EXPECT_EQ(checkpointed->named_parameters().keys(), plain->named_parameters().keys());
  EXPECT_THAT(checkpointed->named_parameters().keys(), ElementsAre("fc.weight", "fc.bias"));
  EXPECT_THAT(checkpointed->named_buffers().keys(), ElementsAre("scale"));
  EXPECT_THAT(checkpointed->named_children().keys(), ElementsAre("fc", "dropout"));
}

TEST(CheckpointedModuleTest, C031_ArchivesLoadBothWays) {
  Block plain(4);
  Checkpointed<Block> checkpointed(CheckpointOptions{}, 4);
  const at::Tensor plain_weight = plain->fc->weight.detach().clone();
  const at::Tensor other_weight = checkpointed->fc->weight.detach().clone();
  ASSERT_FALSE(at::equal(plain_weight, other_weight));
  const std::string archive = archive_of(checkpointed);
  load_archive(checkpointed, archive_of(plain));
  EXPECT_TRUE(at::equal(checkpointed->fc->weight, plain_weight));
  load_archive(plain, archive);
  EXPECT_TRUE(at::equal(plain->fc->weight, other_weight));
}

TEST(CheckpointedModuleTest, C031_InnerAttributesAreItsOwn) {
  Checkpointed<torch::nn::Linear> fc({.name = "fc"}, torch::nn::LinearOptions(4, 3).bias(false));
  EXPECT_EQ(fc->weight.sizes(), at::IntArrayRef({3, 4}));
  EXPECT_FALSE(fc->options.bias());
  EXPECT_EQ(fc->as<torch::nn::Linear>(), static_cast<torch::nn::LinearImpl*>(fc.get()));
}

TEST(CheckpointedModuleTest, C122_PeakMemoryEqualsTheFunctionForm) {
  install_cpu_memory_counter();
  const auto peak_of = [](const std::function<at::Tensor(const at::Tensor&)>& forward) {
    const at::Tensor x = torch::rand({64, 64}).requires_grad_();
    const std::int64_t before = cpu_memory().current_bytes;
    reset_peak_cpu_memory();
    forward(x).sum().backward();
    return cpu_memory().peak_bytes - before;
  };
  Block plain(64);
  Checkpointed<Block> checkpointed(CheckpointOptions{}, plain);
  const auto through_function = [&](const at::Tensor& x) { return checkpoint(plain, x); };
  const auto through_module = [&](const at::Tensor& x) { return checkpointed(x); };
  peak_of(through_function);  // makes the gradients, which stay
  const std::int64_t expected = peak_of(through_function);
  EXPECT_GE(expected, 64 * 64 * 4);
  EXPECT_EQ(peak_of(through_module), expected);
}

TEST(CheckpointedModuleTest, GradientsHaveTheBitsOfThePlainRun) {
  Block plain(4);
  Checkpointed<Block> checkpointed(CheckpointOptions{}, plain);
  expect_same_bits(outcome_of(checkpointed), outcome_of(plain));
  EXPECT_EQ(checkpointed->runs, 2);
}

TEST(CheckpointedModuleTest, CopyOfAModuleSharesItsTensors) {
  Block existing(4);
  const Checkpointed<Block> checkpointed(CheckpointOptions{}, existing);
  EXPECT_TRUE(checkpointed->fc->weight.is_same(existing->fc->weight));
  EXPECT_TRUE(checkpointed->buffers()[0].is_same(existing->buffers()[0]));
  existing->to(at::kDouble);
  EXPECT_EQ(checkpointed->fc->weight.scalar_type(), at::kDouble);
}

TEST(CheckpointedModuleTest, TakesAModuleWithoutAHolder) {
  Block plain(4);
  Checkpointed<BlockImpl> checkpointed({}, *plain);
  static_assert(std::same_as<Checkpointed<BlockImpl>::Impl, Checkpointed<Block>::Impl>);
  EXPECT_TRUE(checkpointed->fc->weight.is_same(plain->fc->weight));
  const at::Tensor x = torch::randn({3, 4}, torch::requires_grad());
  checkpointed(x).sum().backward();
  EXPECT_EQ(checkpointed->runs, 2);
}

TEST(CheckpointedModuleTest, WithoutOptionsItRunsPlainly) {
  Checkpointed<Block> block(CheckpointOptions{}, 4);
  block->set_checkpoint_options(std::nullopt);
  EXPECT_EQ(block->checkpoint_options(), std::nullopt);
  block->forward(small_input()).sum().backward();
  EXPECT_EQ(block->runs, 1);
  block->set_checkpoint_options(CheckpointOptions{.name = "again"});
  EXPECT_EQ(block->checkpoint_options()->name, "again");
  block->forward(small_input()).sum().backward();
  EXPECT_EQ(block->runs, 3);
}

TEST(CheckpointedModuleTest, IsFoundFromItsBaseClass) {
  const Checkpointed<Block> block({.name = "block"}, 4);
  torch::nn::Module& module = *block.ptr();
  ASSERT_NE(module.as<CheckpointedModule>(), nullptr);
  EXPECT_EQ(module.as<CheckpointedModule>()->checkpoint_options()->name, "block");
}

TEST(CheckpointedModuleTest, IsAnElementOfASequential) {
  Block plain(4);
  torch::nn::Sequential expected(plain, torch::nn::Tanh());
  torch::nn::Sequential model(Checkpointed<Block>(CheckpointOptions{}, plain), torch::nn::Tanh());
  expect_same_bits(outcome_of(model), outcome_of(expected));
  EXPECT_EQ(model->at<CheckpointedImpl<BlockImpl>>(0).runs, 2);
  EXPECT_THAT(model->named_parameters().keys(), ElementsAre("0.fc.weight", "0.fc.bias"));
}

TEST(CheckpointedModuleTest, DefaultArgumentsWorkInASequential) {
  torch::nn::Sequential model(
      Checkpointed<torch::nn::LSTM>(CheckpointOptions{}, torch::nn::LSTMOptions(4, 3)));
  using Result = std::tuple<at::Tensor, std::tuple<at::Tensor, at::Tensor>>;
  const Result result = model->forward<Result>(torch::rand({2, 1, 4}));
  EXPECT_EQ(std::get<0>(result).sizes(), at::IntArrayRef({2, 1, 3}));
}

struct ConstForwardImpl : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x) const {
    ++*runs;
    return x.sin();
  }
  std::shared_ptr<int> runs = std::make_shared<int>(0);
};
TORCH_MODULE(ConstForward);

TEST(CheckpointedModuleTest, ConstForwardStaysConst) {
  const Checkpointed<ConstForward> module;
  module->forward(small_input()).sum().backward();
  EXPECT_EQ(*module->runs, 2);
}

struct AbstractImpl : torch::nn::Module {
  virtual at::Tensor forward(at::Tensor x) = 0;
};
struct SquareImpl : AbstractImpl {
  at::Tensor forward(at::Tensor x) override {
    ++runs;
    return x * x;
  }
  int runs = 0;
};
TORCH_MODULE(Square);

TEST(CheckpointedModuleTest, VirtualForwardIsARegionThroughItsBaseClass) {
  const Checkpointed<Square> square;
  AbstractImpl& base = *square.ptr();
  base.forward(small_input()).sum().backward();
  EXPECT_EQ(square->runs, 2);
}

TEST(CheckpointedModuleTest, SequentialTakesAndReturnsATensor) {
  Block block(4);
  torch::nn::Sequential plain(block, torch::nn::Tanh());
  Checkpointed<torch::nn::Sequential> copy(CheckpointOptions{}, plain);
  expect_same_bits(outcome_of(copy), outcome_of(plain));
  EXPECT_EQ(block->runs, 3);
  Checkpointed<torch::nn::Sequential> made({.name = "stage"}, block, torch::nn::Tanh());
  torch::nn::Sequential outer(made, torch::nn::Tanh());
  outer->forward(small_input()).sum().backward();
  EXPECT_EQ(block->runs, 5);
  EXPECT_THAT(outer->named_parameters().keys(), ElementsAre("0.0.fc.weight", "0.0.fc.bias"));
}

TEST(CheckpointedModuleTest, CloneIsAnIndependentModuleWithTheSameOptions) {
  Checkpointed<Block> block({.name = "block"}, 4);
  auto clone = std::dynamic_pointer_cast<CheckpointedImpl<BlockImpl>>(block->clone());
  ASSERT_NE(clone, nullptr);
  EXPECT_EQ(clone->checkpoint_options()->name, "block");
  EXPECT_FALSE(clone->fc->weight.is_same(block->fc->weight));
  EXPECT_THAT(clone->named_parameters().keys(), ElementsAre("fc.weight", "fc.bias"));
  expect_same_bits(outcome_of(clone), outcome_of(block));
  EXPECT_EQ(clone->runs, 2);
}

struct OwnerImpl : torch::nn::Cloneable<OwnerImpl> {
  OwnerImpl() { reset(); }
  void reset() override {
    block = register_module("block", Checkpointed<Block>({.name = "block"}, 4));
  }
  at::Tensor forward(const at::Tensor& x) { return block(x); }
  Checkpointed<Block> block{nullptr};
};
TORCH_MODULE(Owner);

TEST(CheckpointedModuleTest, CloneOfTheOwnerHasItsParameters) {
  Owner owner;
  auto clone = std::dynamic_pointer_cast<OwnerImpl>(owner->clone());
  ASSERT_NE(clone, nullptr);
  EXPECT_FALSE(clone->block->fc->weight.is_same(owner->block->fc->weight));
  expect_same_bits(outcome_of(clone), outcome_of(owner));
  EXPECT_EQ(clone->block->runs, 2);
}

TEST(CheckpointedModuleTest, TrainEvalAndToReachWhatIsInside) {
  Owner owner;
  owner->eval();
  EXPECT_FALSE(owner->block->dropout->is_training());
  EXPECT_TRUE(at::equal(owner->forward(small_input()), owner->forward(small_input())));
  owner->train();
  EXPECT_TRUE(owner->block->dropout->is_training());
  owner->to(at::kDouble);
  EXPECT_EQ(owner->block->fc->weight.scalar_type(), at::kDouble);
  EXPECT_EQ(owner->forward(small_input().to(at::kDouble)).scalar_type(), at::kDouble);
}

TEST(CheckpointedModuleTest, KeepsItsModuleAliveAsLongAsTheGraph) {
  Checkpointed<Block> block(CheckpointOptions{}, 4);
  const std::weak_ptr<CheckpointedImpl<BlockImpl>> watched = block.ptr();
  const at::Tensor weight = block->fc->weight;
  at::Tensor y = block(small_input());
  block = nullptr;
  y.sum().backward();
  EXPECT_TRUE(weight.grad().defined());
  y.reset();
  EXPECT_TRUE(watched.expired());
}

TEST(CheckpointedModuleTest, ThrowsForModuleThatNobodyShares) {
  CheckpointedImpl<BlockImpl> block(CheckpointOptions{}, 4);
  EXPECT_THAT([&] { block.forward(small_input()); },
              ThrowsMessage<CheckpointError>(
                  AllOf(HasSubstr("that no std::shared_ptr owns"), HasSubstr("BlockImpl"))));
}

struct NotCloneableImpl : torch::nn::Module {
  std::shared_ptr<torch::nn::Module> clone(
      const std::optional<torch::Device>& /*device*/) const override {
    return torch::nn::Tanh().ptr();
  }
  at::Tensor forward(const at::Tensor& x) { return x.tanh(); }
};
TORCH_MODULE(NotCloneable);

TEST(CheckpointedModuleTest, ThrowsForCloneOfAnotherType) {
  const Checkpointed<NotCloneable> module;
  EXPECT_THAT([&] { module->clone(); },
              ThrowsMessage<CheckpointError>(HasSubstr("received a torch::nn::TanhImpl from a")));
}

TEST(CheckpointedModuleTest, PrintsTheInnerModule) {
  std::ostringstream stream;
  stream << Checkpointed<torch::nn::Linear>(CheckpointOptions{}, 4, 3);
  EXPECT_EQ(stream.str(),
            "reprise::Checkpointed(torch::nn::Linear(in_features=4, out_features=3, bias=true))");
}

TEST(CheckpointedModuleTest, NullHolderIsEmpty) {
  const Checkpointed<Block> block{nullptr};
  EXPECT_TRUE(block.is_empty());
}

}  // namespace
}  // namespace reprise::checkpointed_module_test
