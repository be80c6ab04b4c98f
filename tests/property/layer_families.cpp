// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Layers: convolutions, pooling, norms, losses, recurrent ones, attention, modules, TorchScript,
// and code that calls autograd itself.
#include <torch/csrc/jit/api/compilation_unit.h>

#include "tests/engine/under_policies.h"
#include "tests/property/operator_families.h"

namespace reprise::testing {

using S = Surroundings;
using T = at::Tensor;

namespace {

T image(const T& x) { return x.reshape({1, 1, 4, 6}); }
T labels() { return torch::tensor({0, 5, 2, 1}, at::kLong); }

std::vector<Family> convolutions() {
  return {
      {"conv2d", [](S& s, const T& x) { return at::conv2d(image(x), s.kernel, {}, 1, 1).relu(); }},
      {"conv1d",
       [](S& s, const T& x) {
         return at::conv1d(x.view({1, 4, 6}), s.square.view({3, 4, 3}));
       }},
      {"conv_transpose",
       [](S& s, const T& x) { return at::conv_transpose2d(image(x), s.kernel.transpose(0, 1)); }},
      {"max_pool", [](S&, const T& x) { return at::max_pool2d(image(x), 2); }},
      {"avg_pool", [](S&, const T& x) { return at::avg_pool2d(image(x).sin(), 2); }},
      {"adaptive_pool",
       [](S&, const T& x) {
         return at::adaptive_avg_pool2d(image(x).exp(), {2, 3});
       }},
      {"fractional_pool",
       [](S&, const T& x) {
         return std::get<0>(
             at::fractional_max_pool2d(image(x), {2, 2}, {2, 3}, at::rand({1, 1, 2})));
       },
       false},
      {"interpolate",
       [](S&, const T& x) {
         return at::upsample_bilinear2d(image(x), {5, 7}, false);
       }},
      {"grid_sample",
       [](S&, const T& x) {
         return at::grid_sampler(image(x), x.tanh().view({1, 4, 3, 2}), 0, 0, false);
       },
       false},
      {"pixel_shuffle",
       [](S&, const T& x) {
         return at::pixel_shuffle(x.view({1, 4, 2, 3}), 2).sin();
       }},
      {"im2col",
       [](S&, const T& x) {
         return at::im2col(image(x), {2, 2}, {1, 1}, {0, 0}, {1, 1});
       }},
  };
}

std::vector<Family> norms_and_losses() {
  return {
      {"layer_norm", [](S& s, const T& x) { return at::layer_norm(x, {6}, s.bias, s.bias.sin()); }},
      {"group_norm",
       [](S& s, const T& x) {
         return at::group_norm(x.view({1, 6, 4}), 2, s.bias, s.bias);
       }},
      {"rms_norm", [](S& s, const T& x) { return at::rms_norm(x, {6}, s.bias); }},
      {"batch_norm", [](S& s, const T& x) { return s.batch_norm->forward(x).sin(); }},
      {"instance_norm",
       [](S&, const T& x) {
         return at::instance_norm(x.view({2, 2, 6}), {}, {}, {}, {}, true, 0.1, 1e-5, false);
       }},
      {"cross_entropy",
       [](S& s, const T& x) { return at::cross_entropy_loss(x.mm(s.square), labels()); }},
      {"nll_loss", [](S&, const T& x) { return at::nll_loss(x.log_softmax(1), labels()); }},
      {"mse_loss",
       [](S& s, const T& x) {
         return at::mse_loss(x, s.bias.expand({4, 6}));
       }},
      {"huber_loss",
       [](S& s, const T& x) {
         return at::smooth_l1_loss(x, s.bias.expand({4, 6}));
       }},
      {"binary_cross_entropy",
       [](S&, const T& x) {
         return at::binary_cross_entropy_with_logits(x, x.detach().gt(0).to(at::kFloat));
       }},
      {"kl_div",
       [](S&, const T& x) { return at::kl_div(x.log_softmax(1), x.detach().softmax(1)); }},
      {"margin_loss", [](S&, const T& x) { return at::multi_margin_loss(x, labels()); }, false},
      {"ctc_loss",
       [](S&, const T& x) {
         return at::ctc_loss(x.unsqueeze(1).log_softmax(2), torch::tensor({{1, 2}}, at::kLong), {4},
                             {2});
       },
       false},
      {"normalize", [](S&, const T& x) { return x / x.norm(2, 1, true).clamp_min(1e-6); }},
  };
}

std::vector<Family> recurrent() {
  return {
      {"lstm",
       [](S& s, const T& x) {
         return std::get<0>(s.lstm->forward(x.view({2, 2, 6})));
       },
       false},
      {"lstm state",
       [](S& s, const T& x) {
         const auto [output, state] = s.lstm->forward(x.view({2, 2, 6}));
         return std::get<1>(state) + output.sum();
       },
       false},
      {"gru",
       [](S& s, const T& x) {
         return std::get<0>(s.gru->forward(x.view({2, 2, 6})));
       },
       false},
      {"gru_cell",
       [](S& s, const T& x) {
         const auto w = s.gru->parameters();
         return at::gru_cell(x, x.narrow(1, 0, 5), w[0], w[1], w[2], w[3]);
       }},
      {"lstm_cell",
       [](S& s, const T& x) {
         const auto w = s.lstm->parameters();
         const T state = x.narrow(1, 0, 5);
         return std::get<1>(at::lstm_cell(x, {state, state.sin()}, w[0], w[1], w[2], w[3]));
       }},
  };
}

std::vector<Family> attention() {
  return {
      {"attention",
       [](S&, const T& x) {
         const T heads = x.view({1, 2, 4, 3});
         return at::scaled_dot_product_attention(heads, heads.sin(), heads.cos());
       },
       false},
      {"attention with dropout",
       [](S&, const T& x) {
         const T heads = x.view({1, 2, 4, 3});
         return at::scaled_dot_product_attention(heads, heads.sin(), heads.cos(), {}, 0.3, true);
       },
       false},
      {"explicit attention",
       [](S& s, const T& x) {
         const T weights = x.mm(s.square).mm(x.t()).softmax(1);
         return at::dropout(weights, 0.2, true).mm(x);
       }},
      {"multi-head attention",
       [](S& s, const T& x) {
         const T tokens = x.unsqueeze(1);
         return std::get<0>(s.attention->forward(tokens, tokens, tokens));
       }},
      {"encoder layer", [](S& s, const T& x) { return s.encoder->forward(x.unsqueeze(1)); }},
  };
}

struct SquareTwice : torch::autograd::Function<SquareTwice> {
  static T forward(torch::autograd::AutogradContext* context, const T& x, const T& w) {
    const T y = x * w;
    context->save_for_backward({x, w, y});
    return y * y;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const T g = 2 * gradients[0] * saved[2];
    return {g * saved[1], (g * saved[0]).sum(0)};
  }
};

struct AddInPlace : torch::autograd::Function<AddInPlace> {
  static T forward(torch::autograd::AutogradContext* context, T x) {
    x.add_(1);
    context->mark_dirty({x});
    context->save_for_backward({x});
    return x;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    return {gradients[0] * context->get_saved_variables()[0].sign()};
  }
};

std::vector<Family> code() {
  return {
      {"custom function", [](S& s, const T& x) { return SquareTwice::apply(x, s.bias); }},
      {"custom function in place", [](S&, const T& x) { return AddInPlace::apply(x.sin()); }},
      {"custom function on a view", [](S&, const T& x) { return AddInPlace::apply(x.sin().t()); },
       true, false,
       /*must_be_freed=*/true},
      {"script",
       [](S& s, const T& x) {
         return s.script->get_function("gated")({x, s.square}).toTensor();
       }},
      {"gradient inside",
       [](S&, const T& x) {
         const at::AutoGradMode enabled(true);
         const T own = x.detach().requires_grad_();
         return x * torch::autograd::grad({own.sin().sum()}, {own})[0];
       },
       true, false, false, false, false, /*has_backward_inside=*/true},
      {"gradient of itself inside",
       [](S&, const T& x) {
         const at::AutoGradMode enabled(true);
         const T y = x.sin() * x;
         return y.requires_grad() && x.requires_grad()
                    ? y * torch::autograd::grad({y.sum()}, {x}, {}, true, true)[0]
                    : y;
       },
       true, false, false, false, false, /*has_backward_inside=*/true},
      {"retained gradient",
       [](S&, const T& x) {
         const T y = x.sin();
         if (y.requires_grad()) {
           y.retain_grad();
         }
         return y * x;
       }},
      {"without gradients",
       [](S& s, const T& x) {
         const torch::NoGradGuard no_grad;
         return x.mm(s.square).sin();
       }},
      {"autocast",
       [](S& s, const T& x) {
         const AutocastScope enabled(true);
         return x.mm(s.square).tanh().mm(s.square).to(at::kFloat);
       }},
  };
}

}  // namespace

std::vector<Family> layer_families() {
  std::vector<Family> all = convolutions();
  for (const auto& some : {norms_and_losses(), recurrent(), attention(), code()}) {
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

}  // namespace reprise::testing
