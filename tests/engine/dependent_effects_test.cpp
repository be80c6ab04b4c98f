// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Operators that update a tensor from outside and have results that depend on the update, as the
// scaling of FP8 and the observers of quantization-aware training. And scopes that write outside,
// in function regions.
#include <torch/library.h>

#include "reprise/engine/checkpoint_scope.h"
#include "reprise/engine/errors.h"
#include "reprise/hooks/saved_tensor_hooks.h"
#include "reprise/hooks/store_guard.h"
#include "reprise/hooks/stores.h"
#include "reprise/policies/policies.h"
#include "tests/conformance/conformance_fixture.h"

namespace reprise::testing::dependent_effects_test {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// scale <- 0.9 scale + 0.1 max|x|; x / scale
at::Tensor normalise_cpu(const at::Tensor& x, at::Tensor& scale) {
  scale.mul_(0.9).add_(x.abs().max(), 0.1);
  return x / scale;
}

at::Tensor normalise(const at::Tensor& x, at::Tensor& scale) {
  static const auto kOperator = c10::Dispatcher::singleton()
                                    .findSchemaOrThrow("reprise_effects::normalise", "")
                                    .typed<at::Tensor(const at::Tensor&, at::Tensor&)>();
  return kOperator.call(x, scale);
}

struct Normalise : torch::autograd::Function<Normalise> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, at::Tensor scale) {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    at::Tensor y = normalise(x, scale);
    context->save_for_backward({scale.clone()});
    return y;
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    return {gradients[0] / context->get_saved_variables()[0], at::Tensor()};
  }
};

at::Tensor normalise_autograd(const at::Tensor& x, at::Tensor& scale) {
  return Normalise::apply(x, scale);
}

TORCH_LIBRARY(reprise_effects, library) {
  library.def("normalise(Tensor x, Tensor(a!) scale) -> Tensor");
}
TORCH_LIBRARY_IMPL(reprise_effects, CPU, library) { library.impl("normalise", normalise_cpu); }
TORCH_LIBRARY_IMPL(reprise_effects, Autograd, library) {
  library.impl("normalise", normalise_autograd);
}

using Body = std::function<at::Tensor(const at::Tensor& x, at::Tensor& state)>;

class DependentEffectsTest : public ConformanceTest {
 protected:
  // Result, gradient and state of `body`, run by `run`, which gets a callable and its argument.
  template <class Run>
  Tensors outcome(const Body& body, const Run& run) {
    torch::manual_seed(1);
    const at::Tensor x = leaf({16});
    const at::Tensor state = at::ones({});
    const auto fn = [body, state](const at::Tensor& t) {
      at::Tensor mine = state;
      return body(t, mine);
    };
    const at::Tensor y = run(fn, x);
    Tensors found = gradients(y, {x});
    found.push_back(y.detach());
    found.push_back(state);
    return found;
  }
};

const Body kNormalised = [](const at::Tensor& x, at::Tensor& scale) {
  return normalise(x.cos(), scale).sin().exp();
};

TEST_F(DependentEffectsTest, HappenOnceAndGiveTheSameResults) {
  const Tensors expected = outcome(kNormalised, Plain{});
  for (const PolicyHolder& policy : {PolicyHolder(), policies::save_nothing(),
                                     policies::save_matmuls(), policies::save_everything()}) {
    for (const ReplayMode replay : {ReplayMode::kFunction, ReplayMode::kTape}) {
      SCOPED_TRACE(replay == ReplayMode::kTape ? "tape" : "function");
      expect_same_bits(outcome(kNormalised, InRegion{{.policy = policy, .replay = replay}}),
                       expected);
    }
  }
}

// A replay within forward that does not stop early comes to the operator before forward does.
const Body kNormalisedBehindABackward = [](const at::Tensor& x, at::Tensor& scale) {
  const at::Tensor copy = x.detach().requires_grad_();
  const at::Tensor factor = torch::autograd::grad({copy.sin().sum()}, {copy})[0];
  return normalise(x * factor, scale).sin().exp();
};

TEST_F(DependentEffectsTest, FollowsABackwardInside) {
  const Tensors expected = outcome(kNormalisedBehindABackward, Plain{});
  for (const bool early_stop : {true, false}) {
    for (const PolicyHolder& policy : {PolicyHolder(), policies::save_everything()}) {
      const CheckpointOptions options{.policy = policy, .early_stop = early_stop};
      expect_same_bits(outcome(kNormalisedBehindABackward, InRegion{options}), expected);
    }
  }
}

TEST_F(DependentEffectsTest, RunsRegionsWithinRegions) {
  const Tensors expected = outcome(kNormalised, Plain{});
  for (const ReplayMode outer : {ReplayMode::kFunction, ReplayMode::kTape}) {
    for (const ReplayMode inner : {ReplayMode::kFunction, ReplayMode::kTape}) {
      SCOPED_TRACE(
          c10::str("outer ", static_cast<int>(outer), ", inner ", static_cast<int>(inner)));
      const auto nested = [&](const auto& fn, const at::Tensor& x) {
        const auto code = [fn, inner](const at::Tensor& t) {
          return checkpoint({.replay = inner}, fn, t.sin()).cos();
        };
        return checkpoint({.replay = outer}, code, x);
      };
      const auto plain = [&](const auto& fn, const at::Tensor& x) { return fn(x.sin()).cos(); };
      expect_same_bits(outcome(kNormalised, nested), outcome(kNormalised, plain));
    }
  }
}

TEST_F(DependentEffectsTest, ThrowWithoutAWatch) {
  EXPECT_THAT([&] { outcome(kNormalised, InRegion{{.watch_operators = false}}); },
              ::testing::ThrowsMessage<MutationError>(
                  ::testing::HasSubstr("writes to a tensor from outside the region")));
}

TEST_F(DependentEffectsTest, UpdateAMovingAverageObserver) {
  expect_as_plain([](auto run) -> Tensors {
    const at::Tensor x = leaf({64});
    const at::Tensor on = at::ones({1}, at::kLong);
    const at::Tensor low = at::full({1}, -0.5);
    const at::Tensor high = at::full({1}, 0.5);
    const at::Tensor scale = at::ones({1});
    const at::Tensor zero = at::zeros({1}, at::kInt);
    const auto fn = [=](const at::Tensor& t) {
      at::Tensor low_now = low;
      at::Tensor high_now = high;
      at::Tensor scale_now = scale;
      at::Tensor zero_now = zero;
      return at::fused_moving_avg_obs_fake_quant(t.sin(), on, on, low_now, high_now, scale_now,
                                                 zero_now, 0.1, 0, 255, 0)
          .exp();
    };
    const at::Tensor y = run(fn, x);
    return {torch::autograd::grad({y.sum()}, {x})[0], low, high, scale, zero};
  });
}

TEST_F(DependentEffectsTest, RunsScopesWithinFunctionRegions) {
  const std::vector<std::pair<std::string, Body>> bodies = {
      {"average",
       [](const at::Tensor& x, at::Tensor& state) {
         state.copy_(state * 0.9 + x.detach().sum() * 0.1);
         return x.sin();
       }},
      {"average in place",
       [](const at::Tensor& x, at::Tensor& state) {
         state.mul_(0.9).add_(x.detach().sum(), 0.1);
         return x.sin();
       }},
      {"written, then read", [](const at::Tensor& x, at::Tensor& state) {
         state.copy_(x.detach().sum());
         return x.sin() * state;
       }}};
  for (const auto& [name, body] : bodies) {
    SCOPED_TRACE(name);
    const auto plain = [](const auto& fn, const at::Tensor& x) { return fn(x.cos()).cos(); };
    const auto nested = [](const auto& fn, const at::Tensor& x) {
      const auto code = [fn](const at::Tensor& t) {
        at::Tensor y;
        {
          const CheckpointScope scope;
          y = fn(t.cos());
        }
        return y.cos();
      };
      return checkpoint(code, x);
    };
    expect_same_bits(outcome(body, nested), outcome(body, plain));
  }
}

// Results kept by an inner region do not go through the hooks of the outer one.
TEST_F(DependentEffectsTest, RespectHooksForKeptResultsInsideAnotherRegion) {
  expect_as_plain([](auto run) -> Tensors {
    const at::Tensor x = leaf({8});
    // Kept results of many shapes.
    const auto inner = [](const at::Tensor& t) {
      at::Tensor y = t;
      for (int size = 1; size < 8; ++size) {
        const at::Tensor part = y.narrow(0, 0, size).sin();
        y = y * part.outer(part).exp().sum();
      }
      return y.tanh();
    };
    const auto outer = [inner](const at::Tensor& t) {
      return checkpoint(
                 {.policy = policies::save_everything(), .respect_saved_tensors_hooks = true},
                 inner, t.cos())
          .cos();
    };
    return torch::autograd::grad({run(outer, x).sum()}, {x});
  });
}

// A view that a torch::autograd::Function has written to and saves: each recomputation's graph is
// taken apart.
struct Doubled : torch::autograd::Function<Doubled> {
  static at::Tensor forward(AutogradContext* context, at::Tensor x) {
    x.mul_(2);
    context->mark_dirty({x});
    context->save_for_backward({x});
    return x;
  }
  static variable_list backward(AutogradContext*, variable_list gradients) {
    return {gradients[0] * 2};
  }
};

at::Tensor doubled_through_a_view(const at::Tensor& t) {
  at::Tensor view = t.clone().view({-1});
  return Doubled::apply(view);
}

TEST_F(DependentEffectsTest, LeaveNothingBehindForAFunctionOnAView) {
  const at::Tensor x = leaf({1024});
  // The Function's saved tensors are packed by the recomputation itself, by a region in it, or by
  // hooks.
  const std::vector<std::function<at::Tensor(const at::Tensor&)>> codes = {
      &doubled_through_a_view,
      [](const at::Tensor& t) { return checkpoint(&doubled_through_a_view, t); },
      [](const at::Tensor& t) {
        return checkpoint({.replay = ReplayMode::kTape}, &doubled_through_a_view, t);
      },
      [](const at::Tensor& t) {
        const StoreGuard guard(stores::packed({.min_bytes = 0}));
        return doubled_through_a_view(t);
      },
      [](const at::Tensor& t) {
        const SavedTensorHooksGuard guard([](at::Tensor saved) { return saved.clone(); },
                                          [](const at::Tensor& packed) { return packed; });
        return doubled_through_a_view(t);
      }};
  for (std::size_t code = 0; code < codes.size(); ++code) {
    const auto step = [&] {
      const auto fn = [&](const at::Tensor& t) { return (codes[code](t.cos()) * 0.5).tanh(); };
      torch::autograd::grad({checkpoint(fn, x).sum()}, {x});
    };
    step();
    const std::int64_t before = live_cpu_bytes();
    for (int i = 0; i < 3; ++i) {
      step();
    }
    EXPECT_EQ(live_cpu_bytes(), before) << "code " << code;
  }
}

// The recomputation stops at the last tensor that is wanted, also if a Function has made it.
TEST_F(DependentEffectsTest, StopEarlyBehindAFunctionsResult) {
  int calls_behind = 0;
  const at::Tensor x = leaf({4});
  const auto fn = [&calls_behind](const at::Tensor& t) {
    at::Tensor state = at::ones({});
    const at::Tensor y = normalise(t.sin(), state);
    const at::Tensor z = y.exp() * y;
    ++calls_behind;
    return z;
  };
  gradients(checkpoint(fn, x), {x});
  EXPECT_EQ(calls_behind, 1);
}

// As a pool of memory that regions fill in turn. Writes through data() are not counted.
TEST_F(DependentEffectsTest, FillAPoolAgainThatAnotherRegionHasFilled) {
  const at::Tensor x = leaf({4, 4});
  for (const bool counts : {true, false}) {
    const at::Tensor pool = at::ones({4, 4}).clone();
    const auto fill = [&](double value) {
      const at::NoGradGuard no_grad;
      (counts ? pool : pool.variable_data()).fill_(value);
    };
    const auto region = [&](const at::Tensor& h, double value) {
      const auto code = [&fill, &pool, value](const at::Tensor& t) {
        fill(value);
        return t.sin().mm(pool).exp();
      };
      return checkpoint({.name = "pooled"}, code, h);
    };
    const at::Tensor y = region(region(x, 2), 3);
    const auto plain = [](const at::Tensor& h, double value) {
      return h.sin().mm(at::full({4, 4}, value)).exp();
    };
    expect_same_bits(gradients(y, {x}), gradients(plain(plain(x, 2), 3), {x}));
    const at::Tensor alone = region(x, 2);  // nothing has written since
    const at::Tensor expected = at::exp(x.sin().mm(at::full({4, 4}, 2.0)));
    expect_same_bits(gradients(alone, {x}), gradients(expected, {x}));
  }
}

}  // namespace
}  // namespace reprise::testing::dependent_effects_test
