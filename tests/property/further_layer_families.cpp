// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// More of the layer families: convolutions, pooling and sampling, losses, norms, recurrent layers
// on packed sequences, attention, quantisation, other layouts, and unusual code.
#include "tests/property/operator_families.h"

namespace reprise::testing {
namespace further_layers {

using S = Surroundings;
using T = at::Tensor;

T image(const T& x) { return x.reshape({1, 1, 4, 6}); }
T volume(const T& x) { return x.reshape({1, 1, 2, 3, 4}); }
T pair(const T& x) { return x.reshape({1, 2, 3, 4}); }
T labels() { return torch::tensor({0, 5, 2, 1}, at::kLong); }
T longs(std::vector<std::int64_t> values) { return torch::tensor(values, at::kLong); }

std::vector<Family> convolutions() {
  return {
      {"conv2d with dilation",
       [](S& s, const T& x) {
         return at::conv2d(image(x), s.kernel, {}, {2, 1}, {1, 2}, {2, 1});
       }},
      {"depthwise convolution",
       [](S& s, const T& x) { return at::conv2d(pair(x), s.kernel, {}, 1, 1, 1, 2).tanh(); }},
      {"convolution in channels last",
       [](S& s, const T& x) {
         constexpr auto kLast = at::MemoryFormat::ChannelsLast;
         const T kernel = s.kernel.view({1, 2, 3, 3}).contiguous(kLast);
         return at::conv2d(pair(x).contiguous(kLast), kernel, {}, 1, 1).relu();
       }},
      {"conv3d",
       [](S& s, const T& x) {
         return at::conv3d(volume(x), s.kernel.view({1, 1, 2, 3, 3}), {}, 1, 1).tanh();
       }},
      {"conv1d with padding by name",
       [](S& s, const T& x) {
         return at::conv1d(x.view({1, 4, 6}), s.square.view({3, 4, 3}), {}, 1, "same").tanh();
       }},
      {"conv_transpose1d",
       [](S& s, const T& x) {
         return at::conv_transpose1d(x.view({1, 4, 6}), s.square.view({4, 3, 3}), {}, 2, 1, 1);
       }},
      {"conv_tbc",
       [](S& s, const T& x) {
         return at::conv_tbc(x.view({4, 1, 6}), s.square.view({1, 6, 6}), s.bias, 0).tanh();
       }},
      {"unfolded convolution",
       [](S& s, const T& x) {
         return at::slow_conv_dilated2d(image(x), s.kernel, {3, 3}, {}, {1, 1}, {2, 2}, {2, 2});
       }},
      {"circular padding",
       [](S& s, const T& x) {
         return at::conv2d(at::pad(image(x), {1, 1, 1, 1}, "circular"), s.kernel).tanh();
       }},
      {"other paddings",
       [](S&, const T& x) {
         return at::replication_pad2d(image(x), {1, 1, 2, 0}).sin().sum() +
                at::reflection_pad2d(image(x), {1, 1, 2, 0}).cos();
       }},
      {"convolution of an empty batch",
       [](S& s, const T& x) {
         return at::conv2d(image(x).narrow(0, 0, 0), s.kernel, {}, 1, 1).sum() + x;
       }},
  };
}

std::vector<Family> pooling_and_sampling() {
  return {
      {"adaptive_max_pool",
       [](S&, const T& x) {
         return std::get<0>(at::adaptive_max_pool2d(image(x), {3, 4})).sin();
       }},
      {"avg_pool3d",
       [](S&, const T& x) {
         return at::avg_pool3d(volume(x), {2, 2, 2}, 1, 1).sin();
       }},
      {"max_unpool",
       [](S&, const T& x) {
         const auto [values, indices] = at::max_pool2d_with_indices(image(x), {2, 2});
         return at::max_unpool2d(values.sin(), indices, {4, 6});
       }},
      {"max_pool1d", [](S&, const T& x) { return at::max_pool1d(x.unsqueeze(0), 2).sin(); }},
      {"bicubic",
       [](S&, const T& x) {
         return at::upsample_bicubic2d(image(x), {7, 5}, false).sin();
       }},
      {"antialiased",
       [](S&, const T& x) {
         return at::_upsample_bilinear2d_aa(image(x), {3, 4}, false).sin();
       }},
      {"trilinear sampling",
       [](S&, const T& x) {
         return at::upsample_trilinear3d(volume(x), {3, 4, 5}, false).sin();
       }},
      {"linear sampling",
       [](S&, const T& x) { return at::upsample_linear1d(x.unsqueeze(0), {10}, false).sin(); }},
      {"grid_sampler_3d",
       [](S&, const T& x) {
         const T grid = x.tanh().view({1, 2, 2, 2, 3});
         return at::grid_sampler_3d(volume(x), grid, 0, 0, false);
       },
       false},
      {"affine_grid",
       [](S&, const T& x) {
         return at::affine_grid_generator(x[0].view({1, 2, 3}), {1, 1, 4, 6}, true).sin();
       }},
      {"col2im",
       [](S&, const T& x) {
         const T columns = at::im2col(image(x), {2, 2}, {1, 1}, {0, 0}, {1, 1});
         return at::col2im(columns.sin(), {4, 6}, {2, 2}, {1, 1}, {0, 0}, {1, 1});
       }},
      {"channel_shuffle",
       [](S&, const T& x) {
         return at::channel_shuffle(x.view({1, 4, 2, 3}), 2).sin();
       }},
  };
}

std::vector<Family> losses_and_norms() {
  return {
      {"l1_loss",
       [](S& s, const T& x) {
         return at::l1_loss(x, s.bias.expand({4, 6})) + x;
       }},
      {"soft_margin_loss",
       [](S&, const T& x) { return at::soft_margin_loss(x, x.detach().cos().sign()) + x; }},
      {"triplet_margin_loss",
       [](S&, const T& x) { return at::triplet_margin_loss(x, x.sin(), x.cos()) + x; }},
      {"cosine_embedding_loss",
       [](S&, const T& x) {
         return at::cosine_embedding_loss(x, x.cos(), at::ones({4}), 0.1) + x;
       }},
      {"multilabel_margin_loss",
       [](S&, const T& x) {
         return at::multilabel_margin_loss(x, (x.detach().abs() * 3).to(at::kLong).clamp(0, 5)) + x;
       },
       false},
      {"smoothed cross_entropy",
       [](S& s, const T& x) {
         return at::cross_entropy_loss(x, labels(), s.bias.detach().abs(), at::Reduction::Mean, 2,
                                       0.1);
       }},
      {"nll_loss2d",
       [](S&, const T& x) {
         return at::nll_loss2d(x.view({1, 6, 2, 2}).log_softmax(1), labels().view({1, 2, 2})) + x;
       }},
      {"native_layer_norm",
       [](S& s, const T& x) {
         const auto [output, mean, scale] = at::native_layer_norm(x, {6}, s.bias, s.bias, 1e-5);
         return output + mean * 0.1 + scale * 0.1;
       }},
      {"native_batch_norm",
       [](S& s, const T& x) {
         T mean = s.batch_norm->running_mean;
         T variance = s.batch_norm->running_var;
         return std::get<0>(at::_native_batch_norm_legit(x, s.bias, s.bias, mean, variance, true,
                                                         0.1, 1e-5))
             .sin();
       },
       true, /*reads_what_changes=*/true},
      {"batch_norm without statistics",
       [](S& s, const T& x) {
         return at::batch_norm(x, s.bias, {}, {}, {}, true, 0.1, 1e-5, false);
       }},
      {"weight_norm",
       [](S& s, const T& x) {
         return x.mm(at::_weight_norm(s.square, s.square.norm(2, 1, true), 0)).tanh();
       }},
      {"layer_norm of two dimensions",
       [](S&, const T& x) {
         return at::layer_norm(x.view({2, 2, 6}), {2, 6}) + x.view({2, 2, 6});
       }},
  };
}

std::vector<Family> recurrent_and_attention() {
  return {
      {"rnn_cells",
       [](S& s, const T& x) {
         return at::rnn_tanh_cell(x, x.sin(), s.square, s.square) +
                at::rnn_relu_cell(x, x.cos(), s.square, s.square).tanh();
       }},
      {"packed gru",
       [](S& s, const T& x) {
         const auto [data, sizes] =
             at::_pack_padded_sequence(x.view({2, 2, 6}), longs({2, 1}), false);
         return std::get<0>(at::gru(data, sizes, at::zeros({1, 2, 5}), s.gru->parameters(), true, 1,
                                    0, true, false))
             .tanh();
       },
       false},
      {"packed lstm",
       [](S& s, const T& x) {
         const auto [data, sizes] =
             at::_pack_padded_sequence(x.view({2, 2, 6}), longs({2, 2}), true);
         const T zero = at::zeros({1, 2, 5});
         return std::get<0>(at::lstm(data, sizes, {zero, zero}, s.lstm->parameters(), true, 1, 0,
                                     true, false))
             .tanh();
       },
       false},
      {"attention by its definition",
       [](S&, const T& x) {
         const T heads = x.view({1, 2, 4, 3});
         return std::get<0>(
             at::_scaled_dot_product_attention_math(heads, heads.sin(), heads.cos(), {}, 0.3));
       }},
      {"causal attention",
       [](S&, const T& x) {
         const T heads = x.view({1, 2, 4, 3});
         return at::scaled_dot_product_attention(heads, heads.sin(), heads, {}, 0, true, 0.3);
       },
       false},
      {"attention with a mask",
       [](S& s, const T& x) {
         const T heads = x.view({1, 2, 4, 3});
         return at::scaled_dot_product_attention(heads, heads, heads.cos(),
                                                 s.square.narrow(0, 0, 4).narrow(1, 0, 4));
       },
       false},
  };
}

std::vector<Family> quantised_and_other_layouts() {
  return {
      {"quantize",
       [](S&, const T& x) {
         return at::quantize_per_tensor(x.detach(), 0.1, 10, at::kQUInt8).dequantize() * x;
       }},
      {"fake_quantize",
       [](S&, const T& x) { return at::fake_quantize_per_tensor_affine(x, 0.1, 0, -10, 10) * x; },
       false},
      {"fake_quantize by channel",
       [](S& s, const T& x) {
         return at::fake_quantize_per_channel_affine(x, s.bias.detach().abs() + 0.1,
                                                     at::zeros({6}, at::kInt), 1, -10, 10);
       },
       false},
      {"learned fake_quantize",
       [](S& s, const T& x) {
         return at::_fake_quantize_learnable_per_tensor_affine(
             x, s.bias.narrow(0, 0, 1).abs() + 0.1, at::zeros({1}), 0, 255, 1.0);
       },
       false},
      {"sparse softmax",
       [](S&, const T& x) {
         return at::_sparse_softmax(x.relu().to_sparse(), std::int64_t(1)).to_dense();
       },
       false},
      {"sparse_mask",
       [](S&, const T& x) { return x.sparse_mask(x.detach().relu().to_sparse()).to_dense(); },
       false},
      {"sparse sum",
       [](S&, const T& x) { return at::_sparse_sum(x.relu().to_sparse(), {0}).to_dense() + x; },
       false},
      {"csr",
       [](S& s, const T& x) { return x.detach().relu().to_sparse_csr().matmul(s.square) + x; },
       false},
      {"bsr",
       [](S&, const T& x) {
         return x.detach().relu().to_sparse_bsr({2, 2}).to_dense() * x;
       },
       false},
      {"mkldnn", [](S&, const T& x) { return x.contiguous().to_mkldnn().relu().to_dense() * x; },
       false},
      {"nested norm",
       [](S& s, const T& x) {
         const T nested = torch::nested::as_nested_tensor({x.narrow(0, 0, 1), x.narrow(0, 1, 3)});
         const T normed = at::layer_norm(nested, {6}, s.bias, s.bias);
         return at::gelu(normed).to_padded_tensor(0.5);
       },
       false},
      {"zero tensor",
       [](S&, const T& x) {
         return x.sin() + at::_efficientzerotensor({4, 6});
       }},
  };
}

std::vector<Family> unusual_code() {
  return {
      {"copies of views",
       [](S&, const T& x) {
         return at::view_copy(x.contiguous(), {6, 4}).t().sin() + at::t_copy(x).t() +
                at::stack(at::unbind_copy(x, 0)) + at::select_copy(x, 0, 1) + at::alias_copy(x);
       }},
      {"scatters of views",
       [](S& s, const T& x) {
         return at::select_scatter(x, s.bias, 0, 2) +
                at::diagonal_scatter(x, s.bias.narrow(0, 0, 4)) +
                at::as_strided_scatter(x.contiguous(), x.narrow(0, 0, 2), {2, 6}, {6, 1}, 6);
       }},
      {"stacks",
       [](S&, const T& x) {
         return at::hstack({x, x.sin()}) * at::vstack({x, x.cos()}).view({4, 12}) +
                at::dstack({x, x}).view({4, 12});
       }},
      {"splits",
       [](S&, const T& x) {
         const auto parts = at::tensor_split(x, 4, 1);
         return at::cat({parts[2].sin(), parts[0], parts[3]}, 1).sum(1, true) * x +
                at::cat({at::hsplit(x, 2)[1], at::hsplit(x, 3)[0].exp(), x.narrow(1, 0, 1)}, 1);
       }},
      {"adjoint",
       [](S&, const T& x) { return at::adjoint(x).sin().t() + x.mH().mT() + at::rot90(x, 2); }},
      {"functional index_put",
       [](S&, const T& x) {
         return at::index_put(x, {longs({0, 0, 2})}, x.narrow(0, 0, 3).sin(), true) +
                at::index_fill(x, 1, longs({1}), 0.5);
       }},
      {"embedding of negative padding",
       [](S& s, const T& x) {
         return at::embedding(s.embedding, (x.detach().abs() * 3).to(at::kLong).clamp(0, 9), 2,
                              true);
       },
       false},
      {"inference tensor",
       [](S&, const T& x) {
         T y;
         {
           const c10::InferenceMode inference;
           y = x.sin() * 2;
           y.add_(1);
         }
         return x + y;
       }},
      {"write to data",
       [](S&, const T& x) {
         const T y = x.sin();
         y.data().mul_(2);
         return y * x;
       }},
      {"set_ to a storage",
       [](S&, const T& x) {
         T y = at::empty({0});
         const torch::NoGradGuard no_grad;
         const T k = x.detach().cos().contiguous();
         y.set_(k.storage(), 2, {4, 3}, {3, 1});
         return y.exp();
       }},
      {"resize_ and back",
       [](S&, const T& x) {
         const T y = x.detach().sin().contiguous();
         y.resize_({2, 6});
         const T sum = y.sum();
         y.resize_({4, 6});
         y.narrow(0, 2, 2).fill_(0.5);
         return x * y * sum;
       }},
      {"out= of several",
       [](S&, const T& x) {
         T values = at::empty({0});
         T indices = at::empty({0}, at::kLong);
         T sums = at::empty({0});
         {
           const torch::NoGradGuard no_grad;
           at::sort_out(values, indices, x, 1);
           at::cumsum_out(sums, x, 1);
         }
         return x * values + sums;
       }},
      {"loop by a value",
       [](S&, const T& x) {
         T y = x;
         for (int i = 0; i < 4 && y.detach().abs().sum().item<float>() > 8; ++i) {
           y = (y * 0.8).sin();
         }
         return y * x;
       }},
      {"experts",
       [](S& s, const T& x) {
         const T gate = x.mm(s.square).softmax(1);
         T y = at::zeros({4, 6});
         for (int expert = 0; expert < 3; ++expert) {
           const T rows = (gate.argmax(1) % 3 == expert).nonzero().reshape({-1});
           y = rows.numel() == 0 ? y : y.index_add(0, rows, x.index_select(0, rows).mm(s.square));
         }
         return y * gate;
       }},
      {"hooks on gradients",
       [](S&, const T& x) {
         const T y = x.sin();
         if (y.requires_grad()) {
           y.register_hook([](const T& g) { return g.clamp(-1, 1); });
           y.register_hook([own = y.detach()](const T& g) { return g * own; });
         }
         return (y * y).exp().tanh();
       }},
  };
}

}  // namespace further_layers

std::vector<Family> further_layer_families() {
  std::vector<Family> all = further_layers::convolutions();
  for (const auto& some :
       {further_layers::pooling_and_sampling(), further_layers::losses_and_norms(),
        further_layers::recurrent_and_attention(), further_layers::quantised_and_other_layouts(),
        further_layers::unusual_code()}) {
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

}  // namespace reprise::testing
