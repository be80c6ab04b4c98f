// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "bench/zoo/zoo.h"

namespace reprise::zoo {
namespace {

namespace nn = torch::nn;
namespace F = torch::nn::functional;

constexpr int kWidth = 64;
constexpr int kHeads = 4;
constexpr int kWords = 100;

at::Tensor heads_of(const at::Tensor& x) {
  return x.view({x.size(0), x.size(1), kHeads, -1}).transpose(1, 2);
}
at::Tensor joined(const at::Tensor& heads) {
  return heads.transpose(1, 2).reshape({heads.size(0), heads.size(2), -1});
}

// Steps of an LSTM in chunks, with the state passed along; after Zaremba et al. 2014.
struct Lstm : Model {
  explicit Lstm(std::int64_t scale) : words(torch::randint(kWords, {32, 2 * scale})) {
    embedding = register_module("embedding", nn::Embedding(kWords, kWidth));
    lstm = register_module("lstm", nn::LSTM(nn::LSTMOptions(kWidth, kWidth).num_layers(2)));
    head = register_module("head", nn::Linear(kWidth, kWords));
  }
  at::Tensor loss(const RegionRunner& run) override {
    const at::Tensor inputs = embedding(words);
    const at::Tensor zeros = torch::zeros({2, words.size(1), kWidth});
    std::tuple<at::Tensor, at::Tensor> state(zeros, zeros.clone());
    std::vector<at::Tensor> outputs;
    for (const at::Tensor& chunk : inputs.split(8)) {
      auto [output, next] = run(lstm, chunk, state);
      outputs.push_back(output);
      state = next;
    }
    return F::cross_entropy(head(torch::cat(outputs)).flatten(0, 1), words.flatten());
  }
  nn::Embedding embedding{nullptr};
  nn::LSTM lstm{nullptr};
  nn::Linear head{nullptr};
  at::Tensor words;
};

// Pre-norm decoder with explicit attention and dropout, after Radford et al. 2019.
struct Gpt : Model {
  struct Block : nn::Module {
    Block()
        : norm1(register_module("norm1", nn::LayerNorm(nn::LayerNormOptions({kWidth})))),
          norm2(register_module("norm2", nn::LayerNorm(nn::LayerNormOptions({kWidth})))),
          qkv(register_module("qkv", nn::Linear(kWidth, 3 * kWidth))),
          out(register_module("out", nn::Linear(kWidth, kWidth))),
          up(register_module("up", nn::Linear(kWidth, 4 * kWidth))),
          down(register_module("down", nn::Linear(4 * kWidth, kWidth))) {}
    at::Tensor forward(const at::Tensor& x) {
      const auto parts = qkv(norm1(x)).chunk(3, -1);
      at::Tensor scores = heads_of(parts[0]).matmul(heads_of(parts[1]).transpose(-2, -1)) / 4.0;
      const auto t = x.size(1);
      scores = scores.masked_fill(torch::ones({t, t}, torch::kBool).triu(1), -1e9);
      const at::Tensor p = torch::dropout(torch::softmax(scores, -1), 0.1, is_training());
      const at::Tensor h = x + torch::dropout(out(joined(p.matmul(heads_of(parts[2])))), 0.1, true);
      return h + torch::dropout(down(torch::gelu(up(norm2(h)))), 0.1, is_training());
    }
    nn::LayerNorm norm1, norm2;
    nn::Linear qkv, out, up, down;
  };

  explicit Gpt(std::int64_t scale) : words(torch::randint(kWords, {2 * scale, 64})) {
    embedding = register_module("embedding", nn::Embedding(kWords, kWidth));
    for (int i = 0; i < 4; ++i) {
      blocks->push_back(std::make_shared<Block>());
    }
    register_module("blocks", blocks);
    head = register_module("head", nn::Linear(kWidth, kWords));
  }
  at::Tensor loss(const RegionRunner& run) override {
    at::Tensor h = embedding(words);
    for (const auto& block : *blocks) {
      h = run(block->as<Block>(), h);
    }
    return F::cross_entropy(head(h).flatten(0, 1), words.flatten());
  }
  nn::Embedding embedding{nullptr};
  nn::ModuleList blocks;
  nn::Linear head{nullptr};
  at::Tensor words;
};

struct LlamaBlock : nn::Module {
  LlamaBlock() {
    const auto linear = [this](const char* name, int in, int out) {
      return register_module(name, nn::Linear(nn::LinearOptions(in, out).bias(false)));
    };
    q = linear("q", kWidth, kWidth);
    k = linear("k", kWidth, kWidth / 2);
    v = linear("v", kWidth, kWidth / 2);
    o = linear("o", kWidth, kWidth);
    gate = linear("gate", kWidth, 172);
    up = linear("up", kWidth, 172);
    down = linear("down", 172, kWidth);
    norm1 = register_parameter("norm1", torch::ones(kWidth));
    norm2 = register_parameter("norm2", torch::ones(kWidth));
  }
  static at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight) {
    return x * torch::rsqrt(x.pow(2).mean(-1, true) + 1e-5) * weight;
  }
  static at::Tensor rotate(const at::Tensor& x, const at::Tensor& cosine, const at::Tensor& sine) {
    const auto halves = x.chunk(2, -1);
    return x * cosine + torch::cat({-halves[1], halves[0]}, -1) * sine;
  }
  at::Tensor attention(const at::Tensor& x, std::int64_t start) {
    const auto t = x.size(1), b = x.size(0), d = static_cast<std::int64_t>(kWidth / kHeads);
    const at::Tensor angles =
        torch::outer(torch::arange(start, start + t).to(torch::kFloat),
                     torch::pow(10000.0, -torch::arange(0, d, 2).to(torch::kFloat) / d));
    const at::Tensor cosine = torch::cat({angles, angles}, -1).cos();
    const at::Tensor sine = torch::cat({angles, angles}, -1).sin();
    const at::Tensor queries = rotate(q(x).view({b, t, kHeads, d}).transpose(1, 2), cosine, sine);
    at::Tensor keys = rotate(k(x).view({b, t, kHeads / 2, d}).transpose(1, 2), cosine, sine);
    at::Tensor values = v(x).view({b, t, kHeads / 2, d}).transpose(1, 2);
    if (cached_keys.defined()) {
      keys = torch::cat({cached_keys, keys}, 2);
      values = torch::cat({cached_values, values}, 2);
    }
    const at::Tensor a = at::scaled_dot_product_attention(
        queries, keys.repeat_interleave(2, 1), values.repeat_interleave(2, 1), {}, 0.0, start == 0);
    return o(joined(a));
  }
  at::Tensor forward(const at::Tensor& x, std::int64_t start) {
    const at::Tensor h = x + attention(rms_norm(x, norm1), start);
    const at::Tensor n = rms_norm(h, norm2);
    return h + down(torch::silu(gate(n)) * up(n));
  }
  // The prefix is read, and not trained.
  void fill_cache(const at::Tensor& x) {
    const torch::NoGradGuard no_grad;
    const auto shape = std::vector<std::int64_t>{x.size(0), x.size(1), kHeads / 2, -1};
    cached_keys = k(rms_norm(x, norm1)).view(shape).transpose(1, 2).contiguous();
    cached_values = v(rms_norm(x, norm1)).view(shape).transpose(1, 2).contiguous();
  }
  nn::Linear q{nullptr}, k{nullptr}, v{nullptr}, o{nullptr};
  nn::Linear gate{nullptr}, up{nullptr}, down{nullptr};
  at::Tensor norm1, norm2, cached_keys, cached_values;
};

// RMSNorm, rotary positions, grouped queries, SwiGLU, after Touvron et al. 2023.
struct Llama : Model {
  Llama(std::int64_t scale, bool has_cache) : words(torch::randint(kWords, {2 * scale, 64})) {
    embedding = register_module("embedding", nn::Embedding(kWords, kWidth));
    for (int i = 0; i < 4; ++i) {
      blocks.push_back(std::make_shared<LlamaBlock>());
      register_module("block" + std::to_string(i), blocks.back());
      if (has_cache) {
        blocks.back()->fill_cache(torch::randn({2 * scale, 16, kWidth}));
        start = 16;
      }
    }
    head = register_module("head", nn::Linear(kWidth, kWords));
  }
  explicit Llama(std::int64_t scale) : Llama(scale, /*has_cache=*/false) {}
  at::Tensor loss(const RegionRunner& run) override {
    at::Tensor h = embedding(words);
    for (const auto& block : blocks) {
      h = run(block, h, start);
    }
    return F::cross_entropy(head(LlamaBlock::rms_norm(h, torch::ones(kWidth))).flatten(0, 1),
                            words.flatten());
  }
  nn::Embedding embedding{nullptr};
  std::vector<std::shared_ptr<LlamaBlock>> blocks;
  nn::Linear head{nullptr};
  std::int64_t start = 0;
  at::Tensor words;
};

// The same behind a cache of keys and values of a prefix.
struct CachedLlama : Llama {
  explicit CachedLlama(std::int64_t scale) : Llama(scale, /*has_cache=*/true) {}
};

// Frozen projections with trained low-rank updates, after Hu et al. 2021.
struct Lora : Model {
  struct Linear : nn::Module {
    Linear(int in, int out)
        : base(register_module("base", nn::Linear(in, out))),
          a(register_parameter("a", torch::randn({in, 4}) * 0.1)),
          b(register_parameter("b", torch::randn({4, out}) * 0.1)) {
      base->weight.set_requires_grad(false);
      base->bias.set_requires_grad(false);
    }
    at::Tensor forward(const at::Tensor& x) {
      const at::Tensor update = torch::dropout(x, 0.1, is_training()).matmul(a).matmul(b);
      return x + torch::relu(base(x) + update * 2.0);
    }
    nn::Linear base;
    at::Tensor a, b;
  };

  explicit Lora(std::int64_t scale) : x(torch::randn({16 * scale, kWidth})) {
    for (int i = 0; i < 6; ++i) {
      layers.push_back(std::make_shared<Linear>(kWidth, kWidth));
      register_module("layer" + std::to_string(i), layers.back());
    }
    y = torch::randn_like(x);
  }
  at::Tensor loss(const RegionRunner& run) override {
    at::Tensor h = x;
    for (const auto& layer : layers) {
      h = run(layer, h);
    }
    return F::mse_loss(h, y);
  }
  std::vector<std::shared_ptr<Linear>> layers;
  at::Tensor x, y;
};

// LibTorch's own encoder layers under a padding mask, after Devlin et al. 2018.
struct Bert : Model {
  explicit Bert(std::int64_t scale) : words(torch::randint(kWords, {64, 2 * scale})) {
    embedding = register_module("embedding", nn::Embedding(kWords, kWidth));
    for (int i = 0; i < 3; ++i) {
      layers->push_back(nn::TransformerEncoderLayer(
          nn::TransformerEncoderLayerOptions(kWidth, kHeads).dim_feedforward(256).dropout(0.1)));
    }
    register_module("layers", layers);
    head = register_module("head", nn::Linear(kWidth, kWords));
    padding = torch::arange(64).unsqueeze(0).expand({words.size(1), 64}) >= 60;
  }
  at::Tensor loss(const RegionRunner& run) override {
    at::Tensor h = embedding(words);
    for (const auto& layer : *layers) {
      h = run(layer->as<nn::TransformerEncoderLayer>(), h, at::Tensor(), padding);
    }
    return F::cross_entropy(head(h).flatten(0, 1), words.flatten());
  }
  nn::Embedding embedding{nullptr};
  nn::ModuleList layers;
  nn::Linear head{nullptr};
  at::Tensor words, padding;
};

}  // namespace

std::vector<Kind> sequence_kinds() {
  return {kind_of<Lstm>("lstm", "two layers, a region per chunk of the sequence"),
          kind_of<Gpt>("gpt", "pre-norm decoder, explicit attention, dropout"),
          kind_of<Llama>("llama", "RMSNorm, rotary positions, grouped queries, SwiGLU"),
          kind_of<CachedLlama>("llama-cache", "the same behind a cache of keys and values"),
          kind_of<Lora>("lora", "frozen layers with trained low-rank updates"),
          kind_of<Bert>("bert", "torch::nn::TransformerEncoderLayer, padding mask, dropout")};
}

}  // namespace reprise::zoo
