// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Operators under policies of many kinds, by their results: new tensors, random ones, several,
// lists, and sparse matrices.
#include "tests/engine/under_policies.h"

namespace reprise::testing::selective_results_test {
namespace {

class SelectiveResultsTest : public UnderPolicies {};

TEST_F(SelectiveResultsTest, Factories) {
  expect_as_plain({
      {"constants",
       {{4, 4}},
       [](const Tensors& in) {
         const at::Tensor a = in[0].sin() * at::arange(4).to(at::kFloat) + at::eye(4);
         const at::Tensor b = at::zeros({4}).add(1) * at::full({4}, 3.0) + at::ones_like(a);
         return Tensors{(a * b).exp(), at::zeros_like(a) + at::full_like(a, 2), b,
                        a * torch::tensor({1.F, 2.F, 3.F, 4.F})};
       }},
      {"random",
       {{4, 4}},
       [](const Tensors& in) {
         const at::Tensor order = at::randperm(4);
         const at::Tensor a = in[0].sin().index_select(0, order) * at::randn({4, 4});
         const at::Tensor b = at::rand_like(a) + at::normal(0.0, 1.0, {4, 4});
         const at::Tensor c = at::normal(a.detach(), 0.5) * at::randint(0, 9, {4, 4});
         return Tensors{(a * b).exp(), a * c.tanh(), b};
       }},
      {"sampled",
       {{4, 4}},
       [](const Tensors& in) {
         const at::Tensor p = in[0].softmax(1);
         const at::Tensor drawn = at::multinomial(p.detach(), 2);
         const at::Tensor mask = at::empty_like(p).bernoulli_(p.detach());
         return Tensors{p.gather(1, drawn).log(), (p * mask).exp(), drawn,
                        p * at::poisson(p.detach() * 3)};
       }},
  });
}

TEST_F(SelectiveResultsTest, SeveralResults) {
  expect_as_plain({
      {"sort, topk",
       {{3, 6}},
       [](const Tensors& in) {
         const auto [sorted, order] = in[0].sin().sort(1);
         const auto [largest, where] = (sorted * 2).exp().topk(2, 1);
         return Tensors{largest.tanh(), sorted.gather(1, where).cos(), order};
       }},
      {"max, var_mean, mode",
       {{3, 6}},
       [](const Tensors& in) {
         const auto [top, where] = in[0].sin().max(1);
         const auto [variance, mean] = at::var_mean(in[0].exp(), 1);
         return Tensors{top.exp() * variance, mean.tanh(), where, std::get<0>(in[0].median(0))};
       }},
      {"native_layer_norm",
       {{3, 4}},
       [](const Tensors& in) {
         const auto [y, mean, rstd] = at::native_layer_norm(in[0].sin(), {4}, {}, {}, 1e-5);
         return Tensors{y.exp(), mean * 2, rstd.sqrt()};
       }},
      {"svd, eigh",
       {{4, 4}},
       [](const Tensors& in) {
         const at::Tensor symmetric = in[0].mm(in[0].t()).add(at::eye(4));
         const auto [values, vectors] = at::linalg_eigh(symmetric);
         return Tensors{values.log(), vectors.abs().exp(), at::linalg_svdvals(in[0].sin())};
       }},
      {"unique, nonzero",
       {{6}},
       [](const Tensors& in) {
         const at::Tensor buckets = in[0].detach().sign().to(at::kLong);
         const auto [values, inverse, counts] = at::_unique2(buckets, true, true, true);
         const at::Tensor positive = (in[0].detach() > 0).nonzero().squeeze(1);
         return Tensors{in[0].sin() * inverse, in[0].exp().index_select(0, positive).cos(), counts,
                        values};
       }},
      {"frexp, aminmax, cummax",
       {{6}},
       [](const Tensors& in) {
         const auto [mantissa, exponent] = at::frexp(in[0].exp());
         const auto [low, high] = at::aminmax(in[0].detach().sin());
         return Tensors{mantissa.tanh(), exponent, in[0] * low * high,
                        std::get<0>(in[0].cos().cummax(0)).exp()};
       }},
  });
}

TEST_F(SelectiveResultsTest, ListsOfTensors) {
  expect_as_plain({
      {"cat, stack",
       {{3}, {3}},
       [](const Tensors& in) {
         const at::Tensor a = at::cat({in[0].sin(), in[1].exp(), in[0]}) * 2;
         return Tensors{at::stack({a.tanh(), a.cos()}, 1).softmax(1), at::hstack({a, in[1]})};
       }},
      {"index with an optional list",
       {{3, 4}},
       [](const Tensors& in) {
         const at::Tensor which = at::tensor({2, 0}, at::kLong);
         const at::Tensor a = in[0].sin().index({which});
         return Tensors{a.exp().index({torch::indexing::Slice(), which}) * 2,
                        in[0].cos().index({in[0].detach() > 0}).exp()};
       }},
      {"foreach",
       {{3}, {4}},
       [](const Tensors& in) {
         Tensors a = at::_foreach_add({in[0].sin(), in[1].cos()}, 2);
         const Tensors b = at::_foreach_mul(a, Tensors{in[0], in[1]});
         Tensors constants = {a[0].detach().clone(), a[1].detach().clone()};
         at::_foreach_add_(constants, 1);
         return Tensors{b[0].exp() * constants[0], b[1].tanh() * constants[1]};
       }},
      {"meshgrid, broadcast_tensors",
       {{3}, {4}},
       [](const Tensors& in) {
         const Tensors grid = at::meshgrid({in[0].sin(), in[1].cos()}, "ij");
         return Tensors{(grid[0] * grid[1]).exp()};
       }},
  });
}

TEST_F(SelectiveResultsTest, SparseMatrices) {
  const auto sparse = [](const at::Tensor& values) {
    const at::Tensor indices = at::tensor({0, 1, 2, 2, 0, 1}, at::kLong).view({2, 3});
    return at::sparse_coo_tensor(indices, values, {3, 3});
  };
  expect_as_plain({
      {"COO times dense",
       {{3}, {3, 4}},
       [sparse](const Tensors& in) {
         return Tensors{at::_sparse_mm(sparse(in[0].sin()), in[1].exp()).tanh()};
       }},
      {"sum, coalesce, to_dense",
       {{3}},
       [sparse](const Tensors& in) {
         const at::Tensor a = sparse(in[0].sin()).coalesce();
         return Tensors{(a + a).to_dense().exp(), at::_sparse_sum(a * 2)};
       }},
      {"sparse_mask",
       {{3, 3}},
       [sparse](const Tensors& in) {
         const at::Tensor mask = sparse(at::ones({3})).coalesce();
         return Tensors{in[0].sin().sparse_mask(mask).to_dense() * in[0]};
       }},
      {"CSR constant",
       {{3, 4}},
       [sparse](const Tensors& in) {
         const at::Tensor a = sparse(at::ones({3})).to_sparse_csr();
         return Tensors{at::mm(a, in[0].sin()).exp()};
       }},
  });
}

}  // namespace
}  // namespace reprise::testing::selective_results_test
