// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "model.h"

#include <cmath>
#include <limits>
#include <string>

#include "reprise/rng/rng_state_tracker.h"

namespace tensor_parallel_gpt {
namespace {

namespace nn = torch::nn;

constexpr double kDropout = 0.1;

// The weight of a linear layer of which each rank has an n-th: of its outputs (kColumns; of each of
// `groups` such layers side by side) or of its inputs (kRows). Every rank draws all of it, so that
// the model is the same on any number of ranks.
enum class Divided { kColumns, kRows };

torch::Tensor divided_weight(Divided by, std::int64_t in, std::int64_t out, const Ranks& ranks,
                             std::int64_t groups = 1) {
  const torch::Tensor all = torch::randn({groups, out, in}) / std::sqrt(static_cast<double>(in));
  const std::int64_t dimension = by == Divided::kColumns ? 1 : 2;
  const std::int64_t length = all.size(dimension) / ranks.size;
  // A copy, so that the whole can go.
  return all.narrow(dimension, ranks.rank * length, length).flatten(0, 1).clone();
}

// Of replicated tensors.
torch::Tensor drop_alike(const torch::Tensor& h) { return torch::dropout(h, kDropout, true); }

// Of tensors of which each rank has a part.
torch::Tensor drop_own(const torch::Tensor& h) {
  const auto fork = reprise::default_rng_state_tracker().fork();
  return torch::dropout(h, kDropout, true);
}

nn::LayerNorm layer_norm(std::int64_t width) {
  return nn::LayerNorm(nn::LayerNormOptions({width}));
}

class BlockImpl : public nn::Module {
 public:
  BlockImpl(const Options& options, const Ranks& ranks)
      : ranks_(ranks),
        heads_(options.heads / ranks.size),
        attention_norm_(register_module("attention_norm", layer_norm(options.width))),
        mlp_norm_(register_module("mlp_norm", layer_norm(options.width))) {
    const std::int64_t width = options.width;
    queries_keys_values_ = register_parameter(
        "queries_keys_values", divided_weight(Divided::kColumns, width, width, ranks, 3));
    attention_out_ =
        register_parameter("attention_out", divided_weight(Divided::kRows, width, width, ranks));
    mlp_up_ =
        register_parameter("mlp_up", divided_weight(Divided::kColumns, width, 4 * width, ranks));
    mlp_down_ =
        register_parameter("mlp_down", divided_weight(Divided::kRows, 4 * width, width, ranks));
    future_ = register_buffer(
        "future", torch::ones({options.context, options.context}, torch::kBool).triu(1));
  }

  // (batch, tokens, width) to the same shape; both are the same on all ranks.
  torch::Tensor forward(const torch::Tensor& h) {
    const torch::Tensor x = copy_to_ranks(attention_norm_(h), ranks_);
    const torch::Tensor attended =
        h + drop_alike(reduce_from_ranks(torch::linear(attend(x), attention_out_), ranks_));
    const torch::Tensor y = copy_to_ranks(mlp_norm_(attended), ranks_);
    const torch::Tensor hidden = drop_own(torch::gelu(torch::linear(y, mlp_up_)));
    return attended + drop_alike(reduce_from_ranks(torch::linear(hidden, mlp_down_), ranks_));
  }

 private:
  // This rank's heads.
  torch::Tensor attend(const torch::Tensor& x) {
    const std::int64_t batch = x.size(0);
    const std::int64_t tokens = x.size(1);
    const std::vector<torch::Tensor> qkv = torch::linear(x, queries_keys_values_)
                                               .view({batch, tokens, 3, heads_, -1})
                                               .permute({2, 0, 3, 1, 4})
                                               .unbind(0);
    const double scale = 1 / std::sqrt(static_cast<double>(qkv[0].size(3)));
    const torch::Tensor scores =
        torch::matmul(qkv[0] * scale, qkv[1].transpose(2, 3))
            .masked_fill(future_, -std::numeric_limits<double>::infinity());
    const torch::Tensor mixed = torch::matmul(drop_own(torch::softmax(scores, -1)), qkv[2]);
    return mixed.transpose(1, 2).reshape({batch, tokens, -1});
  }

  Ranks ranks_;
  std::int64_t heads_;
  nn::LayerNorm attention_norm_;
  nn::LayerNorm mlp_norm_;
  torch::Tensor queries_keys_values_;
  torch::Tensor attention_out_;
  torch::Tensor mlp_up_;
  torch::Tensor mlp_down_;
  torch::Tensor future_;  // (context, context), true where a token must not look
};
TORCH_MODULE(Block);

}  // namespace

GptImpl::GptImpl(const Options& options, const Ranks& ranks)
    : token_embedding_(
          register_module("token_embedding", nn::Embedding(kVocabulary, options.width))),
      position_embedding_(
          register_module("position_embedding", nn::Embedding(options.context, options.width))),
      final_norm_(register_module("final_norm", layer_norm(options.width))),
      head_(register_module("head", nn::Linear(options.width, kVocabulary))) {
  for (std::int64_t layer = 0; layer < options.layers; ++layer) {
    Block block = register_module("block" + std::to_string(layer), Block(options, ranks));
    blocks_.emplace_back([block](const torch::Tensor& h) mutable { return block(h); });
  }
}

torch::Tensor GptImpl::embed(const torch::Tensor& tokens) {
  const torch::Tensor positions =
      torch::arange(tokens.size(1), torch::dtype(torch::kInt64).device(tokens.device()));
  return drop_alike(token_embedding_(tokens) + position_embedding_(positions));
}

torch::Tensor GptImpl::run_blocks(torch::Tensor h, const BlockRunner& run_block) {
  for (std::size_t layer = 0; layer < blocks_.size(); ++layer) {
    h = run_block(blocks_[layer], "block" + std::to_string(layer), h);
  }
  return h;
}

torch::Tensor GptImpl::logits(const torch::Tensor& h) { return head_(final_norm_(h)); }

}  // namespace tensor_parallel_gpt
