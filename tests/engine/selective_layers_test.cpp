// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Layers, indexing and random operators under policies of many kinds.
#include "tests/engine/under_policies.h"

namespace reprise::testing::selective_layers_test {
namespace {

class SelectiveLayersTest : public UnderPolicies {};

TEST_F(SelectiveLayersTest, GatherAndScatter) {
  expect_as_plain({
      {"gather, take, index_add",
       {{4, 3}},
       [](const Tensors& in) {
         const at::Tensor where = at::tensor({0, 2, 1, 3}, at::kLong).view({2, 2});
         const at::Tensor a = in[0].sin().gather(0, where).exp();
         return Tensors{
             a * in[0].cos().take(where),
             in[0].index_add(0, at::tensor({1, 1}, at::kLong), in[0].tanh().narrow(0, 0, 2))};
       }},
      {"scatter, scatter_add_, scatter_reduce",
       {{2, 3}},
       [](const Tensors& in) {
         const at::Tensor where = at::tensor({0, 1, 0, 1, 1, 0}, at::kLong).view({2, 3});
         const at::Tensor sum = at::zeros({2, 3}).scatter_add_(0, where, in[0].sin());
         const at::Tensor set = (in[0] * 2).scatter(0, where, in[0].cos());
         return Tensors{sum.exp(), set.tanh(),
                        at::zeros({2, 3}).scatter_reduce(0, where, in[0].exp(), "amax")};
       }},
      {"index_put_, masked_select, where",
       {{4, 3}},
       [](const Tensors& in) {
         const at::Tensor a = in[0].sin();
         a.index_put_({at::tensor({1, 1}, at::kLong)}, in[0].exp().narrow(0, 0, 2),
                      /*accumulate=*/true);
         const at::Tensor mask = in[0].detach() > 0;
         return Tensors{a.tanh(), in[0].cos().masked_select(mask) * 2,
                        at::where(mask, a, in[0].sigmoid())};
       }},
  });
}

TEST_F(SelectiveLayersTest, Embeddings) {
  expect_as_plain({
      {"embedding",
       {{5, 3}},
       [](const Tensors& in) {
         const at::Tensor tokens = at::tensor({0, 4, 4, 2}, at::kLong);
         return Tensors{at::embedding(in[0].sin(), tokens, /*padding_idx=*/2).exp()};
       }},
      {"embedding_bag",
       {{5, 3}},
       [](const Tensors& in) {
         const auto [bags, a, b, c] =
             at::embedding_bag(in[0].sin(), at::tensor({0, 4, 4, 2}, at::kLong),
                               at::tensor({0, 3}, at::kLong), false, /*mode=*/1);
         return Tensors{bags.exp()};
       }},
      {"embedding_renorm_",
       {{5, 3}},
       [](const Tensors& in) {
         const at::Tensor tokens = at::tensor({0, 4, 2}, at::kLong);
         at::Tensor table = in[0].detach().exp();
         at::embedding_renorm_(table, tokens, 0.5, 2);
         return Tensors{at::embedding(in[0].sin(), tokens) * at::embedding(table, tokens)};
       }},
  });
}

TEST_F(SelectiveLayersTest, ConvolutionsAndPooling) {
  expect_as_plain({
      {"conv1d",
       {{2, 3, 8}, {4, 3, 3}, {4}},
       [](const Tensors& in) {
         return Tensors{at::conv1d(in[0].sin(), in[1], in[2], 1, 1).relu().exp()};
       }},
      {"conv2d, max_pool2d, upsample",
       {{2, 2, 6, 6}, {3, 2, 3, 3}},
       [](const Tensors& in) {
         const at::Tensor a = at::conv2d(in[0].sin(), in[1], {}, 1, 1).relu();
         const at::Tensor b = at::max_pool2d(a, 2);
         return Tensors{at::upsample_nearest2d(b, {6, 6}) * a,
                        at::upsample_bilinear2d(b.tanh(), {5, 5}, false).exp()};
       }},
      {"conv_transpose2d, avg_pool2d",
       {{2, 2, 3, 3}, {2, 3, 3, 3}},
       [](const Tensors& in) {
         const at::Tensor a = at::conv_transpose2d(in[0].sin(), in[1], {}, 2);
         return Tensors{at::avg_pool2d(a.tanh(), 2).exp(),
                        at::adaptive_avg_pool2d(a.cos(), {2, 2})};
       }},
      {"max_pool2d_with_indices, max_unpool2d",
       {{1, 2, 4, 4}},
       [](const Tensors& in) {
         const auto [a, where] = at::max_pool2d_with_indices(in[0].sin(), 2, 2);
         return Tensors{at::max_unpool2d(a.exp(), where, {4, 4}) * in[0], where};
       }},
      {"pad",
       {{2, 3, 4}},
       [](const Tensors& in) {
         const at::Tensor a = at::constant_pad_nd(in[0].sin(), {1, 2}, 0.5).exp();
         return Tensors{at::reflection_pad1d(a, {1, 1}).tanh(), at::replication_pad1d(a, {1, 1})};
       }},
      {"channels last",
       {{2, 4, 4, 4}, {4, 4, 3, 3}},
       [](const Tensors& in) {
         const at::Tensor a = in[0].sin().contiguous(at::MemoryFormat::ChannelsLast);
         return Tensors{at::conv2d(a, in[1], {}, 1, 1).tanh().permute({0, 2, 3, 1}).exp()};
       }},
  });
}

TEST_F(SelectiveLayersTest, BatchNormWithStatisticsOfTheRegion) {
  expect_as_plain({
      {"none",
       {{3, 4}, {4}, {4}},
       [](const Tensors& in) {
         return Tensors{
             at::batch_norm(in[0].sin(), in[1], in[2], {}, {}, true, 0.1, 1e-5, false).exp()};
       }},
      {"made in the region",
       {{3, 4}},
       [](const Tensors& in) {
         const at::Tensor mean = at::zeros({4});
         const at::Tensor variance = at::ones({4});
         const at::Tensor a =
             at::batch_norm(in[0].sin(), {}, {}, mean, variance, true, 0.1, 1e-5, false);
         return Tensors{a.exp(), in[0] * mean, in[0].tanh() * variance};
       }},
      {"not in training",
       {{3, 4}},
       [](const Tensors& in) {
         const at::Tensor mean = in[0].detach().mean(0);
         const at::Tensor a =
             at::batch_norm(in[0].sin(), {}, {}, mean, mean.exp(), false, 0.1, 1e-5, false);
         return Tensors{a.exp()};
       }},
  });
}

TEST_F(SelectiveLayersTest, Dropouts) {
  expect_as_plain({
      {"dropout",
       {{4, 4}},
       [](const Tensors& in) {
         const at::Tensor a = torch::dropout(in[0].sin(), 0.5, true).exp();
         return Tensors{torch::dropout(a, 0.3, true) * torch::dropout(a, 0.0, true)};
       }},
      {"native_dropout",
       {{4, 4}},
       [](const Tensors& in) {
         const auto [a, mask] = at::native_dropout(in[0].sin(), 0.5, true);
         return Tensors{a.exp(), in[0] * mask};
       }},
      {"feature_dropout",
       {{2, 4, 3, 3}},
       [](const Tensors& in) {
         return Tensors{torch::feature_dropout(in[0].sin(), 0.5, true).exp()};
       }},
      {"alpha_dropout",
       {{4, 4}},
       [](const Tensors& in) {
         const at::Tensor a = torch::alpha_dropout(in[0].sin(), 0.5, true).exp();
         return Tensors{torch::feature_alpha_dropout(a, 0.3, true).tanh()};
       }},
      {"dropout_",
       {{4, 4}},
       [](const Tensors& in) {
         at::Tensor a = in[0] * 2;
         torch::dropout_(a, 0.5, true);
         at::Tensor b = a + 1;
         torch::feature_dropout_(b, 0.5, true);
         return Tensors{a.exp() * b.sin()};
       }},
      {"attention with dropout",
       {{1, 2, 4, 4}},
       [](const Tensors& in) {
         const at::Tensor a = in[0].sin();
         return Tensors{at::scaled_dot_product_attention(a, in[0], a, {}, 0.3).exp()};
       }},
  });
}

TEST_F(SelectiveLayersTest, RandomOperatorsInPlace) {
  expect_as_plain({
      {"rrelu in training",
       {{4, 4}},
       [](const Tensors& in) {
         return Tensors{at::rrelu(in[0].sin(), 0.1, 0.4, /*training=*/true).exp()};
       },
       /*saves_unset_memory=*/true},
      {"noise written into a made tensor",
       {{4, 4}},
       [](const Tensors& in) {
         const at::Tensor noise = at::empty({4, 4}).normal_();
         const at::Tensor other = at::zeros({4, 4}).uniform_(-1, 1).mul_(noise);
         return Tensors{(in[0].sin() * noise).exp() * other.exponential_()};
       }},
      {"bernoulli_ of a tensor",
       {{4, 4}},
       [](const Tensors& in) {
         const at::Tensor p = in[0].detach().sigmoid();
         at::Tensor mask = at::zeros({4, 4});
         mask.bernoulli_(p);
         return Tensors{in[0].sin() * mask, in[0] * at::zeros({4, 4}).bernoulli_(0.3)};
       }},
      {"random writes into a view",
       {{4, 4}},
       [](const Tensors& in) {
         const at::Tensor a = at::zeros({4, 4});
         a.narrow(0, 1, 2).uniform_();
         a.select(1, 0).random_(0, 5);
         return Tensors{(in[0] * a).sin()};
       }},
  });
}

// Under each policy, from the same state of a generator that is not LibTorch's default one.
TEST_F(SelectiveLayersTest, DrawsFromAUserGenerator) {
  const auto code = [](const at::Tensor& x, const at::Generator& generator) {
    const at::Tensor a = x.sin() * at::rand({4, 4}, generator);
    const at::Tensor b = at::bernoulli(x.detach().sigmoid(), generator) + at::randn({4, 4});
    return (a * b).exp() * at::zeros({4, 4}).normal_(0, 1, generator);
  };
  const at::Tensor x = leaf({4, 4});
  const auto run = [&](const auto& forward) {
    torch::manual_seed(17);
    at::Generator generator = at::detail::createCPUGenerator(23);
    const at::Tensor y = forward(generator);
    const at::Tensor after_forward = generator.get_state();
    torch::autograd::grad({y.sum()}, {x}, {}, /*retain_graph=*/true);
    Tensors found = gradients(y, {x});
    found.insert(found.end(),
                 {y.detach(), after_forward, generator.get_state(), cpu_generator_state()});
    return found;
  };
  const Tensors expected = run([&](const at::Generator& g) { return code(x, g); });
  for (const NamedOptions& named : options_of_many_kinds()) {
    SCOPED_TRACE(named.name);
    const CheckpointOptions& options = named.options;
    expect_same_bits(run([&](const at::Generator& g) { return checkpoint(options, code, x, g); }),
                     expected);
    expect_same_bits(run([&](const at::Generator& g) {
                       return checkpoint(
                           options, [&](const at::Tensor& t) { return code(t, g); }, x);
                     }),
                     expected);
  }
}

}  // namespace
}  // namespace reprise::testing::selective_layers_test
