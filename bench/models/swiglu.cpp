// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Blocks of fused attention and a gated layer, as in pytorch#197838.
#include <vector>

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

struct NetworkImpl : torch::nn::Module {
  explicit NetworkImpl(const Shape& shape)
      : embedding(
            register_module("embedding", torch::nn::Embedding(shape.vocabulary, shape.width))) {
    for (int layer = 0; layer < shape.layers; ++layer) {
      blocks->push_back(Block(shape));
    }
    register_module("blocks", blocks);
    head = register_module("head", torch::nn::Linear(shape.width, shape.vocabulary));
  }

  torch::nn::Embedding embedding;
  torch::nn::ModuleList blocks;
  torch::nn::Linear head = nullptr;
};
TORCH_MODULE(Network);

Model make(const Shape& shape) {
  Network network(shape);
  const at::Tensor tokens =
      torch::randint(shape.vocabulary, {shape.batch, shape.tokens + 1}, torch::kInt64);
  Model model{.module = network.ptr()};
  model.enter = [network, inputs = tokens.narrow(1, 0, shape.tokens)]() mutable {
    return network->embedding(inputs);
  };
  model.blocks = blocks_of<BlockImpl>(network->blocks);
  model.loss = [network, targets = tokens.narrow(1, 1, shape.tokens)](const at::Tensor& h) mutable {
    return torch::nn::functional::cross_entropy(network->head(h).flatten(0, 1), targets.flatten());
  };
  return model;
}

}  // namespace reprise::bench::swiglu
