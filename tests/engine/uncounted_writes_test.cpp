// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Writes that no version counter shows count for those who have read the memory before: plain
// autograd's gradient, or an error that names the cause.
#include "reprise/engine/operators/uncounted_writes.h"

#include <optional>
#include <thread>

#include "reprise/engine/checkpoint_scope.h"
#include "reprise/engine/errors.h"
#include "reprise/hooks/saved_tensor_hooks.h"
#include "tests/conformance/conformance_fixture.h"
#include "tests/engine/forms.h"

namespace reprise::testing::uncounted_writes_test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

void add_to(const at::Tensor& x, at::Tensor target) {
  for (std::int64_t i = 0; i < target.numel(); ++i) {
    target.mutable_data_ptr<float>()[i] += x.const_data_ptr<float>()[i];
  }
}

TORCH_LIBRARY(reprise_uncounted_writes_test, library) {
  library.def("add_to(Tensor x, Tensor(a!) target) -> ()",
              torch::dispatch(c10::DispatchKey::CPU, &add_to));
}

void batch_norm(const at::Tensor& x, const at::Tensor& mean, const at::Tensor& variance) {
  at::batch_norm(x, {}, {}, mean, variance, /*training=*/true, 0.1, 1e-5, false);
}

void fused_update(const at::Tensor& parameter, const at::Tensor& gradient) {
  const at::NoGradGuard no_grad;
  at::_fused_sgd_({parameter}, {gradient}, {}, 0.0, 0.0, 0.1, 0.0, false, false, true);
}

void add_by_own_operator(const at::Tensor& x, const at::Tensor& target) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("reprise_uncounted_writes_test::add_to", "")
                             .typed<void(const at::Tensor&, at::Tensor)>();
  op.call(x, target);
}

// What is written after a region has read it, and by which operator.
struct Writer {
  const char* name;
  std::function<void(const at::Tensor& x, const at::Tensor& target)> write;
};

using Form = std::function<at::Tensor(const Code&, const at::Tensor&)>;

class UncountedWritesTest : public ConformanceTest, public ::testing::WithParamInterface<Writer> {
 protected:
  at::Tensor x = leaf({6, 8});
  at::Tensor target = at::ones({8});

  void TearDown() override {
    x.reset();
    target.reset();
    ConformanceTest::TearDown();
  }

  at::Tensor read(const at::Tensor& t) const { return t.sin() * (target + 1).exp(); }
  void write() const { GetParam().write(at::randn({6, 8}), target); }
  at::Tensor gradient(const at::Tensor& y) const {
    return torch::autograd::grad({y.square().sum()}, {x})[0];
  }
  at::Tensor plain() const { return gradient(read(x)); }
  auto complains() const {
    return ThrowsMessage<MutationError>(HasSubstr("an operator that counts no version"));
  }
};

TEST_P(UncountedWritesTest, AfterFunctionIsAnError) {
  const at::Tensor y = checkpoint([&](const at::Tensor& t) { return read(t); }, x);
  write();
  EXPECT_THAT([&] { gradient(y); }, complains());
}

TEST_P(UncountedWritesTest, AfterScopeIsAnError) {
  at::Tensor y;
  {
    const CheckpointScope scope;
    y = read(x);
  }
  write();
  EXPECT_THAT([&] { gradient(y); }, complains());
}

TEST_P(UncountedWritesTest, InALaterRegionIsAnError) {
  const at::Tensor y = checkpoint([&](const at::Tensor& t) { return read(t); }, x);
  const at::Tensor z = checkpoint(
      [&](const at::Tensor& t) {
        write();
        return t.cos();
      },
      y);
  EXPECT_THAT([&] { gradient(z); }, complains());
}

TEST_P(UncountedWritesTest, LaterInTheFunctionFindsTheEarlierValues) {
  const at::Tensor expected = plain();
  const at::Tensor y = checkpoint(
      [&](const at::Tensor& t) {
        at::Tensor result = read(t);
        write();
        return result;
      },
      x);
  EXPECT_TRUE(bitwise_equal(gradient(y), expected));
}

// The outer scope has a copy for the inner region, which has ended before the write.
TEST_P(UncountedWritesTest, InALaterRegionOfTheScopeFindsTheEarlierValues) {
  const at::Tensor expected = plain();
  for (const bool is_scope : {false, true}) {
    target.fill_(1);
    const CheckpointOptions tape{.replay = ReplayMode::kTape};
    at::Tensor y;
    {
      const CheckpointScope outer;
      if (is_scope) {
        const CheckpointScope inner;
        y = read(x);
      } else {
        y = checkpoint(
            tape, [&](const at::Tensor& t) { return read(t); }, x);
      }
      const CheckpointScope later;
      write();
    }
    EXPECT_TRUE(bitwise_equal(gradient(y), expected)) << is_scope;
  }
}

TEST_P(UncountedWritesTest, LaterInTheFunctionIsAnErrorWithoutCopies) {
  const at::Tensor y = checkpoint(
      {.copied_state_limit_bytes = 0},
      [&](const at::Tensor& t) {
        at::Tensor result = read(t);
        write();
        return result;
      },
      x);
  EXPECT_THAT([&] { gradient(y); }, complains());
}

TEST_P(UncountedWritesTest, LaterInTheScopeFindsTheEarlierValues) {
  const at::Tensor expected = plain();
  at::Tensor y;
  {
    const CheckpointScope scope;
    y = read(x);
    write();
  }
  EXPECT_TRUE(bitwise_equal(gradient(y), expected));
}

// The replay of a function has a region inside begin anew, which replays for a backward inside. The
// code keeps a tensor that depends on its gradient.
TEST_P(UncountedWritesTest, AfterABackwardInsideTheReplayFindTheEarlierValues) {
  at::Tensor left;
  const auto found = [&](bool writes_inside, const Form& outer, const Form& inner) {
    const auto inside = [&](const at::Tensor& t) {
      const at::Tensor y = (read(t) + t.cos()).tanh();
      if (writes_inside) {
        GetParam().write(t.detach().clone(), target);
      }
      const at::Tensor copy = y.detach().requires_grad_();
      left = torch::autograd::grad({(copy.sin() * copy).sum()}, {copy})[0].detach();
      return writes_inside ? y * left : t.exp() * left;
    };
    const auto outside = [&](const at::Tensor& t) {
      const at::Tensor y = inner(inside, t.sin());
      if (!writes_inside) {
        GetParam().write(t.detach().clone(), target);
      }
      return y;
    };
    target.fill_(1);
    const at::Tensor gradient_of_x = gradient(outer(outside, x));
    return at::stack({gradient_of_x, left});
  };
  for (const bool early_stop : {true, false}) {
    const auto outer = [&](const Code& code, const at::Tensor& t) {
      return checkpoint({.early_stop = early_stop}, code, t);
    };
    const at::Tensor within = found(true, &in_place, &in_place);
    EXPECT_TRUE(bitwise_equal(found(true, outer, &in_scope), within)) << early_stop;
    EXPECT_TRUE(bitwise_equal(found(true, outer, &in_tape), within)) << early_stop;
    EXPECT_TRUE(bitwise_equal(found(true, outer, &in_function), within)) << early_stop;
    const at::Tensor after = found(false, &in_place, &in_place);
    EXPECT_TRUE(bitwise_equal(found(false, outer, &in_scope), after)) << early_stop;
    EXPECT_TRUE(bitwise_equal(found(false, outer, &in_tape), after)) << early_stop;
  }
}

TEST_P(UncountedWritesTest, BeforeTheReadAreNone) {
  write();
  const at::Tensor expected = plain();
  const at::Tensor y = checkpoint([&](const at::Tensor& t) { return read(t); }, x);
  EXPECT_TRUE(bitwise_equal(gradient(y), expected));
  at::Tensor z;
  {
    const CheckpointScope scope;
    z = read(x);
  }
  EXPECT_TRUE(bitwise_equal(gradient(z), expected));
}

TEST_P(UncountedWritesTest, OfOtherMemoryAreNone) {
  const at::Tensor expected = plain();
  const at::Tensor y = checkpoint([&](const at::Tensor& t) { return read(t); }, x);
  GetParam().write(at::randn({6, 8}), at::ones({8}));
  EXPECT_TRUE(bitwise_equal(gradient(y), expected));
}

TEST_P(UncountedWritesTest, OfOtherThreadsAreSeen) {
  const at::Tensor y = checkpoint([&](const at::Tensor& t) { return read(t); }, x);
  std::thread([&] { write(); }).join();
  EXPECT_THAT([&] { gradient(y); }, complains());
}

TEST_P(UncountedWritesTest, ToAnArgumentAreAnErrorIfItIsRead) {
  const at::Tensor y = checkpoint(
      [](const at::Tensor& t, const at::Tensor& m) { return t.sin() * (m + 1).exp(); }, x, target);
  write();
  EXPECT_THAT([&] { gradient(y); }, complains());
}

INSTANTIATE_TEST_SUITE_P(
    By, UncountedWritesTest,
    ::testing::Values(
        Writer{"BatchNorm", [](const at::Tensor& x,
                               const at::Tensor& target) { batch_norm(x, target, at::ones({8})); }},
        Writer{"LegitBatchNorm",
               [](const at::Tensor& x, const at::Tensor& target) {
                 at::Tensor mean = target, variance = at::ones({8});
                 at::_native_batch_norm_legit(x, {}, {}, mean, variance, true, 0.1, 1e-5);
               }},
        Writer{"FusedOptimizer",
               [](const at::Tensor& x, const at::Tensor& target) { fused_update(target, x[0]); }},
        Writer{"OwnOperator", [](const at::Tensor& x,
                                 const at::Tensor& target) { add_by_own_operator(x, target); }}),
    [](const auto& info) { return info.param.name; });

// Batch norms in regions that share their statistics, as in two forwards before a backward.
TEST(UncountedWritesOfStatisticsTest, DoNotDisturbBatchNorms) {
  const auto run = [](bool in_regions, bool training) {
    const at::Tensor mean = at::zeros({8}), variance = at::ones({8});
    at::manual_seed(3);
    const at::Tensor x = at::randn({6, 8}).requires_grad_();
    const auto layer = [&](const at::Tensor& t) {
      return at::batch_norm(t.sin(), {}, {}, mean, variance, training, 0.1, 1e-5, false).exp();
    };
    at::Tensor sum = at::zeros({});
    for (int i = 0; i < 2; ++i) {
      sum = sum + (in_regions ? checkpoint(layer, x) : layer(x)).sum();
      const CheckpointScope scope;
      sum = sum + layer(x).sum();
    }
    sum.backward();
    return std::vector<at::Tensor>{x.grad(), mean, variance};
  };
  for (const bool training : {false, true}) {
    const auto plain = run(false, training), regions = run(true, training);
    for (std::size_t i = 0; i < plain.size(); ++i) {
      EXPECT_TRUE(bitwise_equal(plain[i], regions[i])) << training << ' ' << i;
    }
  }
}

// A batch norm in evaluation saves its statistics; plain backward finds the updated ones.
TEST(UncountedWritesOfStatisticsTest, LeaveSavedStatisticsAsInPlain) {
  const auto gradient = [](int how) {
    const at::Tensor mean = at::zeros({8}), variance = at::ones({8});
    at::manual_seed(3);
    const at::Tensor x = at::randn({6, 8}).requires_grad_();
    const auto layer = [&](const at::Tensor& t) {
      return at::batch_norm(t.sin(), {}, {}, mean, variance, /*training=*/false, 0.1, 1e-5, false)
          .exp();
    };
    at::Tensor y;
    if (how == 0) {
      y = layer(x);
    } else if (how == 1) {
      y = checkpoint(layer, x);
    } else {
      const CheckpointScope scope;
      y = layer(x);
    }
    batch_norm(x.detach(), mean, variance);
    return torch::autograd::grad({y.sum()}, {x})[0];
  };
  EXPECT_TRUE(bitwise_equal(gradient(1), gradient(0)));
  EXPECT_TRUE(bitwise_equal(gradient(2), gradient(0)));
}

// Hooks that copy have the earlier statistics, whether the region changes them itself or another.
TEST(UncountedWritesOfStatisticsTest, LeaveCopiesOfHooksAsTheyAre) {
  const auto gradients = [](const Form& form, bool in_region, bool is_outer, bool are_made) {
    const SavedTensorHooksGuard hooks([](const at::Tensor& t) { return t.clone(); },
                                      [](const at::Tensor& t) { return t; });
    at::manual_seed(3);
    const auto make = [] { return at::stack({at::zeros({8}), at::ones({8})}); };
    const at::Tensor both = make(), x = at::randn({6, 8}).requires_grad_();
    const auto train = [](const at::Tensor& t, const at::Tensor& of) {
      at::batch_norm(t.detach(), {}, {}, of[0], of[1], /*training=*/true, 0.1, 1e-5, false);
    };
    const auto code = [&](const at::Tensor& t) {
      const at::Tensor of = are_made ? make() : both;
      const at::Tensor y = at::batch_norm(t.sin(), {}, {}, of[0], of[1], false, 0.1, 1e-5, false);
      if (in_region) {
        train(t, of);
      }
      return y.exp();
    };
    const auto outer = [&](const at::Tensor& t) { return form(code, t) * 2; };
    const at::Tensor y = is_outer ? form(outer, x) : form(code, x);
    train(x, both);
    const at::Tensor first = torch::autograd::grad({y.square().sum()}, {x}, {}, true, true)[0];
    return at::stack({first.detach(), torch::autograd::grad({first.square().sum()}, {x})[0]});
  };
  for (const int how : {0, 1, 2, 3, 4, 5, 6, 7}) {
    SCOPED_TRACE(how);
    const bool in_region = how % 2 == 1, is_outer = how / 2 % 2 == 1, are_made = how / 4 == 1;
    const at::Tensor plain = gradients(in_place, in_region, is_outer, are_made);
    for (const Form& form : {Form(in_tape), Form(in_scope), Form(in_function)}) {
      EXPECT_TRUE(bitwise_equal(gradients(form, in_region, is_outer, are_made), plain));
    }
  }
}

// Plain backward finds the state as the optimizer leaves it, or as hooks have copied it before; a
// replay draws it in other memory.
TEST(UncountedWritesOfStateTest, LeaveSavedStateAsInPlain) {
  const auto gradient = [](const Form& form, bool is_outer, bool copies) {
    std::optional<SavedTensorHooksGuard> hooks;
    if (copies) {
      hooks.emplace([](const at::Tensor& t) { return t.clone(); },
                    [](const at::Tensor& t) { return t; });
    }
    at::manual_seed(3);
    const at::Tensor state = at::ones({6, 8});
    const at::Tensor x = at::randn({6, 8}).requires_grad_();
    const auto draw = [&](const at::Tensor& t) { return t.sin() * state.bernoulli_(0.5); };
    const auto code = [&](const at::Tensor& t) {
      const at::Tensor y = form(draw, t);
      fused_update(state, t.detach().clone());
      return y * state.clone();
    };
    const at::Tensor y = is_outer ? checkpoint(code, x) : code(x);
    return torch::autograd::grad({y.sum()}, {x})[0];
  };
  for (const int how : {0, 1, 2, 3}) {
    SCOPED_TRACE(how);
    const bool is_outer = how % 2 == 1, copies = how / 2 == 1;
    for (const Form& form : {Form(in_tape), Form(in_scope), Form(in_function)}) {
      EXPECT_TRUE(
          bitwise_equal(gradient(form, is_outer, copies), gradient(in_place, false, copies)));
    }
  }
}

// The same in one region, which reads the state once more afterwards.
TEST(UncountedWritesOfStateTest, OfTheRegionItselfLeaveSavedStateAsInPlain) {
  const auto gradients = [](const Form& form, bool draws, bool is_momentum) {
    at::manual_seed(3);
    const at::Tensor state = at::ones({6, 8}), other = at::ones({6, 8});
    const at::Tensor x = at::randn({6, 8}).requires_grad_();
    const auto code = [&](const at::Tensor& t) {
      if (draws) {
        state.bernoulli_(0.5);
      } else {
        state.copy_(t.detach() * 0.5);
      }
      const at::Tensor y = t.sin() * state;
      {
        const at::NoGradGuard no_grad;
        at::_fused_sgd_({is_momentum ? other : state}, {y.detach().clone()},
                        {is_momentum ? state : other}, 0.0, 0.9, 0.1, 0.0, false, false, false);
      }
      return y * state.clone();
    };
    const at::Tensor y = form(code, x);
    const at::Tensor first = torch::autograd::grad({y.sum()}, {x}, {}, /*retain_graph=*/true)[0];
    return at::stack({first, torch::autograd::grad({y.sum()}, {x})[0], state, other});
  };
  for (const bool draws : {false, true}) {
    for (const bool is_momentum : {false, true}) {
      SCOPED_TRACE(c10::str(draws, is_momentum));
      const at::Tensor plain = gradients(in_place, draws, is_momentum);
      for (const Form& form : {Form(in_tape), Form(in_scope), Form(in_function)}) {
        EXPECT_TRUE(bitwise_equal(gradients(form, draws, is_momentum), plain));
      }
    }
  }
}

TEST(UncountedWriteMomentTest, OrdersMomentsAcrossTheirEnd) {
  using engine_internal::is_after;
  EXPECT_TRUE(is_after(2, 1));
  EXPECT_FALSE(is_after(1, 1));
  EXPECT_TRUE(is_after(1, 0xffffffffU));
  EXPECT_FALSE(is_after(0xffffffffU, 1));
}

}  // namespace
}  // namespace reprise::testing::uncounted_writes_test
