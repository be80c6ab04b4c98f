// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Code that reads its results on the host, or computes on memory of its own, under
// policies of many kinds; and data made in inference mode.
#include "tests/engine/under_policies.h"

namespace reprise::testing::selective_host_test {
namespace {

class SelectiveHostTest : public UnderPolicies {};

TEST_F(SelectiveHostTest, HostReads) {
  expect_as_plain({
      {"item decides",
       {{4}},
       [](const Tensors& in) {
         at::Tensor a = in[0].sin();
         for (int i = 0; i < 5 && a.sum().item<float>() < 3; ++i) {
           a = (a + 0.7).exp();
         }
         return Tensors{a * a.detach().max().item<double>()};
       }},
      {"equal, is_nonzero, allclose",
       {{4}},
       [](const Tensors& in) {
         const at::Tensor a = in[0].sin();
         const at::Tensor one = a.detach() * 0 + 1;
         const bool yes = at::equal(one, at::ones({4})) && at::is_nonzero(one.sum()) &&
                          at::allclose(one, at::ones({4}));
         return Tensors{yes ? a.exp() : a.cos()};
       }},
      {"a random number decides",
       {{4}},
       [](const Tensors& in) {
         at::Tensor a = in[0].sin();
         for (int i = 0; i < 4; ++i) {
           a = at::rand({1}).item<float>() < 0.5 ? a.exp() * at::rand({4}) : a.cos();
         }
         return Tensors{a};
       }},
  });
}

TEST_F(SelectiveHostTest, ReadsThroughAPointer) {
  expect_as_plain({
      {"copied to the host",
       {{4}},
       [](const Tensors& in) {
         const at::Tensor a = in[0].detach().exp().to(at::kCPU, at::kDouble).contiguous();
         double sum = 0;
         for (int i = 0; i < 4; ++i) {
           sum += a.data_ptr<double>()[i];
         }
         return Tensors{(in[0] * sum).sin()};
       }},
      {"through an accessor",
       {{4}},
       [](const Tensors& in) {
         const at::Tensor a = in[0].detach().exp();
         return Tensors{a.accessor<float, 1>()[2] > 0 ? in[0].sin().exp() : in[0].cos()};
       }},
  });
}

TEST_F(SelectiveHostTest, InferenceTensors) {
  at::Tensor captured;
  {
    const c10::InferenceMode inference;
    captured = at::linspace(1, 2, 4);
  }
  expect_as_plain({
      {"captured",
       {{4}},
       [captured](const Tensors& in) {
         return Tensors{(in[0].sin() + captured).exp() * captured.clone()};
       }},
      {"made in the region",
       {{4}},
       [](const Tensors& in) {
         at::Tensor made;
         {
           const c10::InferenceMode inference;
           made = in[0].sin().add_(1);
           made.mul_(2);
         }
         return Tensors{(in[0].sin() + made).exp() * made.clone()};
       }},
      {"a normal tensor changed in inference mode",
       {{4}},
       [](const Tensors& in) {
         at::Tensor a = in[0].detach().sin();
         {
           const c10::InferenceMode inference;
           a.add_(1);
         }
         return Tensors{(in[0] * a).exp()};
       }},
  });
}

// The address of a freed tensor may be reused by memory that no operator has made.
TEST_F(SelectiveHostTest, MemoryOfTheCallers) {
  expect_as_plain({
      {"from_blob",
       {{4}},
       [](const Tensors& in) {
         std::vector<float> data = {1, 2, 3, 4};
         at::Tensor sum = at::zeros({4});
         for (int i = 0; i < 4; ++i) {
           const at::Tensor gone = (in[0].detach() + i).sin();
           sum = sum + gone;
         }
         const at::Tensor lent = at::from_blob(data.data(), {4}).add_(1).mul_(2);
         return Tensors{(in[0] * lent.clone()).exp(), in[0] * sum};
       }},
      {"made of numbers",
       {{4}},
       [](const Tensors& in) {
         const at::Tensor a = torch::tensor({1.F, 2.F, 3.F, 4.F}).add_(1).mul_(2);
         return Tensors{(in[0] * a).exp(), in[0] * at::scalar_tensor(3).add_(1)};
       }},
  });
}

// No operator uses what the host reads: regions around the reading one must not take each other's
// retained results for owners.
TEST_F(SelectiveHostTest, ReadsThroughAPointerInNestedRegions) {
  const auto by_hand = [](const at::Tensor& t) {
    const auto packed = at::_pack_padded_sequence(t.view({3, 2, 8}), torch::tensor({3, 1}), false);
    const at::Tensor& sizes = std::get<1>(packed);
    return t.narrow(0, 0, sizes.const_data_ptr<std::int64_t>()[0]).sin().sum() + t.cos();
  };
  using policies::save_everything;
  using policies::save_nothing;
  const at::Tensor x = leaf({6, 8});
  const at::Tensor plain =
      torch::autograd::grad({(by_hand(x.sin()).cos() * x.sin()).sum()}, {x})[0];
  for (const auto& outer : {save_everything(), save_nothing()}) {
    for (const auto& inner : {save_everything(), save_nothing()}) {
      const at::Tensor y = checkpoint(
          {.policy = outer},
          [&](const at::Tensor& t) {
            const at::Tensor u = t.sin();
            return checkpoint({.policy = inner}, by_hand, u).cos() * u;
          },
          x);
      for (const bool retain_graph : {true, false}) {
        std::vector<at::Tensor> other_contents;  // of free memory
        for (int i = 0; i < 256; ++i) {
          other_contents.push_back(at::full({1 + i % 8}, 1 << 20, at::kLong));
        }
        other_contents.clear();
        const at::Tensor got = torch::autograd::grad({y.sum()}, {x}, {}, retain_graph)[0];
        EXPECT_TRUE(at::allclose(got, plain));
      }
    }
  }
}

}  // namespace
}  // namespace reprise::testing::selective_host_test
