// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Operators under policies of many kinds: composite and recurrent ones, views, complex numbers, and
// autocast.
#include "tests/engine/under_policies.h"

namespace reprise::testing::selective_operators_test {
namespace {

class SelectiveOperatorsTest : public UnderPolicies {};

Tensors attention(const Tensors& in) {
  const at::Tensor x = in[0].sin();
  const auto heads = [](const at::Tensor& t) { return t.view({2, 4, 2, 3}).transpose(1, 2); };
  const at::Tensor q = heads(x.matmul(in[1]));
  const at::Tensor k = heads(x.matmul(in[1]).tanh());
  const at::Tensor weights = (q.matmul(k.transpose(-2, -1)) / 1.7).softmax(-1);
  return {torch::dropout(weights, 0.2, true).matmul(heads(x)).transpose(1, 2).reshape({2, 4, 6})};
}

TEST_F(SelectiveOperatorsTest, ComposedOfOthers) {
  expect_as_plain({
      {"einsum",
       {{2, 3, 4}, {2, 4, 5}},
       [](const Tensors& in) {
         return Tensors{at::einsum("bij,bjk->bik", {in[0].sin(), in[1]}).exp()};
       }},
      {"layer_norm",
       {{3, 4}, {4}, {4}},
       [](const Tensors& in) {
         return Tensors{at::layer_norm(in[0].sin(), {4}, in[1], in[2]).tanh()};
       }},
      {"group_norm",
       {{2, 4, 3, 3}, {4}, {4}},
       [](const Tensors& in) {
         return Tensors{at::group_norm(in[0].sin(), 2, in[1], in[2]).sigmoid()};
       }},
      {"attention", {{2, 4, 6}, {6, 6}}, attention},
      {"cross_entropy",
       {{4, 5}},
       [](const Tensors& in) {
         const at::Tensor target = at::arange(4, at::kLong);
         return Tensors{at::cross_entropy_loss(in[0].sin() * 2, target, {}, 1, -100, 0.1)};
       }},
      {"cdist",
       {{3, 4}, {5, 4}},
       [](const Tensors& in) { return Tensors{at::cdist(in[0].sin(), in[1].exp()).tanh()}; }},
  });
}

TEST_F(SelectiveOperatorsTest, RecurrentCells) {
  const auto weights = [](const Tensors& in, std::size_t from) {
    return Tensors{in[from], in[from + 1], in[from + 2], in[from + 3]};
  };
  expect_as_plain({
      {"gru_cell",
       {{2, 3}, {2, 4}, {12, 3}, {12, 4}, {12}, {12}},
       [](const Tensors& in) {
         at::Tensor h = in[1];
         for (int step = 0; step < 3; ++step) {
           h = at::gru_cell(in[0].sin(), h, in[2], in[3], in[4], in[5]);
         }
         return Tensors{h};
       }},
      {"lstm_cell",
       {{2, 3}, {2, 4}, {16, 3}, {16, 4}, {16}, {16}},
       [](const Tensors& in) {
         at::Tensor h = in[1];
         at::Tensor c = in[1].sin();
         for (int step = 0; step < 3; ++step) {
           std::tie(h, c) = at::lstm_cell(in[0].sin(), {h, c}, in[2], in[3], in[4], in[5]);
         }
         return Tensors{h, c};
       }},
      {"gru",
       {{3, 2, 3}, {1, 2, 4}, {12, 3}, {12, 4}, {12}, {12}},
       [weights](const Tensors& in) {
         const auto [out, h] =
             at::gru(in[0].sin(), in[1].cos(), weights(in, 2), true, 1, 0., true, false, false);
         return Tensors{out.exp(), h};
       }},
      {"lstm",
       {{3, 2, 3}, {1, 2, 4}, {16, 3}, {16, 4}, {16}, {16}},
       [weights](const Tensors& in) {
         const auto [out, h, c] = at::lstm(in[0].sin(), {in[1].cos(), in[1].sin()}, weights(in, 2),
                                           true, 1, 0., true, false, false);
         return Tensors{out.exp(), h, c};
       },
       /*saves_unset_memory=*/true},
  });
}

TEST_F(SelectiveOperatorsTest, Views) {
  expect_as_plain({
      {"narrow, select, slice",
       {{4, 5}},
       [](const Tensors& in) {
         const at::Tensor a = in[0].sin();
         return Tensors{a.narrow(0, 1, 2) * a.select(0, 3) + a.slice(1, 0, 5, 4).exp()[0][1]};
       }},
      {"unfold",
       {{8}},
       [](const Tensors& in) { return Tensors{(in[0].sin().unfold(0, 3, 2) * 2).exp()}; }},
      {"as_strided",
       {{4, 4}},
       [](const Tensors& in) {
         return Tensors{in[0].exp().as_strided({3, 3}, {5, 1}, 1).sin() * 2};
       }},
      {"unbind, split, chunk",
       {{3, 4}},
       [](const Tensors& in) {
         const Tensors rows = in[0].sin().unbind(0);
         const Tensors parts = (rows[0] * rows[1]).exp().split(2);
         const Tensors chunks = rows[2].cos().chunk(2);
         return Tensors{parts[0] * chunks[1], parts[1].tanh(), rows[1].sigmoid()};
       }},
      {"expand, diagonal",
       {{4}},
       [](const Tensors& in) {
         const at::Tensor a = in[0].sin().expand({4, 4});
         return Tensors{(a * a.t()).diagonal().exp(), (a + 1).tanh().diagonal(1) * 3};
       }},
      {"movedim, reshape, squeeze",
       {{2, 1, 3, 4}},
       [](const Tensors& in) {
         const at::Tensor a = in[0].sin().movedim(2, 0).reshape({6, 4}).exp();
         return Tensors{a.unsqueeze(1).tanh().squeeze() * in[0].squeeze().view({6, 4})};
       }},
      {"view of dtype, unsafe_split, alias",
       {{4}},
       [](const Tensors& in) {
         const Tensors parts = in[0].sin().unsafe_split(2);
         const at::Tensor bits = in[0].detach().cos().view(at::kInt).bitwise_and(0x7fff0000);
         return Tensors{parts[0].exp() * at::alias(parts[1]), in[0] * bits.view(at::kFloat)};
       }},
  });
}

TEST_F(SelectiveOperatorsTest, ComplexNumbers) {
  expect_as_plain({
      {"view_as_complex",
       {{4, 2}},
       [](const Tensors& in) {
         const at::Tensor z = at::view_as_complex(in[0].sin()).exp();
         return Tensors{at::view_as_real(z * z.conj()).tanh(), z.angle(), z.abs().sqrt()};
       }},
      {"conjugates and negative views",
       {{4, 4}},
       [](const Tensors& in) {
         const at::Tensor z = at::complex(in[0].sin(), in[0].cos());
         const at::Tensor w = z.conj().mm(z.t()).conj();
         return Tensors{at::real(w).exp() + at::imag(w.conj()).sin(), at::imag(z.conj()) * in[0]};
       }},
      {"fft",
       {{8}},
       [](const Tensors& in) {
         return Tensors{at::fft_irfft(at::fft_rfft(in[0].sin()).mul(2).tanh()).exp()};
       }},
  });
}

TEST_F(SelectiveOperatorsTest, AutocastToBfloat16) {
  const auto under_autocast = [](auto code) {
    return [code](const Tensors& in) {
      const AutocastScope autocast(true);
      return code(in);
    };
  };
  expect_as_plain({
      {"linear layers, a shared weight",
       {{2, 4}, {4, 4}, {4}},
       under_autocast([](const Tensors& in) {
         const at::Tensor h = at::linear(in[0].sin(), in[1], in[2]).relu();
         return Tensors{at::linear(h, in[1]).softmax(-1), at::layer_norm(h, {4})};
       })},
      {"attention", {{2, 4, 6}, {6, 6}}, under_autocast(attention)},
  });
}

}  // namespace
}  // namespace reprise::testing::selective_operators_test
