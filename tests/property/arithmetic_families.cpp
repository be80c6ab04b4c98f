// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Elementwise operators, reductions, matrix products, linear algebra, complex numbers, and random
// ones.
#include "tests/property/operator_families.h"

namespace reprise::testing {

using S = Surroundings;
using T = at::Tensor;

namespace {

std::vector<Family> elementwise() {
  return {
      {"sin", [](S&, const T& x) { return x.sin() * x; }},
      {"exp", [](S&, const T& x) { return x.tanh().exp(); }},
      {"log1p", [](S&, const T& x) { return x.square().log1p(); }},
      {"sqrt", [](S&, const T& x) { return (x.abs() + 1).sqrt().rsqrt(); }},
      {"pow", [](S&, const T& x) { return (x.abs() + 0.5).pow(1.7) + x.pow(2); }},
      {"pow of tensors", [](S& s, const T& x) { return (x.abs() + 0.5).pow(s.bias); }},
      {"div", [](S& s, const T& x) { return x / (s.bias.square() + 1) + 2 / (x.square() + 1); }},
      {"addcmul", [](S& s, const T& x) { return at::addcmul(x, x.sin(), s.bias, 0.3); }},
      {"addcdiv", [](S& s, const T& x) { return at::addcdiv(x, s.bias, x.square() + 1, 0.3); }},
      {"lerp",
       [](S& s, const T& x) {
         return at::lerp(x, s.bias.expand({4, 6}), x.sigmoid());
       }},
      {"where", [](S& s, const T& x) { return at::where(x > s.bias, x.sin(), s.bias); }},
      {"clamp", [](S&, const T& x) { return x.clamp(-0.5, 0.5) + x.clamp_min(0); }},
      {"minimum", [](S& s, const T& x) { return at::minimum(x, s.bias) + at::fmax(x, s.bias); }},
      {"gelu", [](S&, const T& x) { return at::gelu(x) + at::gelu(x, "tanh"); }},
      {"silu", [](S&, const T& x) { return at::silu(x) + at::mish(x); }},
      {"elu", [](S&, const T& x) { return at::elu(x) + at::celu(x) + at::selu(x); }},
      {"softplus", [](S&, const T& x) { return at::softplus(x) + at::log_sigmoid(x); }},
      {"hardtanh", [](S&, const T& x) { return at::hardtanh(x) + at::hardswish(x); }},
      {"leaky_relu", [](S&, const T& x) { return at::leaky_relu(x, 0.1) + at::relu6(x); }},
      {"prelu", [](S& s, const T& x) { return at::prelu(x, s.bias); }},
      {"erf", [](S&, const T& x) { return x.erf() + x.tanh().erfinv(); }},
      {"atan2", [](S& s, const T& x) { return at::atan2(x, s.bias) + at::hypot(x, s.bias); }},
      {"logaddexp", [](S& s, const T& x) { return at::logaddexp(x, s.bias); }},
      {"lgamma", [](S&, const T& x) { return (x.abs() + 1).lgamma(), (x.abs() + 1).digamma(); }},
      {"xlogy", [](S& s, const T& x) { return at::xlogy(x, s.bias.abs() + 0.1); }},
      {"sign and round", [](S&, const T& x) { return x * x.sign() + x.round() + x.frac(); }},
      {"remainder", [](S&, const T& x) { return at::remainder(x, 0.7) + at::fmod(x, 0.7); }},
      {"to double", [](S&, const T& x) { return x.to(at::kDouble).exp().to(at::kFloat); }},
      {"to bfloat16",
       [](S& s, const T& x) { return x.to(at::kBFloat16).mm(s.square.to(at::kBFloat16)); }},
      {"nan_to_num", [](S&, const T& x) { return (x / x.relu()).nan_to_num(0.5, 1, -1); }},
      {"host number", [](S&, const T& x) { return x * x.detach().mean().item<double>(); }},
      {"branch",
       [](S&, const T& x) { return x.detach().sum().item<float>() > 0 ? x.sin() : x.cos(); }},
  };
}

std::vector<Family> reductions() {
  return {
      {"sum", [](S&, const T& x) { return x.sum(1, true) * x; }},
      {"mean", [](S&, const T& x) { return x.square().mean(0) + x.mean(); }},
      {"prod", [](S&, const T& x) { return (x + 2).prod(1); }},
      {"std", [](S&, const T& x) { return x.std(1, true) + x.var(); }},
      {"norm", [](S&, const T& x) { return x.norm(2, 1, true) + x.norm(); }},
      {"amax", [](S&, const T& x) { return x.amax({1}, true) + x.amin({0}); }},
      {"max", [](S&, const T& x) { return std::get<0>(x.max(1)) + std::get<0>(x.min(1)); }},
      {"median", [](S&, const T& x) { return std::get<0>(x.median(1)) + x.median(); }},
      {"kthvalue", [](S&, const T& x) { return std::get<0>(x.kthvalue(2, 1)); }},
      {"logsumexp", [](S&, const T& x) { return x.logsumexp(1) + x.exp().sum(1); }},
      {"softmax", [](S&, const T& x) { return x.softmax(1) + x.log_softmax(0); }},
      {"cumsum", [](S&, const T& x) { return x.cumsum(1) + (x + 2).cumprod(0); }},
      {"cummax", [](S&, const T& x) { return std::get<0>(x.cummax(1)); }},
      {"logcumsumexp", [](S&, const T& x) { return x.logcumsumexp(1); }, false},
      {"trace", [](S& s, const T&) { return s.square.trace() * s.square.diagonal(); }},
      {"cdist", [](S& s, const T& x) { return at::cdist(x, s.square); }, false},
      {"renorm", [](S&, const T& x) { return x.renorm(2, 0, 0.7); }},
      {"cosine_similarity",
       [](S& s, const T& x) {
         return at::cosine_similarity(x, s.bias.expand({4, 6}));
       }},
  };
}

std::vector<Family> matrices() {
  return {
      {"mm", [](S& s, const T& x) { return x.mm(s.square).tanh(); }},
      {"addmm", [](S& s, const T& x) { return at::addmm(s.bias, x, s.square, 0.5, 0.7); }},
      {"linear", [](S& s, const T& x) { return at::linear(x, s.square, s.bias).relu(); }},
      {"bmm",
       [](S& s, const T& x) {
         return at::bmm(x.view({2, 2, 6}), s.square.expand({2, 6, 6}));
       }},
      {"baddbmm",
       [](S& s, const T& x) {
         return at::baddbmm(s.bias, x.view({2, 2, 6}), s.square.expand({2, 6, 6}));
       }},
      {"mv", [](S& s, const T& x) { return at::mv(x, s.bias) + x.matmul(s.bias); }},
      {"dot", [](S& s, const T& x) { return x[0].dot(s.bias) + at::outer(x[1], s.bias); }},
      {"einsum",
       [](S& s, const T& x) {
         return at::einsum("ij,jk,lk->il", {x, s.square, x});
       }},
      {"chain_matmul",
       [](S& s, const T& x) {
         return at::linalg_multi_dot({x, s.square, s.tall});
       }},
      {"tensordot", [](S& s, const T& x) { return at::tensordot(x, s.square, {1}, {0}); }},
      {"bilinear",
       [](S& s, const T& x) { return at::bilinear(x, x.sin(), s.square.unsqueeze(0)); }},
      {"kron",
       [](S& s, const T& x) { return at::kron(x.narrow(1, 0, 2), s.bias.narrow(0, 0, 2)); }},
      {"inverse",
       [](S& s, const T&) { return (s.square.mm(s.square.t()) + at::eye(6)).inverse(); }},
      {"solve",
       [](S& s, const T& x) {
         return at::linalg_solve(s.square.mm(s.square.t()) + at::eye(6), x.t());
       }},
      {"cholesky",
       [](S& s, const T&) { return at::linalg_cholesky(s.square.mm(s.square.t()) + at::eye(6)); }},
      {"det",
       [](S& s, const T&) {
         return (s.square + at::eye(6)).det() + (s.square + 3 * at::eye(6)).logdet();
       }},
      {"eigh",
       [](S& s, const T&) { return std::get<0>(at::linalg_eigh(s.square + s.square.t())); }},
      {"svdvals", [](S& s, const T&) { return at::linalg_svdvals(s.square); }},
      {"qr", [](S& s, const T&) { return std::get<1>(at::linalg_qr(s.square + 2 * at::eye(6))); }},
      {"matrix_exp", [](S& s, const T&) { return (s.square * 0.3).matrix_exp(); }},
  };
}

std::vector<Family> complex_and_random() {
  return {
      {"fft", [](S&, const T& x) { return at::fft_rfft(x).abs(); }},
      {"fft and back", [](S&, const T& x) { return at::fft_ifft(at::fft_fft(x) * 0.5); }},
      {"complex",
       [](S&, const T& x) { return at::complex(x, x.cos()).conj() * at::polar(x.abs(), x); }},
      {"view_as_real",
       [](S&, const T& x) {
         return at::view_as_real(at::view_as_complex(x.view({4, 3, 2}).contiguous()).exp());
       }},
      {"imag of conj", [](S&, const T& x) { return at::imag(at::complex(x, x.sin()).conj()) * x; }},
      {"dropout", [](S&, const T& x) { return torch::dropout(x, 0.4, true); }},
      {"alpha_dropout", [](S&, const T& x) { return at::alpha_dropout(x, 0.3, true); }},
      {"feature_dropout",
       [](S&, const T& x) { return at::feature_dropout(x.unsqueeze(2), 0.3, true); }},
      {"rand_like", [](S&, const T& x) { return x * at::rand_like(x) + at::randn({6}); }},
      {"bernoulli", [](S&, const T& x) { return x * x.detach().sigmoid().bernoulli(); }},
      {.name = "own generator",
       .run =
           [](S& s, const T& x) {
             return x * at::randn({4, 6}, s.generator);
           },
       .draws_from_own_generator = true},
      {"multinomial",
       [](S& s, const T& x) {
         return s.embedding.index_select(0, x.detach().abs().add(0.1).multinomial(2).flatten());
       }},
      {"randperm", [](S&, const T& x) { return x.index({at::randperm(4)}) * x; }},
      {"rrelu",
       [](S&, const T& x) { return at::rrelu(x, 0.1, 0.4, true) + at::rrelu(x, 0.1, 0.4, false); },
       true, false, false,
       /*saves_unfilled=*/true},
      {"gumbel",
       [](S&, const T& x) { return (x - at::empty_like(x).exponential_().log()).softmax(1); }},
      {"poisson", [](S&, const T& x) { return x + at::poisson(x.detach().abs()); }},
  };
}

}  // namespace

std::vector<Family> arithmetic_families() {
  std::vector<Family> all = elementwise();
  for (const auto& some : {reductions(), matrices(), complex_and_random()}) {
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

}  // namespace reprise::testing
