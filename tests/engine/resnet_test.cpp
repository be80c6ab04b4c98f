// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Small models that are trained for some steps with their blocks as regions, under policies of many
// kinds: a residual network with batch-norm, and a transformer encoder.
#include <set>

#include "tests/engine/under_policies.h"

namespace reprise::testing::resnet_test {
namespace {

struct ResidualBlockImpl : torch::nn::Module {
  ResidualBlockImpl(int in, int out, int stride)
      : first(register_module("first", convolution(in, out, 3, stride))),
        first_norm(register_module("first_norm", torch::nn::BatchNorm2d(out))),
        second(register_module("second", convolution(out, out, 3, 1))),
        second_norm(register_module("second_norm", torch::nn::BatchNorm2d(out))) {
    if (in != out || stride != 1) {
      downsample = register_module(
          "downsample",
          torch::nn::Sequential(convolution(in, out, 1, stride), torch::nn::BatchNorm2d(out)));
    }
  }

  static torch::nn::Conv2d convolution(int in, int out, int size, int stride) {
    return torch::nn::Conv2d(
        torch::nn::Conv2dOptions(in, out, size).stride(stride).padding(size / 2).bias(false));
  }

  at::Tensor forward(const at::Tensor& x) {
    at::Tensor y = first_norm(first(x)).relu_();
    y = second_norm(second(y));
    y += downsample ? downsample->forward(x) : x;
    return y.relu_();
  }

  torch::nn::Conv2d first;
  torch::nn::BatchNorm2d first_norm;
  torch::nn::Conv2d second;
  torch::nn::BatchNorm2d second_norm;
  torch::nn::Sequential downsample{nullptr};
};
TORCH_MODULE(ResidualBlock);

struct ResidualNetworkImpl : torch::nn::Module {
  ResidualNetworkImpl()
      : stem(register_module("stem", ResidualBlockImpl::convolution(3, 8, 3, 1))),
        blocks(register_module("blocks", torch::nn::ModuleList())),
        head(register_module("head", torch::nn::Linear(16, 10))) {
    blocks->push_back(ResidualBlock(8, 8, 1));
    blocks->push_back(ResidualBlock(8, 16, 2));
    blocks->push_back(ResidualBlock(16, 16, 1));
  }

  template <class Run>
  at::Tensor forward(const at::Tensor& x, const Run& run) {
    at::Tensor h = stem(x).relu_();
    for (const auto& module : *blocks) {
      h = run(ResidualBlock(std::dynamic_pointer_cast<ResidualBlockImpl>(module)), h);
    }
    return head(h.mean({2, 3}));
  }

  torch::nn::Conv2d stem;
  torch::nn::ModuleList blocks;
  torch::nn::Linear head;
};
TORCH_MODULE(ResidualNetwork);

struct EncoderLayerImpl : torch::nn::Module {
  EncoderLayerImpl()
      : norm(register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({16})))),
        qkv(register_module("qkv", torch::nn::Linear(16, 48))),
        out(register_module("out", torch::nn::Linear(16, 16))),
        up(register_module("up", torch::nn::Linear(16, 32))),
        down(register_module("down", torch::nn::Linear(32, 16))) {}

  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor heads = qkv(norm(x)).view({2, 6, 3, 2, 8}).permute({2, 0, 3, 1, 4});
    const at::Tensor mixed = at::scaled_dot_product_attention(heads[0], heads[1], heads[2]);
    const at::Tensor explicit_weights =
        torch::dropout((heads[0].matmul(heads[1].transpose(-2, -1)) / 3).softmax(-1), 0.1, true);
    const at::Tensor attended = mixed + explicit_weights.matmul(heads[2]);
    const at::Tensor h =
        x + torch::dropout(out(attended.transpose(1, 2).reshape({2, 6, 16})), 0.1, true);
    return h + torch::dropout(down(torch::gelu(up(norm(h)))), 0.1, true);
  }

  torch::nn::LayerNorm norm;
  torch::nn::Linear qkv;
  torch::nn::Linear out;
  torch::nn::Linear up;
  torch::nn::Linear down;
};
TORCH_MODULE(EncoderLayer);

class TrainingTest : public UnderPolicies {
 protected:
  static void append(Tensors& to, const Tensors& tensors) {
    for (const at::Tensor& tensor : tensors) {
      to.push_back(tensor.detach().clone());
    }
  }

  // Outputs and gradients of each step, and the parameters and buffers after it.
  template <class Model, class Forward>
  Tensors train(Model& model, const Forward& forward) {
    torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
    Tensors found;
    for (int step = 0; step < 5; ++step) {
      optimizer.zero_grad();
      const at::Tensor y = forward(model);
      watch(y);
      y.square().mean().backward();
      append(found, {y});
      for (const at::Tensor& parameter : model->parameters()) {
        append(found, {parameter.grad()});
      }
      optimizer.step();
      append(found, model->parameters());
      append(found, model->buffers());
    }
    append(found, {cpu_generator_state()});
    return found;
  }

  template <class Run>
  Tensors train_residual_network(const Run& run) {
    torch::manual_seed(11);
    ResidualNetwork network;
    return train(network, [&](ResidualNetwork& model) {
      return model->forward(torch::randn({4, 3, 16, 16}), run);
    });
  }

  template <class Run>
  Tensors train_encoder(bool autocast, const Run& run) {
    torch::manual_seed(12);
    torch::nn::ModuleList layers{EncoderLayer(), EncoderLayer()};
    return train(layers, [&](torch::nn::ModuleList& model) {
      const AutocastScope scope(autocast);
      at::Tensor h = torch::randn({2, 6, 16});
      for (const auto& module : *model) {
        h = run(EncoderLayer(std::dynamic_pointer_cast<EncoderLayerImpl>(module)), h);
      }
      return h.to(at::kFloat);
    });
  }

  // The names of the operators that a policy is asked about in one forward of `block`.
  template <class Block>
  static std::set<std::string> operators_of(Block block, const at::Tensor& x) {
    std::set<std::string> names;
    const PolicyHolder recording = [&names](const PolicyContext& context) {
      names.insert(context.full_name());
      return CheckpointPolicy::PREFER_RECOMPUTE;
    };
    checkpoint({.policy = recording}, std::move(block), x);
    return names;
  }

  static std::vector<std::string> with_word(const std::set<std::string>& names,
                                            std::string_view word) {
    std::vector<std::string> found;
    std::copy_if(names.begin(), names.end(), std::back_inserter(found),
                 [&](const std::string& name) { return name.find(word) != std::string::npos; });
    return found;
  }
};

TEST_F(TrainingTest, ResidualNetworkTrainsAsWithoutRegions) {
  const std::vector<std::string> norms =
      with_word(operators_of(ResidualBlock(8, 8, 1), torch::randn({2, 8, 4, 4})), "batch_norm");
  ASSERT_THAT(norms, ::testing::Not(::testing::IsEmpty()));
  const Tensors expected = train_residual_network(Plain{});
  expect_same_bits(train_residual_network(InRegion{}), expected);
  const std::vector<PolicyHolder> policies = {policies::save_nothing(),
                                              policies::save_everything(),
                                              policies::offload(policies::save_everything()),
                                              policies::save_compute_intensive(),
                                              policies::every_nth_matmul(2),
                                              policies::save_operators(norms),
                                              by_ordinal(0xb6db6db6db6db6dbU),
                                              by_ordinal(0x5a5a5a5a5a5a5a5aU)};
  for (std::size_t i = 0; i < policies.size(); ++i) {
    SCOPED_TRACE(i);
    expect_same_bits(train_residual_network(InRegion{{.policy = policies[i]}}), expected);
  }
}

TEST_F(TrainingTest, EncoderUnderTheUsualListTrainsAsWithoutRegions) {
  std::vector<std::string> listed = {"aten::mm", "aten::addmm", "aten::bmm"};
  for (const std::string& name :
       with_word(operators_of(EncoderLayer(), torch::randn({2, 6, 16})), "attention")) {
    listed.push_back(name);
  }
  ASSERT_GT(listed.size(), 3U) << "attention is not one operator here";
  for (const bool autocast : {false, true}) {
    const Tensors expected = train_encoder(autocast, Plain{});
    expect_same_bits(train_encoder(autocast, InRegion{}), expected);
    for (const PolicyHolder& policy :
         {policies::save_operators(listed),
          policies::first_match({policies::save_operators(listed), policies::save_attention()}),
          policies::save_nothing(), policies::save_everything(), policies::every_nth_matmul(2),
          by_ordinal(0x5a5a5a5a5a5a5a5aU)}) {
      expect_same_bits(train_encoder(autocast, InRegion{{.policy = policy}}), expected);
    }
  }
}

}  // namespace
}  // namespace reprise::testing::resnet_test
