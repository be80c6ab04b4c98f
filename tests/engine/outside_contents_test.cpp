// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Tapes read what forward read: contents that change without a version, data() that is assigned
// anew, memory of others, and tensors without memory.
#include <ATen/ops/_efficientzerotensor.h>

#include <functional>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "reprise/engine/checkpoint_scope.h"
#include "reprise/engine/errors.h"
#include "reprise/hooks/saved_tensor_hooks.h"
#include "tests/conformance/conformance_fixture.h"
#include "tests/testing/wrapper_tensor.h"

namespace reprise::testing::outside_contents_test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using Code = std::function<at::Tensor(const at::Tensor&)>;

class OutsideContentsTest : public ConformanceTest {
 protected:
  static Tensors outcome_of(const Code& run, const at::Tensor& x) {
    const at::Tensor in = x.detach().requires_grad_();
    torch::manual_seed(3);
    const at::Tensor y = run(in);
    return {y.detach(), torch::autograd::grad({y.sum()}, {in})[0]};
  }

  // In a tape, a scope, a function inside a scope, and a tape inside a function.
  static void expect_as_plain(const Code& code) {
    const at::Tensor x = at::randn({6, 8});
    const CheckpointOptions tape{.replay = ReplayMode::kTape};
    const auto in_scope = [](const Code& inside) {
      return [inside](const at::Tensor& t) {
        const CheckpointScope scope;
        return inside(t);
      };
    };
    const auto in_function = [](const Code& inside) {
      return [inside](const at::Tensor& t) { return checkpoint(inside, t); };
    };
    const Tensors expected = outcome_of(code, x);
    const std::vector<std::pair<const char*, Code>> forms = {
        {"tape", [&](const at::Tensor& t) { return checkpoint(tape, code, t); }},
        {"scope", in_scope(code)},
        {"function in a scope", in_scope(in_function(code))},
        {"tape in a function",
         in_function([&](const at::Tensor& t) { return checkpoint(tape, code, t); })}};
    for (const auto& [name, form] : forms) {
      SCOPED_TRACE(name);
      expect_same_bits(outcome_of(form, x), expected);
    }
  }
};

TEST_F(OutsideContentsTest, AnyByteThatAPointerHasChangedIsAnError) {
  std::mt19937 random(7);
  for (int round = 0; round < 60; ++round) {
    const at::Tensor x = leaf({1000});
    const at::Tensor buffer = at::rand({1000});
    const auto code = [&](const at::Tensor& t) { return (t * (buffer + 1)).sin().exp(); };
    const CheckpointOptions options{.replay =
                                        round % 2 == 0 ? ReplayMode::kTape : ReplayMode::kFunction};
    const at::Tensor y = checkpoint(options, code, x);
    auto* const bytes = static_cast<unsigned char*>(buffer.data_ptr());
    bytes[random() % buffer.nbytes()] ^= 1;
    EXPECT_THROW(y.sum().backward(), MutationError);
  }
}

TEST_F(OutsideContentsTest, AnyByteOfAnArgumentThatAPointerHasChangedIsAnError) {
  std::mt19937 random(7);
  const std::vector<CheckpointOptions> all = {
      {.replay = ReplayMode::kTape},
      {},
      {.early_stop = false},
      {.policy = [](const PolicyContext&) { return CheckpointPolicy::PREFER_RECOMPUTE; }}};
  for (int round = 0; round < 60; ++round) {
    SCOPED_TRACE(round);
    const at::Tensor x = leaf({1000});
    const at::Tensor buffer = at::rand({1000});
    const auto code = [](const at::Tensor& t, const at::Tensor& b) {
      return (t * (b + 1)).sin().exp();
    };
    const at::Tensor y = checkpoint(all[round % all.size()], code, x, buffer);
    auto* const bytes = static_cast<unsigned char*>(buffer.data_ptr());
    bytes[random() % buffer.nbytes()] ^= 1;
    EXPECT_THROW(y.sum().backward(), MutationError);
  }
}

// A workspace, which the code fills again in each run; and a part of memory whose rest changes.
TEST_F(OutsideContentsTest, AnArgumentThatTheCodeFillsThroughAPointerIsAsInPlain) {
  const at::Tensor workspace = at::zeros({6, 8}), parts = at::rand({2, 6, 8});
  const auto code = [](const at::Tensor& t, const at::Tensor& filled, const at::Tensor& part) {
    std::fill_n(filled.mutable_data_ptr<float>(), filled.numel(), 3.0F);
    const at::Tensor y = (t * filled.clone()).sin() * (part + 1);
    std::fill_n(filled.mutable_data_ptr<float>(), filled.numel(), 4.0F);
    return y * filled.clone();
  };
  const auto run = [&](const Code& form) {
    return outcome_of(
        [&](const at::Tensor& t) {
          const at::Tensor y = form(t);
          parts.mutable_data_ptr<float>()[70] += 1;
          return y;
        },
        at::linspace(-1, 1, 48).view({6, 8}));
  };
  const Tensors expected = run([&](const at::Tensor& t) { return code(t, workspace, parts[0]); });
  for (const bool early_stop : {true, false}) {
    const CheckpointOptions options{.early_stop = early_stop};
    expect_same_bits(
        run([&](const at::Tensor& t) { return checkpoint(options, code, t, workspace, parts[0]); }),
        expected);
  }
}

// The parts of wrappers are others in a recomputation, but memory that is the same is compared.
TEST_F(OutsideContentsTest, MemoryThatAnAliasHasChangedBesideWrappersIsAnError) {
  at::Tensor state = at::randn({8});
  const auto code = [&state](const at::Tensor& x) {
    return (from_wrapper(to_wrapper(x, /*has_storage=*/true).sin()) + state).sin();
  };
  const at::Tensor x = at::randn({6, 8}).requires_grad_();
  const at::Tensor y = checkpoint(code, x);
  state.variable_data().fill_(0.25);
  EXPECT_THAT([&] { y.sum().backward(); },
              ThrowsMessage<CheckpointError>(HasSubstr("written through a pointer, or an alias")));
}

TEST_F(OutsideContentsTest, ReadTwiceInForwardAreTwoContents) {
  const at::Tensor buffer = at::rand({1000});
  std::size_t place = 0;
  const auto code = [&](const at::Tensor& x) {
    const at::Tensor first = (x * (buffer + 1).slice(0, 0, 8)).sin();
    static_cast<unsigned char*>(buffer.data_ptr())[place] ^= 1;
    return (first * (buffer + 1).slice(0, 0, 8)).exp();
  };
  for (place = 2; place < 4000; place += 371) {
    const at::Tensor x = leaf({8});
    std::optional<CheckpointScope> scope(std::in_place);
    const at::Tensor y = code(x);
    scope.reset();
    EXPECT_THROW(y.sum().backward(), MutationError);  // the first contents are gone
  }
}

TEST_F(OutsideContentsTest, AssignedDataIsAsWithoutCheckpointing) {
  for (const bool is_trained : {true, false}) {
    const auto gradients = [&](bool in_scope) {
      torch::manual_seed(5);
      const at::Tensor x = leaf({4, 4});
      at::Tensor w = at::randn({4, 4}).requires_grad_(is_trained);
      std::optional<CheckpointScope> scope;
      if (in_scope) {
        scope.emplace();
      }
      const at::Tensor y = x.mm(w).sin().exp().cos();
      scope.reset();
      w.set_data(at::full({4, 4}, 0.5));
      return torch::autograd::grad({y.sum()}, is_trained ? Tensors{x, w} : Tensors{x});
    };
    expect_same_bits(gradients(true), gradients(false));
  }
}

TEST_F(OutsideContentsTest, NumbersAndWrappedMemoryInsideOthersRegions) {
  expect_as_plain([](const at::Tensor& x) {
    at::Tensor y = x.clone();
    y.index_put_({torch::indexing::Slice(1, 4)}, 0.5);
    return y.sin();
  });
  expect_as_plain([](const at::Tensor& x) {
    const auto memory = std::make_shared<std::vector<float>>(48, 0.5F);
    return (x * at::from_blob(
                    memory->data(), {6, 8}, [memory](void*) {}, at::kFloat))
        .sin();
  });
}

TEST_F(OutsideContentsTest, PartsThatAreFilledFromOthers) {
  expect_as_plain([](const at::Tensor& x) {
    at::Tensor y = at::empty({7, 8});
    y.narrow(0, 0, 6).copy_(x);
    y.narrow(0, 6, 1).copy_(y.narrow(0, 0, 1));
    return y.sin();
  });
  expect_as_plain([](const at::Tensor& x) {
    namespace F = torch::nn::functional;
    const auto circular = F::PadFuncOptions({1, 1, 1, 1}).mode(torch::kCircular);
    return F::pad(x.view({1, 1, 6, 8}), circular).sin();
  });
}

TEST_F(OutsideContentsTest, StateThatIsDrawnAnew) {
  expect_as_plain([state = at::zeros({6, 8})](const at::Tensor& x) {
    state.bernoulli_(0.5);
    return x * state;
  });
}

// As without regions: autograd looks at the tensors that a backward asks for.
TEST_F(OutsideContentsTest, AModifiedTensorIsAnErrorOfTheBackwardThatAsksForIt) {
  for (const bool is_read_only : {false, true}) {
    const at::Tensor x = leaf({6, 8});
    const at::Tensor state = at::rand({6, 8});
    const Tensors results = checkpoint(
        [&](const at::Tensor& t) -> Tensors {
          return {is_read_only ? (t + state).sin() : t * state, t.sin().exp()};
        },
        x);
    state.mul_(2);
    expect_same_bits(torch::autograd::grad({results[1].sum()}, {x}, {}, /*retain_graph=*/true),
                     torch::autograd::grad({x.sin().exp().sum()}, {x}));
    EXPECT_THROW(torch::autograd::grad({results[0].sum()}, {x}), MutationError) << is_read_only;
  }
}

// Hooks that hold the tensor itself give plain autograd the changed values, and no version counts.
TEST_F(OutsideContentsTest, AWriteAfterTheSaveDoesNotReachTheGradientThroughHooks) {
  const at::Tensor x = at::ones({3}).requires_grad_();
  const auto exp_then_write = [](const at::Tensor& t) {
    const at::Tensor y = t.exp();
    const at::NoGradGuard no_grad;
    y.mul_(5);
    return y;
  };
  const auto gradient_with = [&](const Code& code) {
    at::Tensor y;
    {
      const SavedTensorHooksGuard hooks([](const at::Tensor& t) { return t; },
                                        [](const at::Tensor& t) { return t; });
      y = code(x);
    }
    return torch::autograd::grad({y.sum()}, {x})[0];
  };
  const at::Tensor right = x.exp().detach();
  EXPECT_TRUE(gradient_with(exp_then_write).equal(right * 5));
  for (const ReplayMode replay : {ReplayMode::kFunction, ReplayMode::kTape}) {
    EXPECT_TRUE(bitwise_equal(gradient_with([&](const at::Tensor& t) {
                                return checkpoint({.replay = replay}, exp_then_write, t);
                              }),
                              right));
  }
  EXPECT_TRUE(bitwise_equal(gradient_with([&](const at::Tensor& t) {
                              const CheckpointScope scope;
                              return exp_then_write(t);
                            }),
                            right));
}

TEST_F(OutsideContentsTest, TensorsWithoutMemory) {
  for (const ReplayMode replay : {ReplayMode::kFunction, ReplayMode::kTape}) {
    const auto code = [](const at::Tensor& x) {
      const at::Tensor zero = at::_efficientzerotensor({6, 8});
      return x.sin() * (zero + 1) + zero;
    };
    const at::Tensor x = leaf({6, 8});
    const Tensors expected = gradients(code(x), {x});
    const CheckpointOptions options{.replay = replay,
                                    .determinism_check = DeterminismCheck::kValues};
    expect_same_bits(gradients(checkpoint(options, code, x), {x}), expected);
  }
}

}  // namespace
}  // namespace reprise::testing::outside_contents_test
