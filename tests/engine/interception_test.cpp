// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/operators/interception.h"

#include <string>
#include <thread>
#include <vector>

#include "tests/conformance/conformance_fixture.h"

namespace reprise::engine_internal::dispatch_mode_test {
namespace {

using testing::bitwise_equal;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::leaf;

// Runs each operator and notes its name.
class Names final : public OperatorInterceptor {
 public:
  void intercept(const OperatorCall& call) override {
    const std::string& name = call.op.schema().name();
    found.push_back(name.starts_with("aten::") ? name.substr(6) : name);
    call.run();
  }
  std::vector<std::string> found;
};

template <class Code>
std::vector<std::string> names_of(Code&& code) {
  Names names;
  const InterceptionScope scope(&names);
  code();
  return names.found;
}

TEST(InterceptionTest, SeesTheParts) {
  const at::Tensor x = leaf({3, 4});
  const at::Tensor w = leaf({5, 4});
  EXPECT_THAT(names_of([&] { torch::linear(x, w); }), ElementsAre("t", "mm"));
  EXPECT_THAT(names_of([&] { torch::matmul(x, w.t()); }), ElementsAre("t", "mm"));
  EXPECT_THAT(names_of([&] { torch::cross_entropy_loss(x, at::zeros({3}, at::kLong)); }),
              ElementsAre("zeros", "_log_softmax", "nll_loss_forward"));
}

TEST(InterceptionTest, SeesOperatorsOfEachKind) {
  const at::Tensor x = leaf({3, 4}).exp().detach();
  at::Tensor out = at::empty({3, 4});
  EXPECT_THAT(names_of([&] { x.sin_(); }), ElementsAre("sin_"));
  EXPECT_THAT(names_of([&] { at::sin_out(out, x); }), ElementsAre("sin"));
  EXPECT_THAT(names_of([&] { x.narrow(0, 0, 1); }), ElementsAre("slice"));
  EXPECT_THAT(names_of([&] { at::randn({2}); }), ElementsAre("randn"));
  EXPECT_THAT(names_of([&] { x.topk(2); }), ElementsAre("topk"));
  EXPECT_THAT(names_of([&] { x.sum().item<double>(); }), ElementsAre("sum", "_local_scalar_dense"));
  EXPECT_THAT(names_of([&] { at::_foreach_add_({x, out}, 1); }), ElementsAre("_foreach_add_"));
  const at::Tensor sparse = x.to_sparse();
  EXPECT_THAT(names_of([&] { at::mm(sparse, x.t()); }), ElementsAre("t", "mm"));
}

TEST(InterceptionTest, SeesWhatRunsInInferenceMode) {
  const at::Tensor x = at::ones({3, 4});
  const c10::InferenceMode inference;
  EXPECT_THAT(names_of([&] { torch::linear(x, x); }), ElementsAre("linear"));
}

TEST(InterceptionTest, ChangesNoResultAndNoGradient) {
  const at::Tensor x = leaf({3, 4});
  const auto code = [&] { return torch::linear(x, x).softmax(-1).topk(2); };
  const auto expected = code();
  Names names;
  const InterceptionScope scope(&names);
  const auto got = code();
  EXPECT_TRUE(bitwise_equal(std::get<0>(got).detach(), std::get<0>(expected).detach()));
  EXPECT_TRUE(bitwise_equal(std::get<1>(got), std::get<1>(expected)));
  EXPECT_TRUE(bitwise_equal(torch::autograd::grad({std::get<0>(got).sum()}, {x})[0],
                            torch::autograd::grad({std::get<0>(expected).sum()}, {x})[0]));
}

TEST(InterceptionTest, InnerScopesHideOuterOnes) {
  const at::Tensor x = at::ones({2});
  Names outer;
  const InterceptionScope scope(&outer);
  x.sin();
  EXPECT_THAT(names_of([&] { x.cos(); }), ElementsAre("cos"));
  {
    const InterceptionScope unseen(nullptr);
    x.tan();
  }
  x.exp();
  EXPECT_THAT(outer.found, ElementsAre("sin", "exp"));
}

TEST(InterceptionTest, SeesNothingOutsideOfAScopeOrOnOtherThreads) {
  const at::Tensor x = at::ones({2});
  Names names;
  {
    const InterceptionScope scope(&names);
    const at::ThreadLocalState state;
    std::thread([&] {
      const at::ThreadLocalStateGuard guard(state);
      EXPECT_TRUE(bitwise_equal(x.sin(), x.sin()));
    }).join();
  }
  x.cos();
  EXPECT_THAT(names.found, IsEmpty());
}

TEST(InterceptionTest, ExceptionLeavesNoScope) {
  const at::Tensor x = at::ones({2, 3});
  Names names;
  {
    const InterceptionScope scope(&names);
    EXPECT_THAT([&] { at::mm(x, x); },
                ::testing::ThrowsMessage<c10::Error>(::testing::HasSubstr("cannot be multiplied")));
    x.sin();
  }
  x.cos();
  EXPECT_THAT(names.found, ElementsAre("mm", "sin"));
}

at::Tensor twice(const at::Tensor& x) { return x * 2; }

TEST(InterceptionTest, SeesOperatorsOfLibrariesThatAreLoadedLater) {
  names_of([] {});  // installs
  const auto library = std::make_unique<torch::Library>(torch::Library::DEF, "reprise_loaded_later",
                                                        std::nullopt, __FILE__, __LINE__);
  library->def("twice(Tensor x) -> Tensor", torch::dispatch(c10::DispatchKey::CPU, &twice));
  const auto op = c10::Dispatcher::singleton()
                      .findSchemaOrThrow("reprise_loaded_later::twice", "")
                      .typed<at::Tensor(const at::Tensor&)>();
  const at::Tensor x = at::ones({2});
  Names names;
  at::Tensor doubled;
  {
    const InterceptionScope scope(&names);
    doubled = op.call(x);
  }
  EXPECT_THAT(names.found, ElementsAre("reprise_loaded_later::twice"));
  EXPECT_TRUE(bitwise_equal(doubled, x + x));
}

}  // namespace
}  // namespace reprise::engine_internal::dispatch_mode_test
