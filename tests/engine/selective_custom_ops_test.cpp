// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Operators that are not LibTorch's own, and hand-written functions, under policies of many kinds.
#include <torch/library.h>

#include "tests/engine/under_policies.h"

namespace reprise::testing::selective_custom_ops_test {
namespace {

at::Tensor cube_kernel(const at::Tensor& x) { return x * x * x; }

at::Tensor call_cube(const at::Tensor& x) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("reprise_selective::cube", "")
                             .typed<at::Tensor(const at::Tensor&)>();
  return op.call(x);
}

class Cube : public torch::autograd::Function<Cube> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x) {
    const at::AutoDispatchBelowADInplaceOrView below;
    context->save_for_backward({x});
    return call_cube(x);
  }
  static Tensors backward(torch::autograd::AutogradContext* context, Tensors gradients) {
    const at::Tensor x = context->get_saved_variables()[0];
    return {gradients[0] * 3 * x * x};
  }
};

at::Tensor cube_with_gradient(const at::Tensor& x) { return Cube::apply(x); }

at::Tensor& scale_kernel(at::Tensor& x, double factor) {
  float* const data = x.data_ptr<float>();
  std::transform(data, data + x.numel(), data,
                 [&](float v) { return v * static_cast<float>(factor); });
  return x;
}

void mark_kernel(const at::Tensor& x) { x.data_ptr<float>()[0] = 7; }

at::Tensor swish_kernel(const at::Tensor& x) { return x * x.sigmoid(); }

std::tuple<at::Tensor, std::int64_t> count_kernel(const at::Tensor& x) {
  const at::Tensor positive = x > 0;
  return {positive.to(x.scalar_type()), positive.sum().item<std::int64_t>()};
}

at::Tensor noise_kernel(const at::Tensor& x) { return at::rand_like(x); }

Tensors pair_kernel(const at::Tensor& x) { return {x + 1, x * 2}; }

}  // namespace

TORCH_LIBRARY(reprise_selective, library) {
  library.def("cube(Tensor x) -> Tensor");
  library.def("scale_(Tensor(a!) x, float factor) -> Tensor(a!)");
  library.def("mark(Tensor(a!) x) -> ()");
  library.def("swish(Tensor x) -> Tensor");
  library.def("count(Tensor x) -> (Tensor, int)");
  library.def("noise(Tensor x) -> Tensor", {at::Tag::nondeterministic_seeded});
  library.def("pair(Tensor x) -> Tensor[]");
}

TORCH_LIBRARY_IMPL(reprise_selective, CPU, library) {
  library.impl("cube", cube_kernel);
  library.impl("scale_", scale_kernel);
  library.impl("mark", mark_kernel);
  library.impl("count", count_kernel);
  library.impl("noise", noise_kernel);
  library.impl("pair", pair_kernel);
}

TORCH_LIBRARY_IMPL(reprise_selective, Autograd, library) {
  library.impl("cube", cube_with_gradient);
}

TORCH_LIBRARY_IMPL(reprise_selective, CompositeImplicitAutograd, library) {
  library.impl("swish", swish_kernel);
}

namespace {

template <class Signature, class... Args>
auto call(const char* name, Args&&... args) {
  return c10::Dispatcher::singleton()
      .findSchemaOrThrow(c10::str("reprise_selective::", name).c_str(), "")
      .typed<Signature>()
      .call(std::forward<Args>(args)...);
}

using Unary = at::Tensor(const at::Tensor&);
using Scale = at::Tensor&(at::Tensor&, double);

// A write below the key that counts versions.
void double_uncounted(at::Tensor& x) {
  const at::AutoDispatchBelowADInplaceOrView below;
  x.mul_(2);
}

class SelectiveCustomOpsTest : public UnderPolicies {};

TEST_F(SelectiveCustomOpsTest, Registered) {
  expect_as_plain({
      {"with its own gradient",
       {{4}},
       [](const Tensors& in) { return Tensors{call_cube(in[0].sin()).exp() * in[0]}; }},
      {"composed of others",
       {{4}},
       [](const Tensors& in) { return Tensors{call<Unary>("swish", in[0].sin()).exp()}; }},
      {"random",
       {{4}},
       [](const Tensors& in) {
         const at::Tensor a = in[0].sin() * call<Unary>("noise", in[0].detach());
         return Tensors{(a * call<Unary>("noise", a.detach())).exp(), a * at::rand({4})};
       }},
      {"with a number",
       {{4}},
       [](const Tensors& in) {
         const auto [mask, count] = call<std::tuple<at::Tensor, std::int64_t>(const at::Tensor&)>(
             "count", in[0].detach().sin());
         return Tensors{(in[0] * mask).sin(), in[0].exp() * count};
       }},
      {"with a list",
       {{4}},
       [](const Tensors& in) {
         const Tensors pair = call<Tensors(const at::Tensor&)>("pair", in[0].detach().sin());
         return Tensors{in[0].sin() * pair[0], in[0].cos() * pair[1]};
       }},
  });
}

TEST_F(SelectiveCustomOpsTest, RegisteredThatWrite) {
  expect_as_plain({
      {"and return what they write",
       {{4}},
       [](const Tensors& in) {
         at::Tensor a = in[0].detach().sin();
         return Tensors{(in[0] * call<Scale>("scale_", a, 2.0)).exp(), in[0] * a};
       }},
      {"and return nothing",
       {{4}},
       [](const Tensors& in) {
         const at::Tensor a = in[0].detach().sin();
         call<void(const at::Tensor&)>("mark", a);
         return Tensors{(in[0] * a).exp()};
       }},
      {"after a read",
       {{4}},
       [](const Tensors& in) {
         at::Tensor a = in[0].detach().sin() + 1;
         const at::Tensor before = a * 2;
         call<Scale>("scale_", a, 3.0);
         return Tensors{(in[0] * a).exp(), in[0] * before};
       }},
      {"several times",
       {{4}},
       [](const Tensors& in) {
         at::Tensor a = in[0].detach().sin();
         call<Scale>("scale_", a, 3.0);
         a.add_(1);
         call<Scale>("scale_", a, 0.5);
         return Tensors{(in[0] * a).exp(), in[0] * a.view({2, 2}).view({4})};
       }},
      {"below the counting of versions",
       {{4}},
       [](const Tensors& in) {
         at::Tensor a = in[0].detach().sin();
         double_uncounted(a);
         return Tensors{(in[0] * a).exp()};
       }},
      {"below the counting of versions, after a read",
       {{4}},
       [](const Tensors& in) {
         at::Tensor a = in[0].detach().sin();
         const at::Tensor before = a + 1;
         double_uncounted(a);
         return Tensors{(in[0] * a).exp(), in[0] * before};
       }},
  });
}

class WithIntermediates : public torch::autograd::Function<WithIntermediates> {
 public:
  static Tensors forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                         double factor) {
    const at::Tensor middle = x.sin() * factor;
    const at::Tensor y = middle.exp();
    context->saved_data["factor"] = factor;
    context->save_for_backward({x, middle, y});
    return {y, middle};
  }
  static Tensors backward(torch::autograd::AutogradContext* context, Tensors gradients) {
    const Tensors saved = context->get_saved_variables();
    const at::Tensor inner = gradients[0] * saved[2] + gradients[1];
    return {inner * saved[0].cos() * context->saved_data["factor"].toDouble(), at::Tensor()};
  }
};

class ReluInPlace : public torch::autograd::Function<ReluInPlace> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, at::Tensor x) {
    x.relu_();
    context->mark_dirty({x});
    context->save_for_backward({x});
    return x;
  }
  static Tensors backward(torch::autograd::AutogradContext* context, Tensors gradients) {
    return {gradients[0] * (context->get_saved_variables()[0] > 0)};
  }
};

TEST_F(SelectiveCustomOpsTest, HandwrittenFunctions) {
  expect_as_plain({
      {"with intermediates",
       {{4}},
       [](const Tensors& in) {
         const Tensors out = WithIntermediates::apply(in[0].cos(), 1.5);
         return Tensors{out[0].tanh() * out[1], in[0] * out[0]};
       }},
      {"in place",
       {{4}},
       [](const Tensors& in) {
         return Tensors{ReluInPlace::apply(in[0].sin() * 2).exp() * in[0]};
       }},
      {"a custom gradient inside a custom operator",
       {{4}},
       [](const Tensors& in) { return Tensors{call_cube(Cube::apply(in[0].sin()) + 1)}; }},
  });
}

}  // namespace
}  // namespace reprise::testing::selective_custom_ops_test
