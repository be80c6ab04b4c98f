// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// What operators, others' among them, take, return and draw: each kind of argument is compared or
// recorded, an object that is given twice is one, and so on.
#include <memory>

#include "reprise/engine/checkpoint_scope.h"
#include "reprise/engine/errors.h"
#include "reprise/engine/recomputing.h"
#include "reprise/policies/policies.h"
#include "tests/conformance/conformance_fixture.h"

namespace reprise::testing::operator_arguments_test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using Dict = c10::Dict<std::string, at::Tensor>;

at::Tensor shift(const at::Tensor& x, const Dict& by) { return x + by.at("by"); }
at::Tensor pick(const at::Tensor& x, c10::List<std::int64_t> which) {
  return x.index_select(0, at::tensor(which.vec()));
}
Dict split(const at::Tensor& x) {
  Dict parts;
  parts.insert("low", x * 0.5);
  return parts;
}
at::Tensor twice_if_other(const at::Tensor& a, const at::Tensor& b) {
  return a * (a.is_same(b) ? 1.0 : 2.0);
}
at::Tensor twice_if_any_other(const at::TensorList& all) {
  return all[0] * (all[0].is_same(all[1]) ? 1.0 : 2.0) * (all[0].is_same(all[2]) ? 1.0 : 3.0);
}
at::Tensor mask(const at::Tensor& x) { return (at::rand_like(x) > 0.5).to(at::kFloat) * 2; }
std::tuple<at::Tensor, at::Tensor> halves(const at::Tensor& a) {
  const at::Tensor both = at::cat({a, a * 2});
  return {both.narrow(0, 0, a.size(0)), both.narrow(0, a.size(0), a.size(0))};
}

TORCH_LIBRARY(reprise_operator_arguments_test, library) {
  const auto key = c10::DispatchKey::CPU;
  library.def("shift(Tensor x, Dict(str, Tensor) by) -> Tensor", torch::dispatch(key, &shift));
  library.def("pick(Tensor x, int[] which) -> Tensor", torch::dispatch(key, &pick));
  library.def("split(Tensor x) -> Dict(str, Tensor)", torch::dispatch(key, &split));
  library.def("twice_if_other(Tensor a, Tensor b) -> Tensor",
              torch::dispatch(key, &twice_if_other));
  library.def("twice_if_any_other(Tensor[] all) -> Tensor",
              torch::dispatch(key, &twice_if_any_other));
  library.def("mask(Tensor x) -> Tensor", torch::dispatch(key, &mask));
  library.def("halves(Tensor a) -> (Tensor, Tensor)", torch::dispatch(key, &halves));
}

template <class Signature>
auto op(const char* name) {
  return c10::Dispatcher::singleton()
      .findSchemaOrThrow((std::string("reprise_operator_arguments_test::") + name).c_str(), "")
      .typed<Signature>();
}

class OperatorArgumentsTest : public ConformanceTest {};

TEST_F(OperatorArgumentsTest, AreComparedIfComplex) {
  c10::complex<double> phase(0.6, 0.8);
  const at::Tensor x = leaf({8});
  const at::Tensor y = checkpoint(
      [&phase](const at::Tensor& t) {
        return at::view_as_real((at::view_as_complex(t.view({4, 2})) * at::Scalar(phase)).sin());
      },
      x);
  phase = {0.8, 0.6};
  EXPECT_THROW(y.sum().backward(), DeterminismError);
}

TEST_F(OperatorArgumentsTest, AreComparedInDictionaries) {
  const auto run = [](const std::function<void(Dict&)>& change) {
    Dict by;
    by.insert("by", at::randn({8}));
    const at::Tensor x = leaf({8});
    const at::Tensor y = checkpoint(
        [by](const at::Tensor& t) {
          const at::Tensor s = t.sin();
          return (s * op<at::Tensor(const at::Tensor&, const Dict&)>("shift").call(s.detach(), by))
              .sin();
        },
        x);
    change(by);
    y.sum().backward();
    return x.grad();
  };
  run([](Dict&) {});
  const at::Tensor other = at::randn({8});
  EXPECT_THAT([&] { run([&](Dict& by) { by.insert_or_assign("by", other); }); },
              ThrowsMessage<MutationError>(HasSubstr("shift reads a tensor from outside")));
  EXPECT_THAT([&] { run([](Dict& by) { by.at("by").mul_(2); }); },
              ThrowsMessage<MutationError>(HasSubstr("shift reads a tensor from outside")));
}

TEST_F(OperatorArgumentsTest, AreTheCallersListsNoLonger) {
  expect_as_plain([](const auto& run) {
    c10::List<std::int64_t> which({7, 6, 5, 4, 3, 2, 1, 0});
    const at::Tensor x = at::randn({8}).requires_grad_();
    const at::Tensor y = run(
        [kept = std::vector(which.vec())](const at::Tensor& t) {
          c10::List<std::int64_t> own(kept);
          const at::Tensor s = t.sin();
          at::Tensor result =
              (s * op<at::Tensor(const at::Tensor&, c10::List<std::int64_t>)>("pick").call(
                       s.detach(), own))
                  .sin();
          own.set(0, 0);
          return result;
        },
        x);
    return Tensors{torch::autograd::grad({y.sum()}, {x})[0]};
  });
}

TEST_F(OperatorArgumentsTest, MayComeFromADictionaryOfResults) {
  at::Tensor kept;
  expect_as_plain([&kept](const auto& run) {
    const at::Tensor x = at::randn({8}).requires_grad_();
    const at::Tensor y = run(
        [&kept](const at::Tensor& t) {
          const at::Tensor low = op<Dict(const at::Tensor&)>("split").call(t.detach()).at("low");
          if (!is_recomputing()) {
            kept = low;
          }
          return (t.sin() + low).exp();
        },
        x);
    return Tensors{torch::autograd::grad({y.sum()}, {x})[0]};
  });
}

TEST_F(OperatorArgumentsTest, AreOneObjectIfGivenTwice) {
  expect_as_plain([](const auto& run) {
    const at::Tensor x = at::randn({6, 8}).requires_grad_();
    const auto compare = op<at::Tensor(const at::Tensor&, const at::Tensor&)>("twice_if_other");
    const auto compare_all = op<at::Tensor(const at::TensorList&)>("twice_if_any_other");
    Tensors results;
    for (const bool viewed : {false, true}) {
      for (const bool other : {false, true}) {
        const at::Tensor y = run(
            [&](const at::Tensor& t) {
              const at::Tensor a = viewed ? t.detach().sin().t() : t.detach().sin();
              const at::Tensor b = other ? a.alias() : a;
              const at::Tensor c = compare.call(a, b) + compare_all.call({a, a, b});
              return (viewed ? c.t() : c) * t;
            },
            x);
        results.push_back(torch::autograd::grad({y.sum()}, {x})[0]);
      }
    }
    return results;
  });
}

TEST_F(OperatorArgumentsTest, IncludeTheQueryThatIsTheKey) {
  expect_as_plain([](const auto& run) {
    const at::Tensor w3 = at::randn({24, 8}), b3 = at::randn({24});
    const at::Tensor w = at::randn({8, 8}), b = at::randn({8});
    const at::Tensor x = at::randn({6, 8}).requires_grad_();
    const at::Tensor y = run(
        [&](const at::Tensor& t) {
          const at::Tensor q = t.detach().sin().view({1, 6, 8});
          return std::get<0>(
                     at::_native_multi_head_attention(q, q, q, 8, 2, w3, b3, w, b, {}, false))
                     .view({6, 8}) *
                 t;
        },
        x);
    return Tensors{torch::autograd::grad({y.sum()}, {x})[0]};
  });
}

TEST_F(OperatorArgumentsTest, MayBeNoneOfWhatIsDrawn) {
  for (const CheckpointOptions& options :
       {CheckpointOptions{}, CheckpointOptions{.policy = policies::save_nothing()},
        CheckpointOptions{.policy = policies::save_everything()}}) {
    expect_as_plain(
        [](const auto& run) {
          const at::Tensor x = at::randn({64}).requires_grad_();
          const at::Tensor y = run(
              [](const at::Tensor& t) {
                const auto draw = op<at::Tensor(const at::Tensor&)>("mask");
                const at::Tensor h = t.sin() * draw.call(t.detach());
                return (h * draw.call(h.detach())).tanh();
              },
              x);
          at::rand({3});
          const at::Tensor first = torch::autograd::grad({y.sum()}, {x}, {}, true)[0];
          return Tensors{first, torch::autograd::grad({y.sum()}, {x})[0], at::rand({4})};
        },
        options);
  }
}

TEST_F(OperatorArgumentsTest, OfResultsInOneBuffer) {
  for (const CheckpointOptions& options :
       {CheckpointOptions{.policy = policies::save_nothing()},
        CheckpointOptions{.policy = policies::save_everything()}}) {
    expect_as_plain(
        [](const auto& run) {
          const at::Tensor x = at::randn({6, 8}).requires_grad_();
          const at::Tensor own = run(
              [](const at::Tensor& t) {
                const auto [one, two] =
                    op<std::tuple<at::Tensor, at::Tensor>(const at::Tensor&)>("halves").call(
                        t.detach());
                return one * t + two * t.sin();
              },
              x);
          const at::Tensor qkv = run(
              [](const at::Tensor& t) {
                const at::Tensor d = t.detach();
                const auto parts = at::_transform_bias_rescale_qkv(
                    at::cat({d, d.sin(), d.cos()}, 1).view({1, 6, 24}), at::ones({24}), 2);
                return std::get<0>(parts).reshape({6, 8}) * t;
              },
              x);
          return Tensors{torch::autograd::grad({own.sum()}, {x})[0],
                         torch::autograd::grad({qkv.sum()}, {x})[0]};
        },
        options);
  }
}

}  // namespace
}  // namespace reprise::testing::operator_arguments_test
