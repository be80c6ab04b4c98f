// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Random operators on a device in regions of each form, under policies; and the checks of what a
// replay computes there.
#include <ATen/CPUGeneratorImpl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "reprise/engine/checkpoint.h"
#include "reprise/engine/checkpoint_scope.h"
#include "reprise/engine/errors.h"
#include "reprise/policies/policies.h"
#include "tests/testing/bitwise.h"
#include "tests/testing/device/test_device.h"

namespace reprise::region_random_test {
namespace {

using testing::bitwise_equal;
using ::testing::HasSubstr;
using testing::test_device;

using Tensors = std::vector<at::Tensor>;
using Seeds = std::vector<std::uint64_t>;
using Code = std::function<at::Tensor(const at::Tensor&, const at::Tensor&, at::Generator)>;

// Draws with and without a generator, in place and not, into results and into saved tensors only.
at::Tensor noisy(const at::Tensor& x, const at::Tensor& w, at::Generator generator) {
  at::Tensor h = at::dropout(at::mm(x, w).sin(), 0.4, true);
  h = h * at::rand_like(h);
  h = h * at::empty_like(h).bernoulli_(0.5, generator);
  h = at::mm(h, w).tanh() + at::randn({24, 1}, generator, h.options());
  h = std::get<0>(at::native_dropout(h.exp(), 0.3, true));
  return h * at::empty_like(h).uniform_(0.5, 2.0, generator);
}

enum class Form { kPlain, kFunction, kTape, kScope };

at::Tensor run(Form form, CheckpointOptions options, const Code& code, const at::Tensor& x,
               const at::Tensor& w, const at::Generator& generator) {
  if (form == Form::kPlain) {
    return code(x, w, generator);
  }
  if (form == Form::kScope) {
    const CheckpointScope scope(std::move(options));
    return code(x, w, generator);
  }
  options.replay = form == Form::kTape ? ReplayMode::kTape : ReplayMode::kFunction;
  return checkpoint(std::move(options), code, x, w, generator);
}

// Bit i decides the i-th operator of the region.
PolicyHolder by_ordinal(std::uint64_t bits) {
  return [bits](const PolicyContext& context) {
    const auto bit = static_cast<std::uint64_t>(context.ordinal()) % 64;
    return (bits >> bit & 1U) != 0 ? CheckpointPolicy::PREFER_SAVE
                                   : CheckpointPolicy::PREFER_RECOMPUTE;
  };
}

struct Policies {
  const char* name;
  PolicyHolder policy;
};

std::vector<Policies> all_policies() {
  return {{"none", {}},
          {"nothing", policies::save_nothing()},
          {"everything", policies::save_everything()},
          {"everything offloaded", policies::offload(policies::save_everything())},
          {"matmuls", policies::save_matmuls()},
          {"random", policies::save_operators({"aten::bernoulli_.float", "aten::native_dropout"})},
          {"even", by_ordinal(0x5555555555555555U)},
          {"odd", by_ordinal(0xaaaaaaaaaaaaaaaaU)},
          {"pairs", by_ordinal(0x3333333333333333U)}};
}

enum class Kind { kWithOffset, kWithoutOffset };

at::Generator make_generator(Kind kind) {
  if (kind == Kind::kWithoutOffset) {
    return testing::generator_without_offset(0, 21);
  }
  at::Generator generator =
      at::globalContext().getAcceleratorHooksInterface(testing::kDeviceType).getNewGenerator(0);
  generator.set_current_seed(21);
  return generator;
}

struct Outcome {
  Tensors gradients;
  Tensors states;  // of the device's generator, the one that was passed, and the CPU's

  void note_states(const at::Generator& passed) {
    states.push_back(testing::default_generator(0).get_state());
    states.push_back(passed.get_state());
    states.push_back(at::detail::getDefaultCPUGenerator().get_state());
  }
  void note_gradients(const Tensors& found) {
    for (const at::Tensor& gradient : found) {
      gradients.push_back(gradient.cpu());
    }
  }
};

void expect_equal(const Outcome& found, const Outcome& expected) {
  ASSERT_EQ(found.gradients.size(), expected.gradients.size());
  for (std::size_t i = 0; i < expected.gradients.size(); ++i) {
    EXPECT_TRUE(bitwise_equal(found.gradients[i], expected.gradients[i])) << "gradient " << i;
  }
  ASSERT_EQ(found.states.size(), expected.states.size());
  for (std::size_t i = 0; i < expected.states.size(); ++i) {
    EXPECT_TRUE(bitwise_equal(found.states[i], expected.states[i])) << "generator state " << i;
  }
}

// A region, and a draw behind it; then two backwards, with draws in between.
Outcome train(Form form, const CheckpointOptions& options, Kind kind) {
  torch::manual_seed(3);
  const at::Tensor x = at::randn({24, 16}).to(test_device()).requires_grad_();
  const at::Tensor w = at::randn({16, 16}).to(test_device()).requires_grad_();
  const at::Generator generator = make_generator(kind);
  Outcome outcome;
  const at::Tensor y = run(form, options, noisy, x * 1, w, generator).sum();
  outcome.note_states(generator);
  at::rand({5}, generator, test_device());
  outcome.note_gradients(torch::autograd::grad({y}, {x, w}, {}, /*retain_graph=*/true));
  outcome.note_states(generator);
  at::rand({5}, test_device());
  outcome.note_gradients(torch::autograd::grad({y}, {x, w}));
  outcome.note_states(generator);
  return outcome;
}

TEST(DeviceRandomTest, RegionsDrawWhatForwardDrew) {
  for (const Kind kind : {Kind::kWithOffset, Kind::kWithoutOffset}) {
    const Outcome expected = train(Form::kPlain, {}, kind);
    EXPECT_FALSE(at::equal(expected.states[0], expected.states[6]));
    for (const Form form : {Form::kFunction, Form::kTape, Form::kScope}) {
      for (const auto& [name, policy] : all_policies()) {
        SCOPED_TRACE(c10::str("form ", static_cast<int>(form), ", policy ", name, ", kind ",
                              static_cast<int>(kind)));
        expect_equal(train(form, {.policy = policy}, kind), expected);
      }
    }
  }
}

// The gradient of dropout(dropout(x)), the inner one outside of the region.
at::Tensor gradient_of_two_dropouts(std::uint64_t seed, bool as_region) {
  torch::manual_seed(seed);
  const at::Tensor x = at::ones({20000}, test_device()).requires_grad_();
  const at::Tensor masked = at::dropout(x, 0.8, true);
  const auto code = [](const at::Tensor& t) { return at::dropout(t, 0.8, true); };
  (as_region ? checkpoint(code, masked) : code(masked)).sum().backward();
  return x.grad().cpu();
}

TEST(DeviceRandomTest, C097_DropoutMasksAreDrawnAgain) {
  for (std::uint64_t round = 0; round < 5; ++round) {
    const at::Tensor expected = gradient_of_two_dropouts(round, false);
    EXPECT_GT(expected.count_nonzero().item<std::int64_t>(), 0);
    EXPECT_TRUE(bitwise_equal(gradient_of_two_dropouts(round, true), expected));
  }
}

TEST(DeviceRandomTest, GeneratorsThatAreCapturedAreFound) {
  const auto gradient = [](const std::optional<CheckpointOptions>& options) {
    const at::Generator generator = make_generator(Kind::kWithOffset);
    const at::Tensor x = at::ones({50}, test_device()).requires_grad_();
    const auto code = [generator](const at::Tensor& t) {
      return t.sin() * at::rand({50}, generator, t.options());
    };
    const at::Tensor y = options ? checkpoint(*options, code, x) : code(x);
    at::rand({3}, generator, test_device());
    const at::Tensor found = torch::autograd::grad({y.sum()}, {x})[0].cpu();
    EXPECT_EQ(generator.get_offset(), 8U);
    return found;
  };
  const at::Tensor expected = gradient(std::nullopt);
  for (const auto check : {DeterminismCheck::kNone, DeterminismCheck::kMetadata}) {
    EXPECT_TRUE(bitwise_equal(gradient(CheckpointOptions{.determinism_check = check}), expected));
  }
}

// Adds its member to its argument, so that the result differs when the member changes.
at::Tensor shifted(const at::Tensor& x, const at::Tensor& by) { return (x.sin() + by).exp(); }

TEST(DeviceChecksTest, EqualValuesPass) {
  for (const Form form : {Form::kFunction, Form::kTape, Form::kScope}) {
    const CheckpointOptions options{.determinism_check = DeterminismCheck::kValues};
    expect_equal(train(form, options, Kind::kWithOffset),
                 train(Form::kPlain, {}, Kind::kWithOffset));
  }
}

TEST(DeviceChecksTest, OtherValuesAreReported) {
  for (const Form form : {Form::kFunction, Form::kTape, Form::kScope}) {
    for (const auto check : {DeterminismCheck::kMetadata, DeterminismCheck::kValues}) {
      const at::Tensor x = at::ones({64, 8}, test_device()).requires_grad_();
      const at::Tensor by = at::zeros({64, 8}, test_device());
      const at::Tensor y =
          run(form, {.name = "shifted", .determinism_check = check},
              [&by](const at::Tensor& t, auto&, auto&&) { return shifted(t, by); }, x, {}, {});
      by.data()[63][7].fill_(1e-6);  // which no version counts
      testing::wait_for_device(0);
      if (check == DeterminismCheck::kMetadata) {
        EXPECT_NO_THROW(y.sum().backward());
        continue;
      }
      try {
        y.sum().backward();
        FAIL() << "no error";
      } catch (const DeterminismError& error) {
        EXPECT_THAT(error.what_without_backtrace(), HasSubstr("region 'shifted'"));
        EXPECT_THAT(error.what_without_backtrace(), HasSubstr("slot 1 (result of ExpBackward0)"));
        EXPECT_THAT(error.what_without_backtrace(),
                    HasSubstr("same metadata (Float [64, 8] strides [8, 1] Strided on "
                              "testdevice:0, requires grad) but other values"));
        EXPECT_THAT(error.what_without_backtrace(), ::testing::Not(HasSubstr("slot 0")));
      }
    }
  }
}

// How often forward, and backward, ask for device memory.
struct Allocations {
  std::int64_t forward = 0;
  std::int64_t backward = 0;
};

Allocations count_allocations(Form form, DeterminismCheck check) {
  const at::Tensor x = at::ones({64, 8}, test_device()).requires_grad_();
  const at::Tensor by = at::ones({64, 8}, test_device());
  const at::Tensor ones = at::ones({64, 8}, test_device());
  const std::int64_t start = testing::device_allocations();
  const at::Tensor y =
      run(form, {.early_stop = false, .determinism_check = check},
          [&by](const at::Tensor& t, auto&, auto&&) { return shifted(t, by); }, x, {}, {});
  const std::int64_t middle = testing::device_allocations();
  torch::autograd::grad({y}, {x}, {ones});
  return {middle - start, testing::device_allocations() - middle};
}

TEST(DeviceChecksTest, MetadataAllocatesNothing) {
  constexpr std::int64_t kOperators = 3;
  const Allocations plain = count_allocations(Form::kPlain, DeterminismCheck::kMetadata);
  EXPECT_EQ(plain.forward, kOperators);
  for (const Form form : {Form::kFunction, Form::kTape, Form::kScope}) {
    for (const auto check : {DeterminismCheck::kNone, DeterminismCheck::kMetadata}) {
      const Allocations found = count_allocations(form, check);
      EXPECT_EQ(found.forward, kOperators);
      EXPECT_EQ(found.backward, plain.backward + kOperators);
    }
    const Allocations by_values = count_allocations(form, DeterminismCheck::kValues);
    EXPECT_GT(by_values.forward, kOperators);
    EXPECT_GT(by_values.backward, plain.backward + kOperators);
  }
}

}  // namespace
}  // namespace reprise::region_random_test
