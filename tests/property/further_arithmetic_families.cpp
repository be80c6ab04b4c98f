// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// More of the arithmetic families: less common functions, in place, lists of tensors, reductions,
// linear algebra, complex numbers, random numbers.
#include "tests/property/operator_families.h"

namespace reprise::testing {
namespace further_arithmetic {

using S = Surroundings;
using T = at::Tensor;

T bounded(const T& x) { return x.tanh() * 0.9; }
T above_one(const T& x) { return x.abs() + 1; }
T invertible(const S& s) { return s.square + 4 * at::eye(6); }
T symmetric(const S& s) { return s.square.mm(s.square.t()) + 2 * at::eye(6); }

std::vector<Family> functions() {
  return {
      {"acos", [](S&, const T& x) { return bounded(x).acos() + bounded(x).asin().atan(); }},
      {"acosh", [](S&, const T& x) { return (above_one(x) + 0.5).acosh() + x.asinh(); }},
      {"sinh", [](S&, const T& x) { return bounded(x).sinh() + bounded(x).cosh().tan(); }},
      {"erfc", [](S&, const T& x) { return x.erfc() + bounded(x).expm1() + bounded(x).exp2(); }},
      {"log10", [](S&, const T& x) { return above_one(x).log10() + above_one(x).log2(); }},
      {"logit", [](S&, const T& x) { return at::logit(x.sigmoid(), 1e-3) + x.sinc(); }},
      {"bessel", [](S&, const T& x) { return at::special_i1e(x) + at::special_i0e(x) + x.i0(); }},
      {"entr", [](S&, const T& x) { return at::special_entr(x.sigmoid()) + at::special_ndtr(x); }},
      {"polygamma", [](S&, const T& x) { return at::polygamma(2, above_one(x)).tanh(); }},
      {"mvlgamma", [](S&, const T& x) { return at::mvlgamma(above_one(x) + 2, 2).tanh(); }},
      {"zeta", [](S&, const T& x) { return at::special_zeta(2.5, above_one(x)) * x; }},
      {"igamma",
       [](S& s, const T& x) { return at::igamma(s.bias.detach().abs() + 0.5, x.abs() + 0.1); }},
      {"copysign", [](S& s, const T& x) { return at::copysign(x, s.bias) + x.ldexp(s.bias); }},
      {"float_power", [](S&, const T& x) { return at::float_power(above_one(x), 1.3); }},
      {"dist",
       [](S& s, const T& x) {
         return x * at::dist(x, s.bias.expand({4, 6}), 1);
       }},
      {"threshold", [](S&, const T& x) { return at::threshold(x, 0.1, -0.3) + x.hardshrink(0.3); }},
      {"softshrink", [](S&, const T& x) { return at::softshrink(x, 0.2) + at::hardsigmoid(x); },
       false},
      {"clamp of tensors",
       [](S& s, const T& x) { return at::clamp(x, s.bias - 1, s.bias.detach() + 1); }},
      {"frexp", [](S&, const T& x) { return std::get<0>(at::frexp(x)) * x; }},
      {"glu",
       [](S&, const T& x) { return at::glu(x, 1) * at::glu(x.sin(), 0).sum(0, true).sum(); }},
      {"heaviside", [](S& s, const T& x) { return x * x.detach().heaviside(s.bias.detach()); }},
      {"comparisons",
       [](S&, const T& x) { return x * x.isclose(x.sin()).logical_not() + x.signbit(); }},
      {"numbers", [](S&, const T& x) { return at::rsub(x, 1, 0.5) + 2 - at::pow(1.5, x.tanh()); }},
  };
}

std::vector<Family> in_place() {
  return {
      {"abs_", [](S&, const T& x) { return (x * 1.25).abs_().add_(0.1).log1p_().sqrt_(); }},
      {"acos_", [](S&, const T& x) { return bounded(x).acos_().sin_().mul_(0.9).asin_(); }},
      {"cosh_", [](S&, const T& x) { return bounded(x).cosh_().sub_(1).sinh_().cos_().tan_(); }},
      {"erf_", [](S&, const T& x) { return (x * 2).erf_().mul_(0.8).erfinv_().erfc_(); }},
      {"addcdiv_",
       [](S& s, const T& x) { return (x * 2).addcdiv_(s.bias, above_one(x), 0.3).addcmul_(x, x); }},
      {"lerp_",
       [](S& s, const T& x) {
         return (x + 1).lerp_(s.bias.expand({4, 6}), 0.3);
       }},
      {"pow_",
       [](S&, const T& x) { return above_one(x).pow_(1.5).log2_().square_().add_(1).rsqrt_(); }},
      {"fmod_", [](S&, const T& x) { return (x * 3).fmod_(0.7).remainder_(0.4).add_(x); }},
      {"elu_",
       [](S&, const T& x) {
         T y = x * 1.5;
         return at::elu_(y);
       }},
      {"selu_",
       [](S&, const T& x) {
         T y = x * 1.5;
         return at::selu_(y);
       }},
      {"hardtanh_",
       [](S&, const T& x) {
         T y = x * 2;
         return at::hardtanh_(y).exp();
       }},
      {"silu_",
       [](S&, const T& x) {
         T y = x * 2;
         return at::silu_(y).exp();
       }},
      {"mish_",
       [](S&, const T& x) {
         T y = x * 2;
         return at::mish_(y).exp();
       }},
      {"gelu_",
       [](S&, const T& x) {
         T y = x * 2;
         return at::gelu_(y).exp();
       }},
      {"renorm_", [](S&, const T& x) { return (x * 2).renorm_(2, 0, 0.8).sin(); }},
      {"tril_", [](S&, const T& x) { return (x + 1).tril_(1).triu_(-2).exp(); }},
      {"cumsum_", [](S&, const T& x) { return (x + 1).cumsum_(1).mul_(0.2).cumprod_(0); }},
      {"masked_scatter_",
       [](S& s, const T& x) { return (x + 1).masked_scatter_(x > 0, s.square); }},
      {"put_",
       [](S& s, const T& x) {
         return (x + 1).put_(torch::tensor({0, 5, 5}, at::kLong), s.bias.narrow(0, 0, 3), true);
       }},
      {"index_reduce_",
       [](S&, const T& x) {
         return (x + 1).index_reduce_(0, torch::tensor({0, 2, 2}, at::kLong), x.narrow(0, 0, 3),
                                      "prod");
       },
       false},
      {"scatter_reduce_",
       [](S&, const T& x) {
         return (x + 1).scatter_reduce_(0, (x.detach() > 0).to(at::kLong), x, "mean");
       },
       false},
      {"baddbmm_",
       [](S& s, const T& x) {
         const T y = (x + 1).view({1, 4, 6});
         return y.baddbmm_(x.view({1, 4, 6}), s.square.view({1, 6, 6}), 0.5, 0.3);
       }},
      {"addmv_",
       [](S& s, const T& x) {
         T y = x + 1;
         y.select(0, 2).addmv_(s.square, s.bias, 0.5, 0.2);
         return y.sin();
       }},
      // Vectors without gaps: matrix-vector products of hooks' copies may be rounded otherwise.
      {"addr_", [](S& s, const T& x) { return (x + 1).addr_(x.mean(1), s.bias, 0.5, 0.3); }},
      {"div_ with rounding", [](S&, const T& x) { return (x * 4).div_(0.3, "floor").mul_(x); }},
      {"swapdims_", [](S&, const T& x) { return (x + 1).swapdims_(0, 1).mul_(0.5).t_().sin(); }},
      {"copy_ of another dtype",
       [](S&, const T& x) {
         return at::empty({4, 6}, at::kHalf).copy_(x).to(at::kFloat) * x;
       }},
      {"copy_ within",
       [](S&, const T& x) {
         T y = at::zeros({6, 6});
         y.narrow(0, 1, 4).copy_(x);
         y.narrow(0, 0, 1).copy_(y.narrow(0, 4, 1));
         y.narrow(0, 5, 1).copy_(y.narrow(0, 1, 1));
         return y.unfold(0, 3, 1).sin().sum(2);
       }},
      {"written after it was saved by none",
       [](S&, const T& x) {
         T y = x.sin();
         const T z = y.exp();
         y.add_(1);
         return z * y;
       }},
      {"bits",
       [](S&, const T& x) {
         T n = (x.detach() * 4).to(at::kInt);
         n.bitwise_and_(7).bitwise_or_(1).bitwise_xor_(2).bitwise_left_shift_(1);
         return x * n;
       }},
  };
}

std::vector<Family> lists() {
  return {
      {"foreach functions",
       [](S&, const T& x) {
         const auto t = at::_foreach_tanh({x, x.cos()});
         const auto e = at::_foreach_exp(t);
         const auto l = at::_foreach_lgamma(at::_foreach_add(at::_foreach_abs(t), 1));
         return e[0] * t[1] + l[0] + at::_foreach_round({x, x})[1];
       }},
      {"foreach of two lists",
       [](S&, const T& x) {
         const std::vector<T> v = {x, x.cos()};
         const std::vector<T> w = {x.sin(), x};
         return at::_foreach_maximum(v, w)[1] * at::_foreach_lerp(v, w, 0.3)[0] +
                at::_foreach_addcmul(v, w, v, 0.3)[1] + at::_foreach_norm(v, 1)[0];
       }},
      {"foreach in place",
       [](S&, const T& x) {
         std::vector<T> v = {x * 1.5, x.cos()};
         at::_foreach_lerp_(v, {x, x.sin()}, 0.3);
         at::_foreach_clamp_max_(v, 0.8);
         at::_foreach_abs_(v);
         at::_foreach_pow_(v, 1.5);
         at::_foreach_erf_(v);
         return v[0] + v[1] * v[0];
       }},
      {"foreach_copy_",
       [](S&, const T& x) {
         const std::vector<T> v = {at::empty({4, 6}), at::empty({4, 6})};
         at::_foreach_copy_(v, {x.detach(), x.detach().sin()});
         return v[0].sin() * v[1] * x;
       }},
      {"foreach of parts",
       [](S&, const T& x) {
         const T y = x * 2;
         const std::vector<T> v = {y.narrow(0, 0, 2), y.narrow(0, 2, 2)};
         at::_foreach_mul_(v, 0.5);
         at::_foreach_add_(v, v);
         return y * y;
       }},
      {"unscale of gradients",
       [](S&, const T& x) {
         T found = at::zeros({1});
         const std::vector<T> v = {x.detach().clone()};
         at::_amp_foreach_non_finite_check_and_unscale_(v, found, at::full({1}, 0.5));
         return x * v[0] + found;
       }},
  };
}

std::vector<Family> reductions() {
  return {
      {"aminmax", [](S&, const T& x) { return x * std::get<0>(at::aminmax(x.detach(), 1, true)); }},
      {"std_mean",
       [](S&, const T& x) {
         const auto [deviation, mean] = at::std_mean(x, at::OptionalIntArrayRef({1}), 0, true);
         return (x - mean) / (deviation + 0.5);
       }},
      {"nansum", [](S&, const T& x) { return at::nansum(x.log(), {1}, true).tanh() + x; }},
      {"quantile", [](S&, const T& x) { return at::quantile(x, 0.3, 1, true) + x.nanmean(); }},
      {"vector norms",
       [](S&, const T& x) {
         return at::linalg_vector_norm(x, 3, at::OptionalIntArrayRef({1}), true) +
                at::linalg_vector_norm(x, INFINITY, at::OptionalIntArrayRef({0}));
       }},
      {"cummin", [](S&, const T& x) { return std::get<0>(at::cummin(x, 0)) * x; }},
      {"mode", [](S&, const T& x) { return std::get<0>(at::mode(x.round(), 0)) * x; }},
      {"msort", [](S&, const T& x) { return at::msort(x) * x; }},
      {"cov", [](S&, const T& x) { return at::cov(x).sum() * x; }},
      {"trapezoid", [](S&, const T& x) { return at::cumulative_trapezoid(x, 1.0, 1); }},
      {"diff", [](S&, const T& x) { return at::diff(x, 2, 1); }},
      {"histogram", [](S&, const T& x) { return x * at::histc(x.detach(), 6, -3, 3); }},
      {"softmax in double", [](S&, const T& x) { return at::softmax(x, 1, at::kDouble) * x; }},
      {"segment_reduce",
       [](S&, const T& x) {
         return at::segment_reduce(x.contiguous(), "mean", torch::tensor({1, 3}, at::kLong), {}, {},
                                   0, true);
       },
       false},
      {"unique_consecutive",
       [](S&, const T& x) {
         return std::get<1>(at::unique_consecutive((x.detach() * 2).to(at::kLong), true)) * x;
       }},
  };
}

std::vector<Family> linear_algebra() {
  return {
      {"addbmm",
       [](S& s, const T& x) {
         return at::addbmm(x, x.view({1, 4, 6}), s.square.view({1, 6, 6}), 0.5, 0.3).tanh();
       }},
      {"addmv", [](S& s, const T& x) { return at::addmv(s.bias, s.square, x[1], 0.5, 0.3) + x; }},
      {"cross",
       [](S&, const T& x) { return at::linalg_cross(x.narrow(1, 0, 3), x.narrow(1, 2, 3)); }},
      {"vecdot", [](S&, const T& x) { return at::linalg_vecdot(x, x.sin()).unsqueeze(1) * x; }},
      {"matrix_power",
       [](S& s, const T& x) { return x.mm(at::linalg_matrix_power(s.square * 0.3, 3)); }},
      {"cholesky_solve",
       [](S& s, const T& x) {
         return at::cholesky_solve(x.t(), at::linalg_cholesky(symmetric(s)));
       }},
      {"svd",
       [](S& s, const T& x) { return x.mm(std::get<0>(at::linalg_svd(invertible(s))).abs()); }},
      {"inv_ex",
       [](S& s, const T& x) { return x.mm(std::get<0>(at::linalg_inv_ex(invertible(s)))); }},
      {"lu_solve",
       [](S& s, const T& x) {
         const auto [factors, pivots] = at::linalg_lu_factor(invertible(s));
         return at::linalg_lu_solve(factors, pivots, x.t());
       }},
      {"lu", [](S& s, const T& x) { return x.mm(std::get<1>(at::linalg_lu(invertible(s)))); }},
      {"pinv", [](S& s, const T& x) { return x.mm(at::linalg_pinv(invertible(s))); }},
      {"triangular",
       [](S& s, const T& x) {
         return at::linalg_solve_triangular(s.square.triu() + 5 * at::eye(6), x.t(), true);
       }},
      {"pdist", [](S&, const T& x) { return at::pdist(x.contiguous()); }, false},
      {"trilinear",
       [](S&, const T& x) { return at::_trilinear(x, x.sin(), x.cos(), {}, {}, {}, {}); }},
      {"int8 product",
       [](S& s, const T& x) {
         const T a = (x.detach() * 4).to(at::kChar).repeat({6, 2}).narrow(1, 0, 8).contiguous();
         const T b = (s.square.detach() * 4).to(at::kChar).repeat({2, 2}).narrow(0, 0, 8);
         return at::_int_mm(a, b.narrow(1, 0, 8).contiguous()).to(at::kFloat).mean() * x;
       }},
  };
}

std::vector<Family> complex_and_random() {
  return {
      {"fftn", [](S&, const T& x) { return at::fft_fftn(x).abs() + at::fft_ifftn(x).sum().abs(); }},
      {"hfft", [](S&, const T& x) { return at::fft_hfft(at::complex(x, x.sin()), 6).tanh(); }},
      {"stft",
       [](S&, const T& x) {
         return at::stft(x.reshape({1, -1}), 8, 4, 8, at::hann_window(8), false, true, true).abs();
       }},
      {"complex product",
       [](S& s, const T& x) {
         return at::complex(x, x.cos()).conj().matmul(at::complex(s.square, s.square.t())).t();
       }},
      {"write to a part of a complex tensor",
       [](S&, const T& x) {
         const T z = at::complex(x, x.sin()) * 2;
         at::real(z).mul_(0.5);
         at::imag(z).add_(x);
         z.conj().mul_(c10::complex<double>(0, 1));
         return (z * z).abs().tanh();
       }},
      {"binomial",
       [](S&, const T& x) {
         return x * at::binomial(at::full({4, 6}, 5.0), x.detach().sigmoid());
       }},
      {"dirichlet",
       [](S&, const T& x) { return at::_sample_dirichlet(x.detach().abs() + 0.5) * x; }},
      {"gamma", [](S&, const T& x) { return at::_standard_gamma(x.abs() + 0.5) * 0.3; }, false},
      {"draws in place",
       [](S&, const T& x) {
         const T noise = at::empty({4, 6}).cauchy_().tanh_();
         return x * noise + at::empty({4, 6}).geometric_(0.4) +
                at::empty({4, 6}, at::kLong).random_(3) + at::empty({4, 6}).log_normal_(0, 0.5);
       }},
      {"native_dropout",
       [](S&, const T& x) {
         const auto [output, mask] = at::native_dropout(x, 0.3, true);
         return output + mask;
       }},
      {"normal of tensors",
       [](S&, const T& x) { return at::normal(x.detach(), x.detach().abs() + 0.1) * x; }},
      {.name = "two generators",
       .run =
           [](S& s, const T& x) {
             return (x * at::rand({4, 6}, s.generator) + at::randn({4, 6}))
                 .index_select(0, at::randperm(4, s.generator));
           },
       .draws_from_own_generator = true},
      {"an odd number of normals",
       [](S&, const T& x) {
         return x + at::randn({3}).sum() + at::randn({1}) * at::randn({4, 6});
       }},
      {"drawn branch",
       [](S&, const T& x) {
         return at::randint(2, {1}).item<int>() == 1 ? x.sin() : x.cos().exp();
       }},
      {"seeded inside",
       [](S&, const T& x) {
         torch::manual_seed(42);
         return x * at::rand_like(x);
       }},
  };
}

}  // namespace further_arithmetic

std::vector<Family> further_arithmetic_families() {
  std::vector<Family> all = further_arithmetic::functions();
  for (const auto& some : {further_arithmetic::in_place(), further_arithmetic::lists(),
                           further_arithmetic::reductions(), further_arithmetic::linear_algebra(),
                           further_arithmetic::complex_and_random()}) {
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

}  // namespace reprise::testing
