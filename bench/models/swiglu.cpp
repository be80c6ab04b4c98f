// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Blocks of fused attention and a gated layer, as in pytorch#197838.
#include <vector>

#include "bench/models/language_model.h"
#include "bench/models/model.h"

namespace reprise::bench::swiglu {

struct BlockImpl : torch::nn::Module {
  explicit BlockImpl(const Shape& shape)
      : heads(shape.heads),
        attention_norm(register_parameter("attention_norm", torch::ones(shape.width))),
        mlp_norm(register_parameter("mlp_norm", torch::ones(shape.width))),
        queries_keys_values(linear("queries_keys_values", shape.width, 3 * shape.width)),
        attention_out(linear("attention_out", shape.width, shape.width)),
        gate(linear("gate", shape.width, shape.hidden)),
        up(linear("up", shape.width, shape.hidden)),
        down(linear("down", shape.hidden, shape.width)) {}

  torch::nn::Linear linear(const char* name, int in, int out) {
    return register_module(name, torch::nn::Linear(torch::nn::LinearOptions(in, out).bias(false)));
  }

  at::Tensor attend(const at::Tensor& h) {
    const auto batch = h.size(0), tokens = h.size(1), width = h.size(2);
    const std::vector<at::Tensor> parts = queries_keys_values(h)
                                              .view({batch, tokens, 3, heads, width / heads})
                                              .permute({2, 0, 3, 1, 4})
                                              .unbind(0);
    const at::Tensor mixed =
        at::scaled_dot_product_attention(parts[0], parts[1], parts[2], {}, 0.0, /*is_causal=*/true);
    return attention_out(mixed.transpose(1, 2).reshape({batch, tokens, width}));
  }

  at::Tensor forward(const at::Tensor& x) {
    const std::vector<std::int64_t> normed_shape = {x.size(2)};
    const at::Tensor h = x + attend(at::rms_norm(x, normed_shape, attention_norm));
    const at::Tensor normed = at::rms_norm(h, normed_shape, mlp_norm);
    return h + down(torch::silu(gate(normed)) * up(normed));
  }

  int heads;
  at::Tensor attention_norm, mlp_norm;
  torch::nn::Linear queries_keys_values, attention_out, gate, up, down;
};
TORCH_MODULE(Block);

Model make(const Shape& shape) {
  return make_language_model<Block>(shape, shape.batch, shape.tokens);
}

}  // namespace reprise::bench::swiglu
