// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Effects happen once: a replay does not repeat writes to tensors from outside.
#include "reprise/engine/operators/operator_traits.h"
#include "reprise/hooks/saved_tensor_hooks.h"
#include "tests/conformance/conformance_fixture.h"

namespace reprise::testing::effects_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// Writes its argument without any operator of LibTorch's.
void count_call(at::Tensor counter) { *counter.data_ptr<float>() += 1; }

TORCH_LIBRARY(reprise_effects_test, library) {
  library.def("count_call(Tensor(a!) counter) -> ()",
              torch::dispatch(c10::DispatchKey::CPU, &count_call));
}

void call_counter(const at::Tensor& counter) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("reprise_effects_test::count_call", "")
                             .typed<void(at::Tensor)>();
  op.call(counter);
}

// A caller's view of a tensor.
struct Seen {
  explicit Seen(const at::Tensor& tensor)
      : values(tensor.detach().clone()), version(tensor._version()), node(tensor.grad_fn().get()) {}
  at::Tensor values;
  std::int64_t version;
  const void* node;
};

class EffectsTest : public ConformanceTest {
 protected:
  // Expects from `code(x, outside)` as a region the gradients of the plain run, and forward's
  // writes to `outside` alone.
  template <class Code>
  void expect_once(const at::Tensor& outside, Code code, const CheckpointOptions& options = {}) {
    const at::Tensor start = outside.clone();
    const at::Tensor x = leaf({4, 4});
    const at::Tensor plain_outside = start.clone();
    plain_outside.set_requires_grad(outside.requires_grad());
    const at::Tensor plain = torch::autograd::grad({code(x, plain_outside).sum()}, {x})[0];

    const at::Tensor y = checkpoint(options, code, x, Captured{outside});
    const Seen after_forward(outside);
    for (int backward = 0; backward < 2; ++backward) {
      const at::Tensor got = torch::autograd::grad({y.sum()}, {x}, {}, /*retain_graph=*/true)[0];
      EXPECT_TRUE(bitwise_equal(got, plain)) << "backward " << backward;
      EXPECT_TRUE(bitwise_equal(outside, after_forward.values)) << "backward " << backward;
      EXPECT_EQ(outside._version(), after_forward.version) << "backward " << backward;
      EXPECT_EQ(outside.grad_fn().get(), after_forward.node) << "backward " << backward;
    }
    EXPECT_TRUE(bitwise_equal(outside, plain_outside));
    EXPECT_FALSE(bitwise_equal(outside, start)) << "the code has no effect";
  }

  // Converts to the tensor, but is no argument that the region keeps.
  struct Captured {
    explicit Captured(at::Tensor t) : tensor(std::make_shared<at::Tensor>(std::move(t))) {}
    operator const at::Tensor&() const { return *tensor; }  // NOLINT: as an argument
    std::shared_ptr<at::Tensor> tensor;
  };
};

TEST_F(EffectsTest, CounterCountsOnce) {
  expect_once(at::zeros({2}), [](const at::Tensor& x, const at::Tensor& counter) {
    counter.add_(1);
    return x.sin().exp();
  });
}

TEST_F(EffectsTest, ReadsTheValueAfterTheWrite) {
  expect_once(at::ones({4, 4}), [](const at::Tensor& x, const at::Tensor& state) {
    state.mul_(3).add_(x.detach());
    return (x * state).sin();
  });
}

TEST_F(EffectsTest, WritesThroughViewsAreLeftOut) {
  expect_once(at::zeros({8, 4}), [](const at::Tensor& x, const at::Tensor& cache) {
    cache.narrow(0, 2, 4).copy_(x.detach());
    return x.mm(cache.narrow(0, 0, 4)).softmax(-1).mm(cache.narrow(0, 2, 4).sin());
  });
}

TEST_F(EffectsTest, WritesThroughAliasesWithoutVersionAreLeftOut) {
  expect_once(at::ones({4, 4}), [](const at::Tensor& x, const at::Tensor& average) {
    average.data().mul_(0.5).add_(x.detach());
    return x.sin().exp();
  });
}

TEST_F(EffectsTest, ResultsWrittenToABufferAreLeftOut) {
  expect_once(at::zeros({4, 4}), [](const at::Tensor& x, const at::Tensor& buffer) {
    at::Tensor out = buffer;
    at::mul_out(out, x.detach(), x.detach());
    return (x * out).sin();
  });
}

TEST_F(EffectsTest, ListsOfTensorsAreLeftOut) {
  expect_once(at::zeros({4, 4}), [](const at::Tensor& x, const at::Tensor& state) {
    std::vector<at::Tensor> mixed = {state, x.detach().clone()};
    at::_foreach_add_(mixed, 1);
    return (x * mixed[0] * mixed[1]).sin();
  });
}

TEST_F(EffectsTest, RandomWriteMovesTheGeneratorAndNothingElse) {
  const auto code = [](const at::Tensor& x, const at::Tensor& mask) {
    torch::manual_seed(3);
    mask.bernoulli_(0.5);
    return torch::dropout(x.sin() * mask, 0.5, true).exp();
  };
  expect_once(at::full({4, 4}, 7.0), code);
}

TEST_F(EffectsTest, GraphOfAStateIsPutBack) {
  const at::Tensor state = at::zeros({4, 4});
  const at::Tensor x = leaf({4, 4});
  const at::Tensor y = checkpoint(
      [state](const at::Tensor& t) {
        state.add_(t.sin());
        return t.exp().sin();
      },
      x);
  const Seen after_forward(state);
  ASSERT_NE(after_forward.node, nullptr);
  const at::Tensor through_region = torch::autograd::grad({y.sum()}, {x}, {}, true)[0];
  EXPECT_TRUE(bitwise_equal(through_region, x.exp().cos().mul(x.exp()).detach()));
  EXPECT_EQ(state.grad_fn().get(), after_forward.node);
  EXPECT_EQ(state._version(), after_forward.version);
  EXPECT_TRUE(bitwise_equal(state.detach(), after_forward.values));
  EXPECT_TRUE(bitwise_equal(torch::autograd::grad({state.sum()}, {x})[0], x.cos().detach()));
}

TEST_F(EffectsTest, CustomOperatorsThatDeclareTheirWritesAreLeftOut) {
  const at::Tensor counter = at::zeros({1});
  const at::Tensor x = leaf({4, 4});
  const at::Tensor y = checkpoint(
      [counter](const at::Tensor& t) {
        call_counter(counter);
        return t.sin().exp();
      },
      x);
  EXPECT_EQ(counter.item<float>(), 1);
  y.sum().backward();
  EXPECT_EQ(counter.item<float>(), 1);
}

TEST_F(EffectsTest, MemoryThatTheRegionWrapsItselfIsWritten) {
  expect_as_plain([this](auto run) -> Tensors {
    const at::Tensor x = leaf({4, 4});
    const auto code = [](const at::Tensor& t) {
      std::vector<float> values(16, 2.0F);
      const at::Tensor wrapped = torch::from_blob(values.data(), {4, 4});
      wrapped.mul_(3);
      wrapped.view({16}).add_(1);
      return (t * wrapped.clone()).sin();
    };
    return gradients(run(code, x), {x});
  });
}

TEST_F(EffectsTest, ArgumentThatHooksHaveCopiedIsNotWritten) {
  const at::Tensor x = leaf({4, 4});
  const SavedTensorHooksGuard copies([](const at::Tensor& t) { return t.clone().add_(0); },
                                     [](const at::Tensor& t) { return t; });
  const at::Tensor h = x * 1;
  const at::Tensor y = checkpoint(
      {.name = "block"}, [](const at::Tensor& t) { return t.mul_(2).sin().exp(); }, h);
  EXPECT_THAT([&] { y.sum().backward(); },
              ThrowsMessage<MutationError>(
                  HasSubstr("input tensor 0 is modified in place by the recomputation itself")));
}

TEST_F(EffectsTest, ThrowsForReadsOfMemoryOverwrittenLater) {
  const at::Tensor state = at::ones({4, 4}).clone();
  const at::Tensor x = leaf({4, 4});
  const auto code = [state](const at::Tensor& t) {
    const at::Tensor shifted = t + state;
    state.mul_(2);
    return shifted.sin().exp();
  };
  {
    const at::Tensor y = checkpoint({.name = "block", .copied_state_limit_bytes = 0}, code, x);
    EXPECT_THAT([&] { y.sum().backward(); },
                ThrowsMessage<MutationError>(AllOf(
                    HasSubstr("[checkpoint] region 'block': aten::add.Tensor reads a tensor from "
                              "outside the region, Float [4, 4]"),
                    HasSubstr("at version 1, forward read it at version 0"))));
    EXPECT_FALSE(x.grad().defined());
  }
  EXPECT_TRUE(bitwise_equal(state, at::full({4, 4}, 2.0)));
  EXPECT_EQ(state._version(), 1);
  checkpoint({.allow_external_mutation = true}, code, x).sum().backward();
  EXPECT_TRUE(bitwise_equal(state, at::full({4, 4}, 4.0)));
}

TEST_F(EffectsTest, ThrowsForReadsOfMemoryOverwrittenBehindTheLastSavedTensor) {
  const at::Tensor state = at::ones({4, 4}).clone();
  const at::Tensor x = leaf({4, 4});
  const at::Tensor y = checkpoint(
      {.copied_state_limit_bytes = 0},
      [state](const at::Tensor& t) {
        const at::Tensor result = (t + state).sin();
        state.mul_(2);
        return result;
      },
      x);
  EXPECT_THAT([&] { y.sum().backward(); }, ThrowsMessage<MutationError>(HasSubstr("add.Tensor")));
}

TEST_F(EffectsTest, CopiesWhatTheRegionOverwritesLater) {
  expect_once(at::ones({4, 4}), [](const at::Tensor& x, const at::Tensor& state) {
    const at::Tensor shifted = x + state;
    const auto factor = (state.sum() * 2).item<double>();
    state.mul_(2);
    return (shifted * factor).sin().exp();
  });
}

TEST_F(EffectsTest, AllowsOverwritingValuesThatOnlyEffectsRead) {
  expect_once(at::ones({4, 4}), [](const at::Tensor& x, const at::Tensor& average) {
    average.copy_(average * 0.9 + x.detach() * 0.1);
    return x.sin().exp();
  });
}

TEST_F(EffectsTest, RepeatsHostReads) {
  for (const bool early_stop : {true, false}) {
    expect_once(at::ones({1}),
                [](const at::Tensor& x, const at::Tensor& counter) {
                  const auto before = counter.item<double>();
                  counter.add_(1);
                  return (x * before * counter.item<double>()).sin().exp();
                },
                {.early_stop = early_stop});
  }
}

TEST_F(EffectsTest, RefusesHostReadsOfOldValues) {
  const at::Tensor counter = at::ones({1});
  const at::Tensor x = leaf({4, 4});
  const at::Tensor y = checkpoint(
      {.copied_state_limit_bytes = 0},
      [counter](const at::Tensor& t) {
        const auto factor = (counter * 2).item<double>();
        counter.add_(1);
        return (t * factor).sin();
      },
      x);
  EXPECT_THAT([&] { y.sum().backward(); }, ThrowsMessage<MutationError>(HasSubstr("aten::mul.")));
}

TEST_F(EffectsTest, TensorThatIsOnlyAddedIsCheckedToo) {
  const auto run = [](const CheckpointOptions& options) {
    const at::Tensor c = at::ones({4, 4}).clone();
    const at::Tensor x = leaf({4, 4});
    const at::Tensor y = checkpoint(
        options, [c](const at::Tensor& t) { return (t + c).sin(); }, x);
    c.add_(1);
    y.sum().backward();
  };
  EXPECT_THAT([&] { run({}); }, ThrowsMessage<MutationError>(
                                    HasSubstr("at version 1, forward read it at version 0")));
  EXPECT_THROW(run({.determinism_check = DeterminismCheck::kNone}), MutationError);
  EXPECT_NO_THROW(run({.watch_operators = false}));
  EXPECT_NO_THROW(run({.allow_external_mutation = true}));
}

TEST_F(EffectsTest, ExceptionInTheReplayLeavesNoWriteBehind) {
  const at::Tensor counter = at::zeros({1}).clone();
  const at::Tensor x = leaf({4, 4});
  const at::Tensor y = checkpoint(
      [counter](const at::Tensor& t) {
        counter.add_(1);
        if (is_recomputing()) {
          throw std::domain_error("replay");
        }
        return t.sin().exp();
      },
      x);
  EXPECT_THAT([&] { y.sum().backward(); }, ThrowsMessage<std::domain_error>(HasSubstr("replay")));
  EXPECT_EQ(counter.item<float>(), 1);
  EXPECT_EQ(counter._version(), 1);
}

TEST_F(EffectsTest, WritesOfTheReplayToItsOwnTensorsAreMade) {
  expect_as_plain([this](auto run) -> Tensors {
    const at::Tensor x = leaf({4, 4});
    const auto code = [](const at::Tensor& t) {
      at::Tensor sum = at::zeros_like(t);
      for (int i = 1; i < 4; ++i) {
        sum.add_(t, i).mul_(t);
        sum.narrow(0, i, 1).sin_();
      }
      return sum.exp();
    };
    return gradients(run(code, x), {x});
  });
}

TEST(OperatorTraitsTest, KnowStatisticsThatSchemasDoNotDeclareWritten) {
  const auto traits_of = [](const char* name) {
    return engine_internal::OperatorTraits(
        c10::Dispatcher::singleton().findSchemaOrThrow(name, ""));
  };
  for (const char* name :
       {"aten::native_batch_norm", "aten::cudnn_batch_norm", "aten::miopen_batch_norm"}) {
    EXPECT_THAT(traits_of(name).written_arguments, ::testing::ElementsAre(3, 4)) << name;
    EXPECT_EQ(traits_of(name).training_argument, 5U) << name;
  }
  for (const char* name :
       {"aten::batch_norm_gather_stats", "aten::batch_norm_gather_stats_with_counts"}) {
    EXPECT_THAT(traits_of(name).written_arguments, ::testing::ElementsAre(3, 4)) << name;
    EXPECT_FALSE(traits_of(name).training_argument.has_value()) << name;
  }
  EXPECT_THAT(traits_of("aten::batch_norm_update_stats").written_arguments,
              ::testing::ElementsAre(1, 2));
  EXPECT_THAT(traits_of("aten::native_batch_norm_backward").written_arguments,
              ::testing::IsEmpty());
}

}  // namespace
}  // namespace reprise::testing::effects_test
