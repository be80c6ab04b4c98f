// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Conformance rows 14, 29 and 30: arguments and results of a region.
#include <array>
#include <concepts>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "tests/conformance/conformance_fixture.h"

namespace reprise::testing::arguments_test {
namespace {

at::Tensor f(const at::Tensor& x) { return torch::dropout(x.sin().exp(), 0.5, true).sin(); }

struct Inner {
  std::optional<at::Tensor> tensor;
  std::string name;
};
struct Outer {
  std::int64_t number;
  Inner inner;
  std::vector<std::map<std::string, at::Tensor>> maps;
};

struct Camera {
  float fx, fy;
  float centre[2];
  double rotation[3][3];
  at::Tensor images[2];
  Inner inner;
};

class CheckpointArgumentsTest : public ConformanceTest {
 protected:
  // `call(run, a, b)` gives the same tensor and gradients plain and as a region. The region keeps
  // nothing but its two inputs, which the graph keeps anyway.
  template <class Call>
  void expect_as_plain_call(Call call) {
    expect_as_plain([&](auto run) -> Tensors {
      const at::Tensor a = leaf({3, 4});
      const at::Tensor b = leaf({3, 4});
      const at::Tensor y = call(run, a, b);
      Tensors found = gradients(y, {a, b});
      found.push_back(y.detach());
      return found;
    });
  }
};

TEST_F(CheckpointArgumentsTest, C014a_TensorsAreFoundInContainers) {
  expect_as_plain_call([](auto run, const at::Tensor& a, const at::Tensor& b) {
    return run([](const std::vector<at::Tensor>& v) { return f(v[0] * v[1]); },
               std::vector<at::Tensor>{a.exp(), b.exp()});
  });
  expect_as_plain_call([](auto run, const at::Tensor& a, const at::Tensor& b) {
    return run([](const std::array<at::Tensor, 2>& v) { return f(v[0] * v[1]); },
               std::array<at::Tensor, 2>{a.exp(), b.exp()});
  });
  expect_as_plain_call([](auto run, const at::Tensor& a, const at::Tensor& b) {
    const std::unordered_map<int, at::Tensor> map = {{1, a.exp()}, {2, b.exp()}};
    return run([](const std::unordered_map<int, at::Tensor>& m) { return f(m.at(1) * m.at(2)); },
               map);
  });
}

TEST_F(CheckpointArgumentsTest, C014b_TensorsAreFoundInPairsTuplesOptionalsAndVariants) {
  expect_as_plain_call([](auto run, const at::Tensor& a, const at::Tensor& b) {
    return run([](const std::pair<at::Tensor, at::Tensor>& p) { return f(p.first * p.second); },
               std::make_pair(a.exp(), b.exp()));
  });
  expect_as_plain_call([](auto run, const at::Tensor& a, const at::Tensor& b) {
    return run(
        [](const std::tuple<at::Tensor, int, std::optional<at::Tensor>>& t,
           const std::optional<at::Tensor>& none) {
          EXPECT_FALSE(none.has_value());
          return f(std::get<0>(t) * *std::get<2>(t) * std::get<1>(t));
        },
        std::tuple<at::Tensor, int, std::optional<at::Tensor>>(a.exp(), 3, b.exp()),
        std::optional<at::Tensor>());
  });
  using Either = std::variant<std::monostate, at::Tensor, std::vector<at::Tensor>>;
  expect_as_plain_call([](auto run, const at::Tensor& a, const at::Tensor& b) {
    return run(
        [](const Either& one, const Either& several, const Either& nothing) {
          EXPECT_EQ(nothing.index(), 0U);
          return f(std::get<1>(one) * std::get<2>(several)[0]);
        },
        Either(a.exp()), Either(std::vector<at::Tensor>{b.exp()}), Either());
  });
}

TEST_F(CheckpointArgumentsTest, C014c_TensorsAreFoundInNestedStructs) {
  expect_as_plain_call([](auto run, const at::Tensor& a, const at::Tensor& b) {
    return run(
        [](const Outer& outer) {
          EXPECT_EQ(outer.inner.name, "name");
          return f(*outer.inner.tensor * outer.maps[0].at("b") * outer.number);
        },
        Outer{2, {a.exp(), "name"}, {{{"b", b.exp()}}}});
  });
}

TEST_F(CheckpointArgumentsTest, C014c1_TensorsAreFoundInStructsWithArrays) {
  expect_as_plain_call([](auto run, const at::Tensor& a, const at::Tensor& b) {
    const Camera camera{2, 3, {4, 5}, {{6}, {}, {0, 0, 7}}, {a.exp(), b.exp()}, {a.sin(), "name"}};
    return run(
        [](const Camera& c) {
          return f(c.images[0] * c.images[1] * c.fx * c.centre[1] * c.rotation[2][2]) +
                 f(*c.inner.tensor);
        },
        camera);
  });
}

TEST_F(CheckpointArgumentsTest, C014c2_AChangeOfATensorInAnArrayIsNoticed) {
  const at::Tensor a = leaf({3, 4});
  Camera camera{.fx = 1, .fy = 2, .centre = {}, .rotation = {}, .images = {}, .inner = {}};
  camera.images[1] = at::ones({3, 4});
  const at::Tensor y =
      checkpoint([](const at::Tensor& x, const Camera& c) { return (x * c.images[1]).sin().exp(); },
                 a, camera);
  watch(y);
  camera.images[1].add_(1);
  EXPECT_THAT([&] { y.sum().backward(); },
              ::testing::ThrowsMessage<MutationError>(::testing::HasSubstr("modified")));
}

TEST_F(CheckpointArgumentsTest, C014d_BorrowedElementsAreKeptUntilTheReplay) {
  expect_as_plain_call([](auto run, const at::Tensor& a, const at::Tensor& b) {
    const auto code = [](at::TensorList list, std::span<const at::Tensor> span,
                         at::IntArrayRef sizes, std::span<const double> factors,
                         std::string_view text) {
      EXPECT_EQ(text, "a text that is too long for the small buffer of a string");
      return f((list[0] * span[0] * factors[1]).view(sizes));
    };
    const auto list = std::make_unique<Tensors>(Tensors{a.exp()});
    const auto span = std::make_unique<Tensors>(Tensors{b.exp()});
    const std::vector<std::int64_t> sizes = {4, 3};
    const std::vector<double> factors = {0, 3};
    const std::string text = "a text that is too long for the small buffer of a string";
    return run(code, at::TensorList(*list), std::span<const at::Tensor>(*span),
               at::IntArrayRef(sizes), std::span<const double>(factors), std::string_view(text));
  });
}

TEST_F(CheckpointArgumentsTest, C014e_NumbersStringsUndefinedTensorsAndOneTensorTwice) {
  expect_as_plain_call([](auto run, const at::Tensor& a, const at::Tensor& b) {
    return run(
               [](const at::Tensor& x, const at::Tensor& same, const at::Tensor& none,
                  double factor, bool flag, const std::string& text, at::Scalar scalar,
                  std::nullopt_t) {
                 EXPECT_TRUE(x.is_same(same));
                 EXPECT_FALSE(none.defined());
                 return f(x * same * factor * scalar * (flag ? 1 : -1) *
                          static_cast<int>(text.size()));
               },
               a, a, at::Tensor(), 0.5, true, std::string("text"), at::Scalar(2), std::nullopt) *
           b;
  });
}

TEST_F(CheckpointArgumentsTest, C014f_AllowsArgumentToBeTakenByValueAndByRvalue) {
  expect_as_plain_call([](auto run, const at::Tensor& a, const at::Tensor& b) {
    return run([](at::Tensor x, std::vector<at::Tensor>&& v) { return f(x * v[0]); }, a.exp(),
               std::vector<at::Tensor>{b.exp()});
  });
}

TEST_F(CheckpointArgumentsTest, C014g_AnyTypeMayBeReturned) {
  expect_as_plain_call([](auto run, const at::Tensor& a, const at::Tensor& b) {
    const Outer outer = run(
        [](const at::Tensor& x, const at::Tensor& y) {
          return Outer{5, {f(x), "name"}, {{{"y", f(y)}}}};
        },
        a, b);
    EXPECT_EQ(outer.number, 5);
    EXPECT_EQ(outer.inner.name, "name");
    return *outer.inner.tensor * outer.maps[0].at("y");
  });
  expect_as_plain_call([](auto run, const at::Tensor& a, const at::Tensor& b) {
    const std::variant<int, at::Tensor> either =
        run([](const at::Tensor& x) -> std::variant<int, at::Tensor> { return f(x); }, a);
    const std::unique_ptr<at::Tensor> owned =
        run([](const at::Tensor& x) { return std::make_unique<at::Tensor>(f(x)); }, b);
    return std::get<1>(either) * *owned;
  });
}

TEST_F(CheckpointArgumentsTest, C014h_NothingMayBeReturned) {
  expect_as_plain_call([](auto run, const at::Tensor& a, const at::Tensor& b) {
    at::Tensor y;
    run(
        [&y](const at::Tensor& x) {
          const at::Tensor z = f(x);
          if (!is_recomputing()) {
            y = z;
          }
        },
        a);
    return y * b;
  });
}

TEST_F(CheckpointArgumentsTest, C014i_AllowsReferenceToBeReturned) {
  at::Tensor kept;
  const at::Tensor x = leaf({3});
  const auto code = [&kept](const at::Tensor& t) -> const at::Tensor& {
    if (is_recomputing()) {
      static_cast<void>(f(t));
    } else {
      kept = f(t);
    }
    return kept;
  };
  const at::Tensor& y = checkpoint(code, x);
  EXPECT_EQ(&y, &kept);
  gradients(y, {x});
}

TEST_F(CheckpointArgumentsTest, C014j_AllowsInputToBeReturnedAsItIs) {
  const at::Tensor x = leaf({3});
  const at::Tensor same = checkpoint([](const at::Tensor& t) { return t; }, x);
  EXPECT_TRUE(same.is_same(x));
  expect_as_plain_call([](auto run, const at::Tensor& a, const at::Tensor& b) {
    const at::Tensor a_exp = a.exp();
    const auto [first, second] =
        run([](const at::Tensor& p, const at::Tensor& q) { return std::make_pair(p, f(p * q)); },
            a_exp, b);
    EXPECT_TRUE(first.is_same(a_exp));
    return first.sin() * second;
  });
}

TEST_F(CheckpointArgumentsTest, C014k_AllowsMoveOnlyCallableToBeMovedIn) {
  expect_as_plain_call([](auto run, const at::Tensor& a, const at::Tensor& b) {
    auto factor = std::make_unique<double>(3);
    auto code = [factor = std::move(factor)](const at::Tensor& x) { return f(x * *factor); };
    return run(std::move(code), a) * b;
  });
}

struct Functor {
  at::Tensor weight;
  at::Tensor operator()(const at::Tensor& x) const { return f(x * weight); }
  at::Tensor method(const at::Tensor& x) const { return f(x + weight.exp()); }
};

TEST_F(CheckpointArgumentsTest, C014l_CallablesOfAllKinds) {
  expect_as_plain_call(
      [](auto run, const at::Tensor& a, const at::Tensor& b) { return run(&f, a) * run(f, b); });
  Functor functor;  // std::ref needs it until backward
  expect_as_plain_call([&functor](auto run, const at::Tensor& a, const at::Tensor& b) {
    functor.weight = b;
    const at::Tensor y = run(functor, a) + run(std::ref(functor), a) +
                         run(&Functor::method, functor, a) + run(Functor{b}, a);
    const std::function<at::Tensor(const at::Tensor&)> function = functor;
    return torch::autograd::grad({y.sum() + run(function, a).sum()}, {a}, {}, std::nullopt,
                                 /*create_graph=*/true)[0] *
           a * b;
  });
}

TEST_F(CheckpointArgumentsTest, C030_AllowsModuleToBeTheCallable) {
  for (const bool as_pointer : {false, true}) {
    expect_as_plain([&](auto run) -> Tensors {
      torch::nn::Linear linear(4, 4);
      const at::Tensor x = leaf({2, 4});
      at::Tensor y = linear(x);
      if constexpr (std::same_as<decltype(run), InRegion>) {
        y = as_pointer ? run(linear.ptr(), x) : run(linear, x);
      }
      watch(y).square().sum().backward();
      return {x.grad(), linear->weight.grad()};
    });
  }
}

TEST_F(CheckpointArgumentsTest,
       C030a_AllowsPointerToAModuleWhoseForwardIsATemplateToBeTheCallable) {
  expect_as_plain([&](auto run) -> Tensors {
    torch::nn::Sequential two(torch::nn::Linear(4, 4), torch::nn::Dropout(0.5));
    const at::Tensor x = leaf({2, 4});
    at::Tensor y;
    if constexpr (std::same_as<decltype(run), InRegion>) {
      y = run(two.ptr(), x);
    } else {
      y = two->forward(x);
    }
    watch(y).square().sum().backward();
    return {x.grad(), two[0]->as<torch::nn::Linear>()->weight.grad()};
  });
}

TEST_F(CheckpointArgumentsTest, C030c_AllowsHolderOfAModuleWhoseForwardIsATemplateToBeTheCallable) {
  torch::nn::Sequential two(torch::nn::Linear(4, 4), torch::nn::Dropout(0.5));
  const at::Tensor x = leaf({2, 4});
  torch::manual_seed(3);
  const at::Tensor expected = two->forward(x);
  torch::manual_seed(3);
  expect_same_bits({reprise::checkpoint(two, x)}, {expected});
}

// Each run of a mutable lambda starts from the state in which it was passed.
TEST_F(CheckpointArgumentsTest, C014z_CallableWithStateReplaysFromTheStateAtEntry) {
  const at::Tensor x = leaf({4});
  auto lvalue = [power = 1](const at::Tensor& t) mutable { return t.pow(++power).exp(); };
  const Tensors expected = gradients(x.pow(2).exp(), {x});
  const at::Tensor y = checkpoint({}, lvalue, x);
  const at::Tensor z = checkpoint(
      {}, [power = 1](const at::Tensor& t) mutable { return t.pow(++power).exp(); }, x);
  for (const at::Tensor& result : {y, z}) {
    EXPECT_TRUE(reprise::testing::bitwise_equal(
        torch::autograd::grad({result.sum()}, {x}, {}, /*retain_graph=*/true)[0], expected[0]));
    expect_same_bits(gradients(result, {x}), expected);
  }
}

TEST_F(CheckpointArgumentsTest, C030b_TemporaryModuleLivesUntilTheReplay) {
  expect_as_plain([&](auto run) -> Tensors {
    const at::Tensor x = leaf({2, 4});
    const at::Tensor y = run(torch::nn::Linear(4, 4), x.sin()).exp();
    return gradients(y, {x});
  });
}

TEST_F(CheckpointArgumentsTest, C029_RegionsOfSeveralOutputsAlternateWithRegionsOfATuple) {
  using Two = std::tuple<at::Tensor, at::Tensor>;
  expect_as_plain([&](auto run) -> Tensors {
    torch::nn::Linear first(4, 4);
    torch::nn::Linear second(4, 4);
    auto split = [first, second](const at::Tensor& t) mutable {
      return Two(first(t).sin(), second(t).exp());
    };
    auto join = [first](const Two& two) mutable {
      return first(std::get<0>(two) * std::get<1>(two)).sin();
    };
    const at::Tensor x = leaf({2, 4});
    const at::Tensor y = join(run(split, run(join, split(x))));
    watch(y).sum().backward();
    return {x.grad(), first->weight.grad(), second->weight.grad(), first->bias.grad()};
  });
}

}  // namespace
}  // namespace reprise::testing::arguments_test
