// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Writes: in place, through views, into results of other operators, out=, to memory that is
// resized, and to tensors from outside.
#include "tests/property/operator_families.h"

namespace reprise::testing {

using S = Surroundings;
using T = at::Tensor;

namespace {

std::vector<Family> in_place() {
  return {
      {"add_", [](S& s, const T& x) { return x.sin().add_(s.bias).mul_(0.5); }},
      {"relu_", [](S& s, const T& x) { return x.mm(s.square).add_(x).relu_(); }},
      {"sigmoid_", [](S&, const T& x) { return x.clone().sigmoid_().exp(); }},
      {"addmm_", [](S& s, const T& x) { return x.clone().addmm_(x, s.square).tanh_(); }},
      {"masked_fill_", [](S&, const T& x) { return (x + 1).masked_fill_(x > 0, 0.2); }},
      {"index_put_",
       [](S&, const T& x) {
         return x.clone().index_put_({torch::tensor({0, 2})}, x.narrow(0, 0, 2).sin());
       }},
      {"scatter_",
       [](S&, const T& x) { return (x + 1).scatter_(1, x.detach().argsort(1, false), x); }},
      {"fill_diagonal_", [](S& s, const T&) { return s.square.clone().fill_diagonal_(0.5).exp(); }},
      {"clamp_", [](S&, const T& x) { return x.clone().clamp_(-0.5, 0.5).square(); }},
      {"zero_ and add_", [](S&, const T& x) { return x.clone().zero_().add_(x, 2).cos(); }},
      {"copy_",
       [](S&, const T& x) {
         return at::empty({4, 6}).copy_(x.sin()).exp();
       }},
      {"normal_", [](S&, const T& x) { return x * at::empty_like(x).normal_(); }},
      {"bernoulli_",
       [](S&, const T& x) { return x * at::empty_like(x).bernoulli_(0.5).div_(0.5); }},
      {"dropout_",
       [](S&, const T& x) {
         T y = x.sin();
         return at::dropout_(y, 0.3, true);
       }},
      {"rrelu_",
       [](S&, const T& x) {
         T y = x.clone();
         return at::rrelu_(y, 0.1, 0.4, true);
       },
       true, false, false, /*saves_unfilled=*/true},
      {"t_", [](S&, const T& x) { return (x * 2).t_().mul_(0.5); }},
      {"unsqueeze_", [](S&, const T& x) { return (x + 2).unsqueeze_(1).add_(1).squeeze_(1); }},
  };
}

std::vector<Family> through_views() {
  return {
      {"write to a row",
       [](S&, const T& x) {
         T y = at::zeros({4, 6});
         y.select(0, 1).copy_(x[2]);
         y.select(1, 3).add_(x.select(1, 1));
         return y.exp();
       }},
      {"write to half",
       [](S&, const T& x) {
         T y = x.clone();
         y.narrow(1, 0, 3).sigmoid_();
         return y * x;
       }},
      {"write to a transpose",
       [](S&, const T& x) {
         T y = x * 2;
         y.t().select(0, 2).mul_(3);
         return y.sin();
       }},
      {"write to a base",
       [](S&, const T& x) {
         T y = x * 2;
         T v = y.view({24});
         y.mul_(2);
         return v.sin() + y.flatten();
       }},
      {"write to chunks",
       [](S&, const T& x) {
         T y = x.clone();
         auto c = y.unsafe_chunk(2, 1);
         return at::cat({c[0].mul_(2), c[1].exp()}, 1);
       }},
      {"accumulate rows",
       [](S& s, const T& x) {
         T y = s.square.clone();
         for (int i = 0; i < 3; ++i) {
           y[i].add_(x[i].sin());
         }
         return y.exp();
       }},
      {"filled through a pointer",
       [](S&, const T& x) {
         T y = at::zeros_like(x);
         float* p = y.mutable_data_ptr<float>();
         for (int i = 0; i < 24; ++i) {
           p[i] = static_cast<float>(i) * 0.1F;
         }
         return x * y;
       },
       true, false, false, false, /*is_for_cpu=*/true},
      {"filled empty",
       [](S&, const T& x) {
         T y = at::empty({6});
         float* p = y.mutable_data_ptr<float>();
         for (int i = 0; i < 6; ++i) {
           p[i] = 0.3F;
         }
         return x * y.sin();
       },
       true, false, false, false, /*is_for_cpu=*/true},
  };
}

std::vector<Family> results_given() {
  return {
      {"mul_out",
       [](S& s, const T& x) {
         const torch::NoGradGuard no_grad;
         T y = at::empty({4, 6});
         at::mul_out(y, x, s.bias);
         at::add_out(y, y, x);
         return y;
       }},
      {"out= that resizes",
       [](S& s, const T& x) {
         const torch::NoGradGuard no_grad;
         T y = at::empty({0});
         at::mul_out(y, x, s.bias);
         return y.exp();
       }},
      {"mm_out used",
       [](S& s, const T& x) {
         T y = at::empty({0});
         {
           const torch::NoGradGuard no_grad;
           at::mm_out(y, x, s.square);
         }
         return x * y;
       }},
      {"resize_",
       [](S&, const T& x) {
         T y = at::empty({2});
         y.resize_({4, 6});
         {
           const torch::NoGradGuard no_grad;
           y.copy_(x).mul_(2);
         }
         return x * y;
       }},
      {"set_",
       [](S&, const T& x) {
         T y = at::empty({2});
         y.set_(x.detach().exp());
         return x * y;
       }},
      {"sort_out",
       [](S&, const T& x) {
         const torch::NoGradGuard no_grad;
         T v = at::empty({0});
         T i = at::empty({0}, at::kLong);
         at::sort_out(v, i, x, 1);
         return v;
       }},
      {"foreach",
       [](S& s, const T& x) {
         std::vector<T> all = {x.sin(), x.cos()};
         at::_foreach_mul_(all, 0.5);
         at::_foreach_add_(all, {s.bias.expand({4, 6}), x});
         return all[0] * all[1];
       }},
  };
}

std::vector<Family> outside() {
  return {
      {"count",
       [](S& s, const T& x) {
         const torch::NoGradGuard no_grad;
         s.count.add_(1);
         return x.sin();
       }},
      {"average",
       [](S& s, const T& x) {
         s.average.copy_(x.detach().mean(0));
         return x.exp();
       }},
      {"average with copy",
       [](S& s, const T& x) {
         {
           const torch::NoGradGuard no_grad;
           s.average.lerp_(x.mean(0), 0.1);
         }
         return x.cos();
       }},
      {"observed fake quantization",
       [](S& s, const T& x) {
         auto& [low, high, scale, zero] = s.observed;
         const T on = at::ones({1}, at::kLong);
         return at::fused_moving_avg_obs_fake_quant(x, on, on, low, high, scale, zero, 0.1, 0, 255,
                                                    0);
       },
       false, /*reads_what_changes=*/true},
      {"batch_norm statistics",
       [](S& s, const T& x) {
         return at::batch_norm(x, s.bias, {}, s.batch_norm->running_mean, s.batch_norm->running_var,
                               true, 0.1, 1e-5, false)
             .exp();
       }},
      {"batch_norm in evaluation",
       [](S& s, const T& x) {
         return at::batch_norm(x, s.bias, {}, s.batch_norm->running_mean, s.batch_norm->running_var,
                               false, 0.1, 1e-5, false)
             .sin();
       },
       true, /*reads_what_changes=*/true},
  };
}

}  // namespace

std::vector<Family> writing_families() {
  std::vector<Family> all = in_place();
  for (const auto& some : {through_views(), results_given(), outside()}) {
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

}  // namespace reprise::testing
