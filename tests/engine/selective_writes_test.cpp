// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Writes to results of a region, under policies of many kinds: in place, through views, into
// out= arguments, and changes of shape.
#include "tests/engine/under_policies.h"

namespace reprise::testing::selective_writes_test {
namespace {

class SelectiveWritesTest : public UnderPolicies {};

TEST_F(SelectiveWritesTest, RunsInPlace) {
  expect_as_plain({
      {"chains",
       {{4}},
       [](const Tensors& in) {
         return Tensors{in[0].sin().add_(1).mul_(2).sigmoid_().mul(in[0]).exp_()};
       }},
      {"relu_ of a layer",
       {{3, 4}, {4, 4}},
       [](const Tensors& in) {
         return Tensors{in[0].mm(in[1]).add_(in[0]).relu_().mm(in[1]).relu_() + in[0]};
       }},
      {"fills",
       {{4, 4}},
       [](const Tensors& in) {
         at::Tensor a = in[0] * 2;
         a.masked_fill_(in[0].detach() > 0, 0.5);
         at::Tensor b = at::empty({4, 4}).fill_(3);
         b.triu_().zero_().add_(a.detach());
         return Tensors{a.exp(), b * in[0], at::zeros({4}).copy_(in[0][0]).tanh()};
       }},
      {"index_put_ into constants",
       {{4, 4}},
       [](const Tensors& in) {
         at::Tensor a = at::zeros({4, 4});
         a.index_put_({at::tensor({0, 2}, at::kLong)}, in[0].sin().narrow(0, 0, 2));
         a.index_fill_(1, at::tensor({3}, at::kLong), 2)
             .index_copy_(0, at::tensor({1}, at::kLong), in[0].cos()[3][0].expand({1, 4}));
         return Tensors{a.exp()};
       }},
      {"addcmul_, lerp_, mul_",
       {{4}},
       [](const Tensors& in) {
         at::Tensor a = in[0].sin();
         a.addcmul_(in[0], in[0].cos(), 0.3).lerp_(in[0].exp(), 0.2);
         a.mul_(2).add_(1);
         return Tensors{a.tanh()};
       }},
  });
}

TEST_F(SelectiveWritesTest, ThroughViews) {
  expect_as_plain({
      {"into a view",
       {{4, 4}},
       [](const Tensors& in) {
         at::Tensor a = in[0].sin() * 2;
         a.narrow(0, 1, 2).copy_(in[0].cos().narrow(0, 0, 2));
         a.select(1, 0).mul_(3);
         a.diagonal().add_(1);
         return Tensors{a.exp()};
       }},
      {"read through a view made before",
       {{4, 4}},
       [](const Tensors& in) {
         const at::Tensor a = in[0].sin() + 1;
         const at::Tensor view = a.t();
         at::Tensor(a).mul_(2);
         return Tensors{view.exp() * in[0]};
       }},
      {"a whole view",
       {{2, 6}},
       [](const Tensors& in) {
         const at::Tensor a = in[0].sin() + 1;
         a.view({3, 4}).sigmoid_();
         return Tensors{a.exp()};
       }},
      {"rows of a buffer",
       {{3, 4}},
       [](const Tensors& in) {
         at::Tensor buffer = at::empty({3, 4});
         for (int row = 0; row < 3; ++row) {
           buffer[row] =
               row == 0 ? in[0][row].sin() : buffer[row - 1].detach().clone() * in[0][row];
         }
         return Tensors{buffer.exp()};
       }},
  });
}

// A policy may keep the earlier state and recompute its readers.
TEST_F(SelectiveWritesTest, ReadsAfterARead) {
  const std::vector<OperatorCase> cases = {
      {"added, then changed",
       {{4}},
       [](const Tensors& in) {
         at::Tensor a = in[0] * 2;
         const at::Tensor before = (a + 1).sin();
         a.add_(before);
         return Tensors{a.exp() * before};
       }},
      {"read and changed twice",
       {{4}},
       [](const Tensors& in) {
         at::Tensor a = in[0].sin() + 1;
         at::Tensor b = (a * 2).tanh() + 1;
         a.mul_(3);
         b.add_(a);
         a.sub_(1);
         return Tensors{b.exp(), a.sigmoid()};
       }},
      {"a running sum",
       {{4}},
       [](const Tensors& in) {
         at::Tensor sum = at::zeros({4});
         Tensors out;
         for (int step = 1; step < 4; ++step) {
           sum.add_(in[0].detach() * step);
           out.push_back((in[0] * (sum + 1)).sin());
         }
         return out;
       }},
  };
  for (const OperatorCase& tested : cases) {
    outcome_of(tested, false, Plain{});
    const Outcome expected = outcome_of(tested, false, Plain{});
    for (NamedOptions& named : options_of_many_kinds()) {
      SCOPED_TRACE(c10::str(tested.name, " under ", named.name));
      named.options.allow_cache_entry_mutation = true;
      UnderPolicies::expect_as_plain(tested, named.options, expected);
    }
  }
}

TEST_F(SelectiveWritesTest, IntoOutArguments) {
  expect_as_plain({
      {"of the right shape",
       {{4}},
       [](const Tensors& in) {
         const at::Tensor a = in[0].detach().sin();
         at::Tensor out = at::empty({4});
         at::add_out(out, a, a.cos());
         return Tensors{(in[0] * out).exp()};
       }},
      {"that are resized",
       {{4}},
       [](const Tensors& in) {
         const at::Tensor a = in[0].detach().sin();
         at::Tensor out = at::empty({0});
         at::mul_out(out, a, a);
         at::Tensor twice = at::empty({0});
         at::cat_out(twice, {out, a});
         return Tensors{(in[0] * out).exp(), in[0] * twice.narrow(0, 2, 4)};
       }},
      {"several",
       {{3, 4}},
       [](const Tensors& in) {
         at::Tensor values = at::empty({3});
         at::Tensor indices = at::empty({3}, at::kLong);
         at::max_out(values, indices, in[0].detach().sin(), 1);
         return Tensors{in[0].t() * values, in[0].exp().gather(1, indices.unsqueeze(1)).sin()};
       }},
      {"under NoGradGuard",
       {{4, 4}},
       [](const Tensors& in) {
         at::Tensor scale;
         {
           const at::NoGradGuard no_grad;
           scale = in[0].abs().amax(1, true);
           scale.add_(1).reciprocal_();
           at::Tensor product = at::empty({4, 4});
           scale = at::mm_out(product, in[0], scale.expand({4, 4}).contiguous());
         }
         return Tensors{(in[0] * scale).tanh()};
       }},
  });
}

TEST_F(SelectiveWritesTest, ReshapeKeptResults) {
  expect_as_plain({
      {"t_, transpose_",
       {{2, 3}},
       [](const Tensors& in) {
         at::Tensor a = in[0].sin();
         a.t_();
         return Tensors{a.mm(in[0]).exp(), a.mul(2).transpose_(0, 1).tanh()};
       }},
      {"unsqueeze_, squeeze_",
       {{2, 3}},
       [](const Tensors& in) {
         at::Tensor a = in[0].sin().unsqueeze_(0);
         return Tensors{(a * in[0].unsqueeze(1)).exp(), a.cos().squeeze_(0).mm(in[0].t())};
       }},
      {"resize_",
       {{4}},
       [](const Tensors& in) {
         const at::Tensor a = at::ones({4});
         a.resize_({2, 2}).add_(1);
         const at::Tensor b = at::empty({0});
         b.resize_({4}).fill_(2);
         return Tensors{(in[0].view({2, 2}) * a).exp(), (in[0] * b).sin()};
       }},
      {"detach_ and requires_grad_",
       {{4}},
       [](const Tensors& in) {
         at::Tensor a = in[0].sin();
         a.detach_();
         return Tensors{(in[0] * a).exp()};
       }},
      {"set_data",
       {{4}},
       [](const Tensors& in) {
         at::Tensor a = at::ones({4});
         a.set_data(in[0].detach().cos());
         return Tensors{(in[0] * a).exp()};
       }},
  });
}

}  // namespace
}  // namespace reprise::testing::selective_writes_test
