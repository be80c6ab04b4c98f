// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Results that a policy keeps, on their device or in a store, and that the region writes to
// afterwards: several times, by operators that write to several tensors, with a change of size, out
// of the policy's sight, or through a pointer.
#include "reprise/engine/policy_bypass.h"
#include "reprise/hooks/slab_store.h"
#include "tests/engine/under_policies.h"

namespace reprise::testing::kept_writes_test {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

class KeptWritesTest : public UnderPolicies {
 protected:
  // Each subset of the first `operators` operators kept, in both forms, where they are, in a store
  // that shares their memory and in one that does not; as a preference, and with `must` also as an
  // answer that leaves no choice.
  void expect_as_plain_in_stores(const OperatorCase& tested, unsigned operators, bool must = true) {
    outcome_of(tested, false, Plain{});
    const Outcome expected = outcome_of(tested, false, Plain{});
    const std::vector<std::shared_ptr<ActivationStore>> places = {
        nullptr, stores::device(), stores::packed({.min_bytes = 0, .find_constants = true})};
    for (std::uint64_t bits = 0; bits < (std::uint64_t{1} << operators); ++bits) {
      for (std::size_t place = 0; place < places.size(); ++place) {
        for (const bool is_must : {false, true}) {
          if (is_must && !must) {
            continue;
          }
          for (const ReplayMode replay : {ReplayMode::kFunction, ReplayMode::kTape}) {
            SCOPED_TRACE(c10::str(tested.name, ", bits ", bits, ", place ", place,
                                  is_must ? ", must" : "",
                                  replay == ReplayMode::kTape ? ", tape" : ", function"));
            UnderPolicies::expect_as_plain(
                tested, {.policy = by_ordinal_in(places[place], bits, is_must), .replay = replay},
                expected);
          }
        }
      }
    }
  }
};

// A saved tensor that has been changed since is given to nobody, and its contents do not matter.
TEST_F(KeptWritesTest, SkipContentsThatAutogradHasSaved) {
  const std::vector<std::function<void(const at::Tensor&)>> writes = {
      [](const at::Tensor& y) { y.mul_(2); }, [](const at::Tensor& y) { y.fill_(2); },
      [](const at::Tensor& y) { y.select(0, 1).zero_(); }};
  const at::Tensor x = leaf({4});
  for (const auto& write : writes) {
    const auto code = [&write](const at::Tensor& t) {
      const at::Tensor y = t.exp();
      write(y);
      return Tensors{(y.detach() * t).sin(), y};
    };
    const Tensors expected = gradients(code(x)[0], {x});
    for (std::uint64_t bits = 0; bits < 16; ++bits) {
      for (const ReplayMode replay : {ReplayMode::kFunction, ReplayMode::kTape}) {
        const Tensors results = checkpoint({.policy = by_ordinal_in(nullptr, bits, false),
                                            .replay = replay,
                                            .determinism_check = DeterminismCheck::kValues},
                                           code, x);
        expect_same_bits(gradients(results[0], {x}), expected);
      }
    }
  }
}

TEST_F(KeptWritesTest, TwiceInPlace) {
  expect_as_plain_in_stores({"mul_, add_",
                             {{4}},
                             [](const Tensors& in) {
                               at::Tensor y = in[0].clone();
                               y.mul_(2);
                               y.add_(1);
                               return Tensors{y * y};
                             }},
                            4);
}

TEST_F(KeptWritesTest, TwiceBehindALayer) {
  expect_as_plain_in_stores({"add_, relu_ of a layer",
                             {{3, 4}, {4, 4}},
                             [](const Tensors& in) {
                               at::Tensor y = in[0].mm(in[1]);
                               y.add_(in[0]);
                               y.relu_();
                               return Tensors{y * y};
                             }},
                            4);
}

TEST_F(KeptWritesTest, BetweenReads) {
  expect_as_plain_in_stores({"read, written, read, written",
                             {{4}},
                             [](const Tensors& in) {
                               at::Tensor y = in[0].clone();
                               const at::Tensor a = y * 1.5;
                               y.mul_(2);
                               const at::Tensor b = y + a;
                               y.add_(1);
                               return Tensors{y * b};
                             }},
                            5);
}

TEST_F(KeptWritesTest, WritesByOperatorsOnLists) {
  expect_as_plain_in_stores({"_foreach_mul_, add_",
                             {{4}},
                             [](const Tensors& in) {
                               const Tensors v = {in[0].detach().cos(), in[0].detach().sin()};
                               at::_foreach_mul_(v, 2.0);
                               v[0].add_(1);
                               return Tensors{in[0] * v[0] + v[1]};
                             }},
                            4, /*must=*/false);
}

TEST_F(KeptWritesTest, FollowOperatorsOfCells) {
  torch::manual_seed(5);
  const at::Tensor wih = torch::randn({12, 4});
  const at::Tensor bias = torch::randn({12});
  expect_as_plain({{"gru_cell", {{3, 4}}, [=](const Tensors& in) {
                      return Tensors{at::gru_cell(in[0], in[0].sin(), wih, wih, bias, bias)};
                    }}});
}

TEST_F(KeptWritesTest, FollowResizing) {
  expect_as_plain_in_stores({"out= twice",
                             {{4}},
                             [](const Tensors& in) {
                               at::Tensor t = at::empty({0});
                               {
                                 const at::NoGradGuard no_grad;
                                 at::mul_out(t, in[0], in[0]);
                                 at::add_out(t, t, in[0]);
                               }
                               return Tensors{in[0] * t};
                             }},
                            4);
  expect_as_plain_in_stores({"resize_, copy_",
                             {{4, 4}},
                             [](const Tensors& in) {
                               at::Tensor t = at::empty({2});
                               t.resize_({4, 4});
                               t.copy_(in[0].detach());
                               return Tensors{in[0] * t};
                             }},
                            4);
  expect_as_plain_in_stores({"set_",
                             {{4}},
                             [](const Tensors& in) {
                               at::Tensor t = at::zeros({4});
                               t.set_(in[0].detach().cos());
                               t.mul_(2);
                               return Tensors{(in[0].sin() * t).exp()};
                             }},
                            5);
}

TEST_F(KeptWritesTest, HiddenFromThePolicy) {
  expect_as_plain_in_stores({"mul_ under PolicyBypassGuard",
                             {{4}},
                             [](const Tensors& in) {
                               at::Tensor h = in[0].sin();
                               {
                                 const PolicyBypassGuard hidden;
                                 h.mul_(2);
                               }
                               return Tensors{h.exp().sin()};
                             }},
                            3);
}

struct InPlaceRelu : torch::autograd::Function<InPlaceRelu> {
  static at::Tensor forward(AutogradContext* context, at::Tensor x) {
    x.relu_();
    const at::Tensor mask = x > 0;
    context->mark_dirty({x});
    context->save_for_backward({mask});
    return x;
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    return {gradients[0] * context->get_saved_variables()[0]};
  }
};

// LibTorch counts a version for mark_dirty() when the Function has returned.
TEST_F(KeptWritesTest, SavesByAFunctionThatRunsAnotherOperator) {
  expect_as_plain_in_stores(
      {"relu_, gt",
       {{3, 4}, {4, 4}},
       [](const Tensors& in) { return Tensors{InPlaceRelu::apply(in[0].mm(in[1])).sin()}; }},
      4);
}

TEST_F(KeptWritesTest, ReadsAfterAChangeOfShape) {
  expect_as_plain_in_stores({"mul_, t_",
                             {{4, 4}},
                             [](const Tensors& in) {
                               at::Tensor y = in[0].sin();
                               y.mul_(2);
                               y.t_();
                               return Tensors{y.exp()};
                             }},
                            4);
}

// Adds to memory that is zero before, as a renderer does.
struct Splat : torch::autograd::Function<Splat> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, bool is_like) {
    at::Tensor out = is_like ? at::zeros_like(x) : at::zeros(x.sizes());
    auto* const to = out.mutable_data_ptr<float>();
    const auto* const from = static_cast<const float*>(x.const_data_ptr());
    for (std::int64_t i = 0; i < x.numel(); ++i) {
      to[i] += from[i] * from[i];
    }
    context->save_for_backward({x, out});
    return out;
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    return {gradients[0] * (2 * saved[0] + saved[1]), at::Tensor()};
  }
};

// A replay that was given the memory that forward filled would add to it again, and with that to
// the caller's result.
TEST_F(KeptWritesTest, ThroughAPointerIntoConstants) {
  for (const bool is_like : {false, true}) {
    const auto code = [is_like](const at::Tensor& x) { return Splat::apply(x.exp(), is_like); };
    for (const bool must : {false, true}) {
      SCOPED_TRACE(c10::str(is_like ? "zeros_like" : "zeros", must ? ", must" : ""));
      const at::Tensor x = leaf({5});
      const at::Tensor expected = torch::autograd::grad({code(x).sum()}, {x})[0];
      const at::Tensor y =
          checkpoint({.policy = by_ordinal_in(nullptr, ~std::uint64_t{0}, must)}, code, x);
      const at::Tensor before = y.detach().clone();
      expect_same_bits({gradients(y, {x})[0], y.detach()}, {expected, before});
    }
  }
}

}  // namespace
}  // namespace reprise::testing::kept_writes_test
