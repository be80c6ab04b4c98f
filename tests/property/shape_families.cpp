// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Views, copies of other shapes, indexing, sorting, sparse and nested tensors.
#include "tests/property/operator_families.h"

namespace reprise::testing {

using S = Surroundings;
using T = at::Tensor;

namespace {

at::Tensor every_other() { return torch::tensor({0, 2, 4}, at::kLong); }

std::vector<Family> views() {
  return {
      {"t", [](S&, const T& x) { return x.t().contiguous() + x.t().sin(); }},
      {"permute",
       [](S&, const T& x) {
         return x.view({2, 2, 6}).permute({2, 0, 1}).exp();
       }},
      {"narrow", [](S&, const T& x) { return x.narrow(1, 1, 3) * x.narrow(1, 3, 3); }},
      {"select", [](S&, const T& x) { return x.select(0, 1) * x.select(0, 2).sin(); }},
      {"slice", [](S&, const T& x) { return x.slice(1, 0, 6, 2).square(); }},
      {"expand",
       [](S& s, const T& x) {
         return s.bias.expand({4, 6}).exp() * x;
       }},
      {"unfold", [](S&, const T& x) { return x.unfold(1, 3, 2).sin(); }},
      {"as_strided",
       [](S&, const T& x) {
         return x.contiguous().as_strided({3, 4}, {1, 6}).tanh();
       }},
      {"diagonal", [](S& s, const T&) { return s.square.diagonal().exp() * s.square.diag(); }},
      {"chunk",
       [](S&, const T& x) {
         auto c = x.chunk(2, 1);
         return c[0].sin() * c[1];
       }},
      {"split",
       [](S&, const T& x) {
         auto c = x.split_with_sizes({1, 2, 3}, 1);
         return at::cat({c[2].exp(), c[0]}, 1);
       }},
      {"unbind", [](S&, const T& x) { return at::stack(x.unbind(0), 1).sin(); }},
      {"movedim",
       [](S&, const T& x) {
         return x.view({2, 2, 6}).movedim(2, 0).cos();
       }},
      {"view of another dtype",
       [](S&, const T& x) {
         return x * (x.detach().contiguous().view(at::kInt) % 3).to(at::kFloat);
       }},
      {"swapaxes",
       [](S&, const T& x) {
         return x.swapaxes(0, 1).reshape({4, 6}).exp();
       }},
      {"detach", [](S&, const T& x) { return x * x.detach() + x.detach().sin(); }},
      {"view of a view",
       [](S&, const T& x) {
         return x.view({24}).narrow(0, 2, 12).view({3, 4}).t().sin();
       }},
  };
}

std::vector<Family> copies() {
  return {
      {"cat",
       [](S& s, const T& x) {
         return at::cat({x, s.square}, 0).sin();
       }},
      {"stack",
       [](S&, const T& x) {
         return at::stack({x, x.sin()}, 1).exp();
       }},
      {"repeat",
       [](S& s, const T&) {
         return s.bias.repeat({4, 1}).square();
       }},
      {"repeat_interleave", [](S& s, const T&) { return s.bias.repeat_interleave(3).sin(); }},
      {"flip", [](S&, const T& x) { return x.flip({1}) * x; }},
      {"roll",
       [](S&, const T& x) {
         return x.roll({1, 2}, {0, 1}) * x;
       }},
      {"tril", [](S& s, const T&) { return s.square.tril().mm(s.square.triu()); }},
      {"pad",
       [](S&, const T& x) {
         return at::constant_pad_nd(x, {1, 2}, 0.5).sin();
       }},
      {"reflection_pad",
       [](S&, const T& x) {
         return at::reflection_pad1d(x.unsqueeze(0), {1, 1}).sin();
       }},
      {"clone of other strides", [](S&, const T& x) { return x.t().clone().exp(); }},
      {"channels last",
       [](S&, const T& x) {
         return x.view({1, 2, 2, 6}).contiguous(at::MemoryFormat::ChannelsLast).exp();
       }},
      {"meshgrid",
       [](S& s, const T& x) {
         auto g = at::meshgrid({x[0], s.bias}, "ij");
         return g[0] * g[1];
       }},
      {"block_diag",
       [](S& s, const T& x) {
         return at::block_diag({x, s.square}).sin();
       }},
      {"tile and broadcast",
       [](S& s, const T& x) {
         auto b = at::broadcast_tensors({x, s.bias});
         return b[1].tile({1, 2});
       }},
  };
}

std::vector<Family> indexing() {
  return {
      {"index",
       [](S&, const T& x) {
         return x.index({at::indexing::Slice(), every_other()}).exp();
       }},
      {"index by mask", [](S&, const T& x) { return x.index({x > 0}).exp(); }},
      {"index_select",
       [](S& s, const T&) { return s.embedding.index_select(0, every_other()).sin(); }},
      {"gather", [](S&, const T& x) { return x.gather(1, x.detach().argsort(1, false)).exp(); }},
      {"scatter",
       [](S&, const T& x) {
         return at::zeros({4, 6}).scatter(1, x.detach().argsort(1, false), x.sin());
       }},
      {"scatter_add",
       [](S& s, const T& x) { return s.square.scatter_add(0, (x.detach() > 0).to(at::kLong), x); }},
      {"scatter_reduce",
       [](S& s, const T& x) {
         return s.square.scatter_reduce(0, (x.detach() > 0).to(at::kLong), x, "amax");
       },
       false},
      {"index_add",
       [](S& s, const T& x) { return s.square.index_add(0, every_other(), x.narrow(0, 0, 3)); }},
      {"index_copy",
       [](S& s, const T& x) {
         return s.square.index_copy(0, every_other(), x.narrow(0, 0, 3)).sin();
       }},
      {"masked_fill", [](S&, const T& x) { return x.masked_fill(x > 0.3, 0.1).exp(); }},
      {"masked_scatter", [](S& s, const T& x) { return x.masked_scatter(x > 0, s.square).sin(); }},
      {"take", [](S&, const T& x) { return x.take(every_other()).exp(); }},
      {"embedding", [](S& s, const T&) { return at::embedding(s.embedding, every_other()).sin(); }},
      {"embedding_bag",
       [](S& s, const T&) {
         return std::get<0>(
             at::embedding_bag(s.embedding, every_other(), torch::tensor({0, 1}, at::kLong)));
       },
       false},
      {"sort",
       [](S&, const T& x) {
         auto [v, i] = x.sort(1);
         return v.exp() * i;
       }},
      {"topk",
       [](S&, const T& x) {
         auto [v, i] = x.topk(3, 1);
         return v.exp() + x.gather(1, i);
       }},
      {"argmax", [](S& s, const T& x) { return s.embedding.index_select(0, x.argmax(1)); }},
      {"unique",
       [](S& s, const T& x) {
         auto [u, i, c] = at::_unique2((x.detach() * 2).to(at::kLong), true, true, true);
         return u.to(at::kFloat) * s.bias[0] + c;
       }},
      {"nonzero",
       [](S&, const T& x) {
         auto n = (x.detach() > 0).nonzero();
         return x.index({n.select(1, 0), n.select(1, 1)}).sin();
       }},
      {"searchsorted",
       [](S& s, const T& x) {
         return s.bias.index({at::searchsorted(at::linspace(-1, 1, 5), x.detach().contiguous())});
       }},
      {"one_hot",
       [](S& s, const T&) { return at::one_hot(every_other(), 6).to(at::kFloat).mm(s.square); }},
      {"bucketize and counts",
       [](S& s, const T& x) {
         return at::bincount((x.detach().abs() * 3).to(at::kLong).flatten(), {}, 6) * s.bias.sum();
       }},
  };
}

std::vector<Family> layouts() {
  return {
      {"sparse",
       [](S& s, const T& x) {
         return at::sparse_coo_tensor(torch::tensor({{0, 2}, {1, 3}}, at::kLong),
                                      x[0].narrow(0, 0, 2), {4, 6})
             .mm(s.square);
       },
       false},
      {"to_dense",
       [](S&, const T& x) {
         return at::sparse_coo_tensor(torch::tensor({{0, 2}, {1, 3}}, at::kLong),
                                      x[0].narrow(0, 0, 2), {4, 6})
             .coalesce()
             .to_dense();
       },
       false},
      {"nested",
       [](S&, const T& x) {
         return at::_nested_tensor_from_tensor_list({x.narrow(0, 0, 2), x.narrow(0, 2, 1)})
             .to_padded_tensor(0)
             .sin();
       },
       false},
  };
}

}  // namespace

std::vector<Family> shape_families() {
  std::vector<Family> all = views();
  for (const auto& some : {copies(), indexing(), layouts()}) {
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

}  // namespace reprise::testing
