// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// CheckpointScope: what it keeps and runs again, and what only a guard can meet. That results are
// right is tested together with the function form (under_policies.h, conformance/).
#include "reprise/engine/checkpoint_scope.h"

#include "reprise/engine/cpu_memory.h"
#include "reprise/engine/value_annotations.h"
#include "reprise/policies/policies.h"
#include "tests/conformance/conformance_fixture.h"
#include "tests/testing/kernel_counter.h"

namespace reprise::testing::checkpoint_scope_test {
namespace {

class CheckpointScopeTest : public ConformanceTest {
 protected:
  struct Backward {
    Tensors gradients;
    std::int64_t peak_bytes;  // beyond the bytes that forward has left
  };

  template <class Code>
  Backward backward_of(ReplayMode replay, const Code& code, const Tensors& leaves) {
    const at::Tensor y = checkpoint({.replay = replay}, code);
    const at::Tensor seed = at::ones_like(y);
    reset_peak_cpu_memory();
    const std::int64_t before = cpu_memory().current_bytes;
    const Tensors gradients = torch::autograd::grad({watch(y)}, leaves, {seed});
    return {gradients, cpu_memory().peak_bytes - before};
  }
};

TEST_F(CheckpointScopeTest, GradientsAreThoseOfAPlainRun) {
  const at::Tensor x = leaf({4, 8});
  const at::Tensor w = leaf({8, 8});
  const auto code = [&] { return at::relu(at::sin(x).mm(w)).exp().sum(); };
  const auto expected = torch::autograd::grad({code()}, {x, w});
  at::Tensor y;
  {
    CheckpointScope scope({.name = "block"});
    y = code();
  }
  expect_same_bits(torch::autograd::grad({watch(y)}, {x, w}), expected);
}

TEST_F(CheckpointScopeTest, KeepsItsInputsAndNothingElse) {
  const at::Tensor x = leaf({64, 64});
  const at::Tensor h = x * 2;
  const std::int64_t before = live_cpu_bytes();
  at::Tensor y;
  {
    CheckpointScope scope;
    y = at::sin(at::cos(at::exp(h))).sum();
  }
  EXPECT_EQ(live_cpu_bytes() - before, 4);  // y
  torch::autograd::grad({watch(y)}, {x});
}

TEST_F(CheckpointScopeTest, InputOutlivesItsOwner) {
  const at::Tensor x = leaf({64, 64});
  const auto code = [&](at::Tensor h) { return at::exp(at::sin(h)).sum(); };
  const auto expected = torch::autograd::grad({code(x * 2)}, {x});
  at::Tensor h = x * 2;
  {
    CheckpointScope scope;
    h = code(h);
  }
  expect_same_bits(torch::autograd::grad({watch(h)}, {x}), expected);
}

TEST_F(CheckpointScopeTest, RunsOnlyWhatTheAskedSlotDependsOn) {
  const at::Tensor x = leaf({4});
  at::Tensor left;
  at::Tensor right;
  {
    CheckpointScope scope;
    left = at::sin(at::exp(x)).sum();
    right = at::cos(at::tan(x)).sum();
  }
  KernelCounter counter;
  torch::autograd::grad({watch(left)}, {x});
  EXPECT_EQ(counter.count("aten::exp"), 1U);
  EXPECT_EQ(counter.count("aten::tan"), 0U);
  torch::autograd::grad({watch(right)}, {x});
  EXPECT_EQ(counter.count("aten::exp"), 1U);
  EXPECT_EQ(counter.count("aten::tan"), 1U);
}

TEST_F(CheckpointScopeTest, EachOperatorRunsOnceASession) {
  const at::Tensor x = leaf({4});
  at::Tensor y;
  {
    CheckpointScope scope;
    at::Tensor h = at::exp(x);
    h = at::atan2(at::sin(h), at::cos(h));
    y = (at::sin(h) * at::cos(h)).sum();
  }
  KernelCounter counter;
  torch::autograd::grad({watch(y)}, {x});
  EXPECT_EQ(counter.count("aten::exp"), 1U);
  EXPECT_EQ(counter.count("aten::atan2"), 1U);
}

// See Note [Deferred recomputation].
TEST_F(CheckpointScopeTest, DefersResultsThatAreCheapFromOtherSlots) {
  constexpr std::int64_t kWidth = 512;
  constexpr std::int64_t kMatrix = kWidth * kWidth * 4;
  const at::Tensor x = leaf({kWidth, kWidth});
  const at::Tensor w = leaf({kWidth, kWidth});
  const at::Tensor wide = leaf({kWidth, 4 * kWidth});
  const auto code = [&] {
    const at::Tensor weights = x.mm(w).softmax(1);
    return at::sigmoid(weights).mm(w).mm(wide).tanh();  // whose backward needs most memory
  };
  const auto [expected, function_bytes] = backward_of(ReplayMode::kFunction, code, {x, w, wide});
  KernelCounter counter;
  const auto [found, tape_bytes] = backward_of(ReplayMode::kTape, code, {x, w, wide});
  expect_same_bits(found, expected);
  EXPECT_EQ(counter.count("aten::sigmoid"), 1U + 2U);
  EXPECT_EQ(counter.count("aten::_softmax"), 1U + 1U);
  EXPECT_EQ(function_bytes - tape_bytes, kMatrix);
}

TEST_F(CheckpointScopeTest, DefersResultsOfBatchNormAndInPlaceWrite) {
  constexpr std::int64_t kImages = std::int64_t{8} * 16 * 32 * 32 * 4;
  const at::Tensor x = leaf({8, 16, 32, 32});
  const at::Tensor w = leaf({16, 16, 3, 3});
  const at::Tensor mean = at::zeros({16});
  const at::Tensor variance = at::ones({16});
  const auto layer = [&](const at::Tensor& in) {
    const at::Tensor out = at::conv2d(in, w, {}, 1, 1);
    return at::batch_norm(out, {}, {}, mean, variance, true, 0.1, 1e-5, false).relu_();
  };
  const auto code = [&] {
    const at::Tensor h = layer(layer(x));
    return at::cat({h, h, h, h}, 1).exp();  // whose backward needs most memory
  };
  const auto [expected, function_bytes] = backward_of(ReplayMode::kFunction, code, {x, w});
  KernelCounter counter;
  const auto [found, tape_bytes] = backward_of(ReplayMode::kTape, code, {x, w});
  expect_same_bits(found, expected);
  EXPECT_EQ(counter.count("aten::native_batch_norm"), 2U + 4U);
  EXPECT_EQ(function_bytes - tape_bytes, 2 * kImages);
}

TEST_F(CheckpointScopeTest, WriteThroughAViewAfterTheSaveChangesNoSlot) {
  const at::Tensor x = leaf({4, 4});
  const auto gradient = [&](bool in_scope) {
    std::optional<CheckpointScope> scope;
    if (in_scope) {
      scope.emplace();
    }
    const at::Tensor h = at::exp(x);
    const at::Tensor copy = h.detach().clone();
    at::Tensor y = h * copy;  // saves both
    if (in_scope) {
      copy.narrow(0, 1, 2).mul_(3);  // without the scope, autograd would object
    }
    y = y.sum();
    scope.reset();
    return torch::autograd::grad({watch(y)}, {x});
  };
  expect_same_bits(gradient(true), gradient(false));
}

TEST_F(CheckpointScopeTest, WritesToTensorsFromOutsideHappenOnce) {
  const at::Tensor x = leaf({4});
  const at::Tensor count = at::zeros({4});
  at::Tensor y;
  {
    CheckpointScope scope;
    count.add_(1);
    y = (at::exp(x) * count).sum();
  }
  const auto gradients = torch::autograd::grad({watch(y)}, {x});
  expect_same_bits({count}, {at::ones({4})});
  expect_same_bits(gradients, {at::exp(x).detach()});
}

TEST_F(CheckpointScopeTest, KeepsValuesReadBeforeAWrite) {
  const at::Tensor x = leaf({4});
  const at::Tensor scale = at::full({4}, 2.0);
  at::Tensor y;
  {
    CheckpointScope scope;
    y = (at::exp(x) * scale).sum();  // saves scale
    scale.add_(1);
  }
  const auto gradients = torch::autograd::grad({watch(y)}, {x});
  expect_same_bits(gradients, {at::exp(x).detach() * 2});
}

TEST_F(CheckpointScopeTest, NamesReaderOfInputThatIsChangedLaterInError) {
  const at::Tensor x = leaf({4});
  const at::Tensor scale = at::full({4}, 2.0);
  at::Tensor y;
  {
    CheckpointScope scope({.name = "scaled"});
    y = at::sin(at::exp(x) * scale).sum();
  }
  scale.add_(1);
  try {
    torch::autograd::grad({watch(y)}, {x});
    FAIL();
  } catch (const MutationError& error) {
    EXPECT_THAT(error.what_without_backtrace(),
                ::testing::HasSubstr("[checkpoint] region 'scaled': operator 1, aten::mul.Tensor "
                                     "reads a tensor from outside the region, Float [4]"));
  }
}

void fill_through_pointer(const at::Tensor& table) {
  for (int i = 0; i < table.numel(); ++i) {
    table.mutable_data_ptr<float>()[i] = static_cast<float>(i);
  }
}

TEST_F(CheckpointScopeTest, KeepsMemoryFilledThroughAPointer) {
  const at::Tensor x = leaf({4});
  const std::vector<std::function<at::Tensor()>> tables = {
      [] { return at::empty({4}); }, [] { return at::zeros({4}); }, [] { return at::ones({4}); }};
  for (const auto& make : tables) {
    for (const bool is_scaled : {false, true}) {
      const auto code = [&] {
        const at::Tensor table = make();
        fill_through_pointer(table);
        if (is_scaled) {
          table.mul_(2);
        }
        return at::sin(at::exp(x) * table).sum();
      };
      const auto expected = torch::autograd::grad({code()}, {x});
      at::Tensor y;
      {
        const CheckpointScope scope;
        y = code();
      }
      expect_same_bits(torch::autograd::grad({watch(y)}, {x}), expected);
    }
  }
}

TEST_F(CheckpointScopeTest, KeepsNoMemoryThatOperatorsFilled) {
  const at::Tensor x = leaf({64, 64});
  const std::int64_t before = live_cpu_bytes();
  at::Tensor y;
  {
    const CheckpointScope scope;
    const at::Tensor rows = at::empty({64, 64});
    for (int i = 0; i < 64; ++i) {
      rows[i].fill_(i);
    }
    y = (at::exp(x) * rows * at::zeros({64, 64}).add_(2) * at::ones({64, 64})).sum();
  }
  EXPECT_EQ(live_cpu_bytes() - before, 4);
  const auto expected = torch::autograd::grad(
      {(at::exp(x) * at::arange(64, at::kFloat).unsqueeze(1) * 2).sum()}, {x});
  expect_same_bits(torch::autograd::grad({watch(y)}, {x}), expected);
}

TEST_F(CheckpointScopeTest, EndsAtAnException) {
  const at::Tensor x = leaf({4});
  at::Tensor kept;
  const auto code = [&] {
    CheckpointScope scope;
    kept = at::sin(at::exp(x)).sum();
    throw std::runtime_error("early");
  };
  EXPECT_THAT([&] { code(); },
              ::testing::ThrowsMessage<std::runtime_error>(::testing::HasSubstr("early")));
  const auto expected = torch::autograd::grad({at::sin(at::exp(x)).sum()}, {x});
  expect_same_bits(torch::autograd::grad({watch(kept)}, {x}), expected);
}

TEST_F(CheckpointScopeTest, CloseEndsItEarly) {
  const at::Tensor x = leaf({64, 64});
  CheckpointScope scope;
  const at::Tensor h = at::exp(at::sin(x));
  std::move(scope).close();
  const std::int64_t before = live_cpu_bytes();
  const at::Tensor y = at::exp(h);  // saves its result
  EXPECT_EQ(live_cpu_bytes() - before, 64 * 64 * 4);
  torch::autograd::grad({watch(y.sum())}, {x});
}

TEST_F(CheckpointScopeTest, ScopesNestAndTheInnerOnesInputsAreRebuilt) {
  const at::Tensor x = leaf({64, 64});
  const auto inner = [](at::Tensor h) { return at::sin(at::exp(h)); };
  const auto expected = torch::autograd::grad({inner(inner(at::cos(x))).sum()}, {x});
  const std::int64_t before = live_cpu_bytes();
  at::Tensor y;
  {
    CheckpointScope outer;
    at::Tensor h = at::cos(x);
    for (int i = 0; i < 2; ++i) {
      CheckpointScope scope;
      h = inner(h);
    }
    y = h.sum();
  }
  EXPECT_EQ(live_cpu_bytes() - before, 4);
  expect_same_bits(torch::autograd::grad({watch(y)}, {x}), expected);
}

TEST_F(CheckpointScopeTest, SaveKeepsAValueWithoutAPolicy) {
  const at::Tensor x = leaf({64, 64});
  const std::int64_t before = live_cpu_bytes();
  at::Tensor y;
  {
    const CheckpointScope scope;
    y = at::sin(must_save(at::exp(x))).sum();
  }
  EXPECT_EQ(live_cpu_bytes() - before, 64 * 64 * 4 + 4);  // exp(x), and y
  KernelCounter counter;
  torch::autograd::grad({watch(y)}, {x});
  EXPECT_EQ(counter.count("aten::exp"), 0U);
}

TEST_F(CheckpointScopeTest, RunsAFunctionWithATapeOnceAndReleasesIt) {
  const at::Tensor x = leaf({4});
  int runs = 0;
  at::Tensor y;
  {
    const auto code = std::make_unique<std::function<at::Tensor(at::Tensor)>>([&](at::Tensor h) {
      ++runs;
      return at::sin(at::exp(h)).sum();
    });
    y = checkpoint({.replay = ReplayMode::kTape}, *code, x);
  }
  const auto expected = torch::autograd::grad({at::sin(at::exp(x)).sum()}, {x});
  expect_same_bits(torch::autograd::grad({watch(y)}, {x}), expected);
  EXPECT_EQ(runs, 1);
}

// A layer's product is looked at through a view that is none by its schema, then the bias is added.
TEST_F(CheckpointScopeTest, FollowsWritesThroughViewsOfKeptResults) {
  const at::Tensor x = leaf({2, 3, 8});
  const at::Tensor w = leaf({8, 8});
  const std::int64_t before = live_cpu_bytes();
  at::Tensor y;
  {
    const CheckpointScope scope({.policy = policies::save_matmuls()});
    y = at::_unsafe_view(x.reshape({6, 8}).mm(w), {2, 3, 8}).add_(1).exp().sum();
  }
  EXPECT_EQ(live_cpu_bytes() - before, x.numel() * 4 + 4);
  KernelCounter counter;
  torch::autograd::grad({watch(y)}, {x});
  EXPECT_EQ(counter.count("aten::mm"), 1U);  // that of backward
  EXPECT_EQ(counter.count("aten::add_"), 0U);
}

// Not only when the whole region is through.
TEST_F(CheckpointScopeTest, ReleasesKeptResultsWithTheirLastSlot) {
  constexpr std::int64_t kMatrix = 64 * 64 * 4;
  const at::Tensor x = leaf({64, 64});
  at::Tensor first;
  at::Tensor second;
  const std::int64_t before = live_cpu_bytes();
  {
    const CheckpointScope scope({.policy = policies::save_matmuls()});
    first = x.mm(x).sin().sum();
    second = (x * 2).mm(x).cos().sum();
  }
  EXPECT_EQ(live_cpu_bytes() - before, 2 * kMatrix + 2 * 4);
  torch::autograd::grad({watch(first)}, {x});
  EXPECT_EQ(live_cpu_bytes() - before, kMatrix + 2 * 4);
  torch::autograd::grad({watch(second)}, {x}, {}, /*retain_graph=*/true);
  EXPECT_EQ(live_cpu_bytes() - before, kMatrix + 2 * 4);
  torch::autograd::grad({second}, {x});
  EXPECT_EQ(live_cpu_bytes() - before, 2 * 4);
}

// Though a replay could need more, if it were changed in place.
TEST_F(CheckpointScopeTest, HoldsNoInputsOfKeptResults) {
  const at::Tensor x = leaf({64, 64});
  std::vector<std::int64_t> bytes;
  for (const bool allow_mutation : {false, true}) {
    at::Tensor y;
    {
      const CheckpointScope scope({.policy = policies::save_operators({"aten::sin"}),
                                   .allow_cache_entry_mutation = allow_mutation});
      const at::Tensor h = at::tan(x);
      h.register_hook([&](const at::Tensor&) { bytes.push_back(live_cpu_bytes()); });
      y = at::cos(at::sin(at::exp(h))).sum();
    }
    torch::autograd::grad({watch(y)}, {x});
  }
  EXPECT_EQ(bytes.at(1), bytes.at(0));
}

TEST_F(CheckpointScopeTest, StatisticsOfABatchNormAreNotCopied) {
  const at::Tensor x = leaf({2, 256, 2, 2});
  const at::Tensor mean = at::zeros({256});
  const at::Tensor variance = at::ones({256});
  const std::int64_t before = live_cpu_bytes();
  at::Tensor y;
  {
    const CheckpointScope scope;
    y = at::batch_norm(x, {}, {}, mean, variance, true, 0.1, 1e-5, false).exp().sum();
  }
  EXPECT_EQ(live_cpu_bytes() - before, 4);
  torch::autograd::grad({watch(y)}, {x});
}

struct Double : torch::autograd::Function<Double> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& in) {
    context->save_for_backward({in});
    return in * 2;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    return {gradients[0] * 2 + context->get_saved_variables()[0] * 0};
  }
};

// The enclosing region gives it to one node after the other.
TEST_F(CheckpointScopeTest, InputThatSeveralNodesReadIsRebuiltForEach) {
  const at::Tensor x = leaf({4});
  const auto code = [](const at::Tensor& in) {
    const at::Tensor h = at::exp(in);
    const CheckpointScope scope;
    return at::cos(h) + Double::apply(h);
  };
  const auto expected = torch::autograd::grad({code(x).sum()}, {x});
  expect_same_bits(torch::autograd::grad({watch(checkpoint(code, x).sum())}, {x}), expected);
}

// The scope's end saves the last tensor of the region around it. An exception there would have
// Clang leave the returned value behind.
TEST_F(CheckpointScopeTest, TheEndOfAScopeThrowsNoEarlyStop) {
  const at::Tensor x = leaf({4});
  int ends = 0;
  const auto code = [&ends](const at::Tensor& in) {
    const at::Tensor h = at::exp(in);
    at::Tensor y;
    {
      const CheckpointScope scope;
      y = at::cos(h);
    }
    ++ends;
    return y;
  };
  const auto expected = torch::autograd::grad({code(x).sum()}, {x});
  expect_same_bits(torch::autograd::grad({watch(checkpoint(code, x).sum())}, {x}), expected);
  EXPECT_EQ(ends, 3) << "plain, forward, recomputation";
}

TEST_F(CheckpointScopeTest, WithoutGradModeNothingIsRecorded) {
  const at::Tensor x = leaf({4});
  const at::NoGradGuard no_grad;
  const CheckpointScope scope;
  expect_same_bits({at::sin(x)}, {at::sin(x)});
  EXPECT_EQ(live_frames(), 0);
}

TEST_F(CheckpointScopeTest, BackwardInsideIsPossible) {
  const at::Tensor x = leaf({4});
  const auto code = [&] {
    const at::Tensor h = at::exp(at::sin(x));
    const at::Tensor slope =
        torch::autograd::grad({h.sum()}, {x}, {}, /*retain_graph=*/true, /*create_graph=*/true)[0];
    return (at::sin(h) * slope).sum();
  };
  const auto expected = torch::autograd::grad({code()}, {x});
  at::Tensor y;
  {
    CheckpointScope scope;
    y = code();
  }
  expect_same_bits(torch::autograd::grad({watch(y)}, {x}), expected);
}

}  // namespace
}  // namespace reprise::testing::checkpoint_scope_test
