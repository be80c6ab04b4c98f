// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Conformance rows 96 to 106: random numbers and devices.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "reprise/engine/checkpoint.h"
#include "reprise/engine/errors.h"
#include "tests/testing/bitwise.h"
#include "tests/testing/warning_log.h"

namespace reprise::rng_test {
namespace {

using ::testing::AllOf;
using testing::bitwise_equal;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;
using testing::WarningLog;

using TensorFunction = std::function<at::Tensor(const at::Tensor&)>;

constexpr const char* kNoCuda = "needs a CUDA device";

std::int64_t cuda_devices() {
  return at::hasCUDA() ? at::globalContext().getAcceleratorHooksInterface(at::kCUDA).deviceCount()
                       : 0;
}

at::Tensor plain(const TensorFunction& region, const at::Tensor& x) { return region(x); }

at::Tensor checkpointed(const TensorFunction& region, const at::Tensor& x) {
  return checkpoint(region, x);
}

using Runner = at::Tensor (*)(const TensorFunction&, const at::Tensor&);

// The gradient of dropout(dropout(x)), the inner one outside of the region.
at::Tensor input_gradient_of_two_dropouts(Runner run, std::uint64_t seed, at::Device device) {
  torch::manual_seed(seed);
  const auto x = at::ones({20000}, at::TensorOptions(device)).requires_grad_();
  const auto masked = torch::dropout(x, 0.8, true);
  const auto y = run([](const at::Tensor& t) { return torch::dropout(t, 0.8, true); }, masked);
  y.sum().backward();
  return x.grad();
}

TEST(CheckpointRngTest, C096_DropoutMasksOfTheCpuAreDrawnAgain) {
  for (std::uint64_t round = 0; round < 5; ++round) {
    const auto expected = input_gradient_of_two_dropouts(plain, round, at::kCPU);
    EXPECT_GT(expected.count_nonzero().item<std::int64_t>(), 0);
    EXPECT_TRUE(
        bitwise_equal(input_gradient_of_two_dropouts(checkpointed, round, at::kCPU), expected));
  }
}

TEST(CheckpointRngTest, C097_DropoutMasksOfAnAcceleratorAreDrawnAgain) {
  if (cuda_devices() == 0) {
    GTEST_SKIP() << kNoCuda;
  }
  for (std::uint64_t round = 0; round < 5; ++round) {
    const auto expected = input_gradient_of_two_dropouts(plain, round, at::kCUDA);
    EXPECT_TRUE(
        bitwise_equal(input_gradient_of_two_dropouts(checkpointed, round, at::kCUDA), expected));
  }
}

TEST(CheckpointRngTest, C098_WithoutPreservedStateDropoutRunsWithoutError) {
  const WarningLog warnings;  // that there is one is incumbent_test.cpp's matter
  const auto x = at::ones({64}).requires_grad_();
  const auto y = checkpoint(
      {.preserve_rng_state = false},
      [](const at::Tensor& t) { return torch::dropout(t, 0.5, true); }, x);
  y.sum().backward();
  EXPECT_EQ(x.grad().sizes(), x.sizes());
}

struct ScaleByNoise : torch::nn::Module {
  ScaleByNoise() { weight = register_parameter("weight", at::full({1000}, 2.0)); }
  at::Tensor forward(const at::Tensor& x) { return (x * weight).mul(at::randn({1000})); }
  at::Tensor weight;
};

at::Tensor weight_gradient(const std::function<at::Tensor(ScaleByNoise&, const at::Tensor&)>& run) {
  ScaleByNoise module;
  torch::manual_seed(42);
  const auto loss = run(module, at::ones({1000})).sum();
  torch::manual_seed(41);
  loss.backward();
  return module.weight.grad();
}

TEST(CheckpointRngTest, C099_AnotherSeedBeforeBackwardMattersOnlyWithoutPreservedState) {
  const WarningLog warnings;
  const auto expected = weight_gradient([](auto& module, auto& x) { return module.forward(x); });
  const auto run_with = [](bool preserve) {
    return weight_gradient([preserve](auto& module, auto& x) {
      return checkpoint({.preserve_rng_state = preserve}, &module, x);
    });
  };
  EXPECT_TRUE(bitwise_equal(run_with(true), expected));
  EXPECT_FALSE(at::equal(run_with(false), expected));
}

TEST(CheckpointRngTest, C100_NoiseMadeInsideAModuleIsMadeAgain) {
  const auto expected = weight_gradient([](auto& module, auto& x) { return module.forward(x); });
  const auto actual = weight_gradient([](auto& module, auto& x) { return checkpoint(&module, x); });
  EXPECT_TRUE(bitwise_equal(actual, expected));
}

struct NestedGenerators {
  std::map<std::string, std::vector<at::Generator>> named;
  std::tuple<int, at::Generator> pair;
};

// The gradient of a region that draws from generators at three depths of its arguments. They are
// moved between forward and backward.
at::Tensor gradient_with_generators(bool as_region) {
  const NestedGenerators nested{{{"foo", {at::detail::createCPUGenerator(1)}}},
                                {7, at::detail::createCPUGenerator(2)}};
  const auto alone = at::detail::createCPUGenerator(3);
  const auto region = [](const at::Tensor& t, const NestedGenerators& all, at::Generator last) {
    const auto draw = [&t](const at::Generator& from) { return at::rand(t.sizes(), from); };
    return t * draw(all.named.at("foo")[0]) * draw(std::get<1>(all.pair)) * draw(last);
  };
  const auto x = at::ones({100}).requires_grad_();
  const auto y = as_region ? checkpoint(region, x, nested, alone) : region(x, nested, alone);
  for (const auto& generator : {nested.named.at("foo")[0], std::get<1>(nested.pair), alone}) {
    at::rand({5}, generator);
  }
  y.sum().backward();
  return x.grad();
}

TEST(CheckpointRngTest, C101_GeneratorsAreFoundInNestedContainers) {
  EXPECT_TRUE(bitwise_equal(gradient_with_generators(true), gradient_with_generators(false)));
}

// Draws from a generator that no argument names.
struct CapturedGenerator {
  at::Generator generator = at::detail::createCPUGenerator(4);
  bool swallows = false;

  at::Tensor operator()(const at::Tensor& x) const {
    try {
      return x.exp() * at::rand({100}, generator);
    } catch (const CheckpointError&) {
      if (!swallows) {
        throw;
      }
      return x.exp() * at::ones({100});
    }
  }
};

at::Tensor gradient_with(const CheckpointOptions& options, const CapturedGenerator& code) {
  const at::Tensor x = at::ones({100}).requires_grad_();
  const at::Tensor y = checkpoint(options, code, x);
  at::rand({5}, code.generator);
  y.sum().backward();
  return x.grad();
}

TEST(CheckpointRngTest, GeneratorsThatAreNoArgumentsAreFoundWithEachCheck) {
  const at::Tensor x = at::ones({100}).requires_grad_();
  CapturedGenerator()(x).sum().backward();
  for (const DeterminismCheck check :
       {DeterminismCheck::kNone, DeterminismCheck::kMetadata, DeterminismCheck::kValues}) {
    EXPECT_TRUE(
        bitwise_equal(gradient_with({.determinism_check = check}, CapturedGenerator()), x.grad()));
  }
}

TEST(CheckpointRngTest, GeneratorsThatAreNoArgumentsAreAnErrorIfOperatorsAreNotWatched) {
  for (const bool swallows : {false, true}) {
    EXPECT_THAT(
        [&] {
          gradient_with({.name = "noise", .watch_operators = false},
                        CapturedGenerator{.swallows = swallows});
        },
        ThrowsMessage<CheckpointError>(
            AllOf(HasSubstr("region 'noise': aten::rand.generator draws from a generator of cpu"),
                  HasSubstr("watch_operators is off"))));
  }
  const CapturedGenerator code;
  const auto as_argument = [](const at::Tensor& t, const at::Generator& generator) {
    return CapturedGenerator{.generator = generator}(t);
  };
  const at::Tensor x = at::ones({100}).requires_grad_();
  EXPECT_NO_THROW(
      checkpoint({.watch_operators = false}, as_argument, x, code.generator).sum().backward());
  EXPECT_NO_THROW(gradient_with({.preserve_rng_state = false, .watch_operators = false}, code));
}

at::Tensor gradient_on_two_devices(bool as_region) {
  torch::manual_seed(5);
  const auto x0 = at::ones({100}, at::Device(at::kCUDA, 0)).requires_grad_();
  const std::map<std::string, std::vector<at::Tensor>> inputs{
      {"foo", {x0}}, {"bar", {at::ones({100}, at::Device(at::kCUDA, 1))}}};
  const auto region = [](const std::map<std::string, std::vector<at::Tensor>>& in) {
    const auto here = torch::dropout(in.at("foo")[0], 0.5, true);
    const auto there = torch::dropout(in.at("bar")[0], 0.5, true);
    return here * there.to(here.device());
  };
  const auto y = as_region ? checkpoint(region, inputs) : region(inputs);
  torch::manual_seed(6);
  y.sum().backward();
  return x0.grad();
}

TEST(CheckpointRngTest, C101_DevicesAreFoundInNestedContainers) {
  if (cuda_devices() < 2) {
    GTEST_SKIP() << "needs two CUDA devices";
  }
  EXPECT_TRUE(bitwise_equal(gradient_on_two_devices(true), gradient_on_two_devices(false)));
}

TEST(CheckpointRngTest, C102_NestedMetaTensorsNeedNoGenerator) {
  const WarningLog warnings;
  const auto x = at::empty({3, 4}, at::TensorOptions(at::kMeta)).requires_grad_();
  const std::map<std::string, std::vector<at::Tensor>> inputs{{"foo", {x}}};
  const auto y = checkpoint(
      [](const std::map<std::string, std::vector<at::Tensor>>& in) {
        return in.at("foo")[0].sin();
      },
      inputs);
  const auto gradient = torch::autograd::grad({y.sum()}, {x})[0];
  EXPECT_TRUE(gradient.is_meta());
  EXPECT_EQ(gradient.sizes(), x.sizes());
  EXPECT_THAT(warnings.messages(), IsEmpty());
}

TEST(CheckpointRngTest, RandomOperatorsOnMetaTensorsDrawNothing) {
  const auto x = at::empty({3, 4}, at::TensorOptions(at::kMeta)).requires_grad_();
  const auto state = at::detail::getDefaultCPUGenerator().get_state();
  const auto y =
      checkpoint([](const at::Tensor& t) { return torch::dropout(t, 0.5, true).exp(); }, x);
  const auto gradient = torch::autograd::grad({y.sum()}, {x})[0];
  EXPECT_EQ(gradient.sizes(), x.sizes());
  EXPECT_TRUE(bitwise_equal(at::detail::getDefaultCPUGenerator().get_state(), state));
}

at::Tensor gradient_beside_meta(bool as_region, at::Device device) {
  torch::manual_seed(3);
  const auto x = at::ones({100}, at::TensorOptions(device)).requires_grad_();
  const auto shape_only = at::empty({100}, at::TensorOptions(at::kMeta));
  const auto region = [](const at::Tensor& t, const at::Tensor& meta) {
    return torch::dropout(t, 0.5, true) * static_cast<double>(meta.numel());
  };
  const auto y = as_region ? checkpoint(region, x, shape_only) : region(x, shape_only);
  y.sum().backward();
  return x.grad();
}

TEST(CheckpointRngTest, C103_SeveralDeviceTypesAreAllRecordedWithoutAWarning) {
  const WarningLog warnings;
  EXPECT_TRUE(
      bitwise_equal(gradient_beside_meta(true, at::kCPU), gradient_beside_meta(false, at::kCPU)));
  if (cuda_devices() > 0) {
    EXPECT_TRUE(bitwise_equal(gradient_beside_meta(true, at::kCUDA),
                              gradient_beside_meta(false, at::kCUDA)));
  }
  EXPECT_THAT(warnings.messages(), IsEmpty());
}

TEST(CheckpointRngTest, C105_DeviceFirstUsedInsideTheRegionIsRecordedToo) {
  if (cuda_devices() == 0) {
    GTEST_SKIP() << kNoCuda;
  }
  if (at::globalContext().getAcceleratorHooksInterface(at::kCUDA).hasPrimaryContext(0)) {
    GTEST_SKIP() << "the CUDA device is in use already; run this test in a process of its own";
  }
  torch::manual_seed(11);
  const auto x = at::ones({100}).requires_grad_();
  at::Tensor mask;
  const auto y = checkpoint(
      [&mask](const at::Tensor& t) {
        const auto noise = at::rand({100}, at::TensorOptions(at::kCUDA)).to(at::kCPU);
        if (!is_recomputing()) {
          mask = noise;
        }
        return t * noise;
      },
      x);
  y.sum().backward();
  EXPECT_TRUE(bitwise_equal(x.grad(), mask));
}

}  // namespace
}  // namespace reprise::rng_test
