// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Conformance rows 47 to 56: regions inside regions, with derivatives inside and around them.
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "reprise/engine/cpu_memory.h"
#include "tests/conformance/conformance_fixture.h"

namespace reprise::testing::nested_test {
namespace {

using Fn = std::function<at::Tensor(const at::Tensor&)>;
using Wrap = std::function<Fn(Fn)>;

at::Tensor f(const at::Tensor& x) { return x.sin().exp().sin(); }
at::Tensor g(const at::Tensor& x) { return x.cos().sin().exp(); }

Fn plain(Fn fn) { return fn; }

Fn sum(Fn fn) {
  return [fn = std::move(fn)](const at::Tensor& x) { return fn(x).sum(); };
}

Fn grad(Fn fn) {
  return [fn = std::move(fn)](const at::Tensor& x) {
    return torch::autograd::grad({fn(x).sum()}, {x}, {}, std::nullopt, /*create_graph=*/true)[0];
  };
}

struct Composition {
  std::string name;
  std::function<Fn(const Wrap&)> build;
};

class CheckpointNestedTest : public ConformanceTest {
 protected:
  // Each composition, with early stop and without, gives the same as with plain calls for
  // regions, and so does the gradient of it; and nothing of its graph outlives it.
  void expect_plain_results(const std::vector<Composition>& compositions) {
    for (const Composition& composition : compositions) {
      for (const bool early_stop : {true, false}) {
        SCOPED_TRACE(composition.name + (early_stop ? "" : ", no early stop"));
        const CheckpointOptions options = {.early_stop = early_stop};
        const Wrap region = [&options](Fn fn) -> Fn {
          return [options, fn = std::move(fn)](const at::Tensor& x) {
            return checkpoint(options, fn, x);
          };
        };
        const at::Tensor x = leaf({3, 3});
        expect_same_bits(results(composition.build(region), x),
                         results(composition.build(plain), x));
        EXPECT_EQ(nodes_alive(), 0U);
        EXPECT_EQ(live_frames(), 0);
      }
    }
  }

 private:
  Tensors results(const Fn& fn, const at::Tensor& x) {
    const at::Tensor y = watch(fn(x));
    const at::Tensor other = watch(fn(x));
    return {y.detach(), gradients(y, {x})[0], gradients(other, {x}, true)[0].detach()};
  }
};

TEST_F(CheckpointNestedTest, C047_ReproducesTheValue) {
  expect_plain_results({
      {"c(f)", [](const Wrap& c) { return c(f); }},
      {"c(c(f))", [](const Wrap& c) { return c(c(f)); }},
      {"c(c(c(f)))", [](const Wrap& c) { return c(c(c(f))); }},
  });
}

TEST_F(CheckpointNestedTest, C048_ReproducesTheFirstDerivative) {
  expect_plain_results({
      {"grad(c(f))", [](const Wrap& c) { return grad(c(f)); }},
      {"grad(c(c(f)))", [](const Wrap& c) { return grad(c(c(f))); }},
      {"c(grad(f))", [](const Wrap& c) { return c(grad(f)); }},
      {"c(grad(c(f)))", [](const Wrap& c) { return c(grad(c(f))); }},
  });
}

TEST_F(CheckpointNestedTest, C049_ReproducesTheSecondDerivative) {
  expect_plain_results({
      {"grad(grad(c(f)))", [](const Wrap& c) { return grad(grad(c(f))); }},
      {"grad(c(grad(f)))", [](const Wrap& c) { return grad(c(grad(f))); }},
      {"c(grad(grad(c(f))))", [](const Wrap& c) { return c(grad(grad(c(f)))); }},
      {"grad(c(grad(c(f))))", [](const Wrap& c) { return grad(c(grad(c(f)))); }},
  });
}

TEST_F(CheckpointNestedTest, C050_ReproducesTheThirdDerivative) {
  expect_plain_results({
      {"grad(grad(grad(c(f))))", [](const Wrap& c) { return grad(grad(grad(c(f)))); }},
      {"grad(c(grad(grad(c(f)))))", [](const Wrap& c) { return grad(c(grad(grad(c(f))))); }},
      {"grad(c(grad(c(grad(c(f))))))", [](const Wrap& c) { return grad(c(grad(c(grad(c(f)))))); }},
      {"c(grad(c(grad(c(grad(c(f)))))))",
       [](const Wrap& c) { return c(grad(c(grad(c(grad(c(f))))))); }},
  });
}

TEST_F(CheckpointNestedTest, C052_GraphThatIsDroppedWithoutBackwardFreesAll) {
  const Wrap region = [](Fn fn) -> Fn {
    return [fn = std::move(fn)](const at::Tensor& x) { return checkpoint(fn, x); };
  };
  const at::Tensor x = leaf({3, 3});
  const std::int64_t bytes = live_cpu_bytes();
  for (const Fn& fn : {region(f), region(region(f)), grad(region(grad(region(f)))),
                       region(grad(region(grad(region(f)))))}) {
    watch(fn(x));
    EXPECT_EQ(nodes_alive(), 0U);
    EXPECT_EQ(live_frames(), 0);
    EXPECT_EQ(live_cpu_bytes(), bytes);
  }
}

TEST_F(CheckpointNestedTest, C052b_FreesADroppedGraphThatHoldsItsOwnResult) {
  at::Tensor kept;
  {
    const at::Tensor x = leaf({3, 3});
    kept =
        checkpoint([&kept](const at::Tensor& t) { return t.exp() + (kept.defined() ? 1 : 0); }, x);
    watch(kept);
  }
  kept = at::Tensor();
  EXPECT_EQ(nodes_alive(), 0U);
  EXPECT_EQ(live_frames(), 0);
}

TEST_F(CheckpointNestedTest, C053_RunsARegionOfTwoRegions) {
  const auto both = [](const Wrap& c) -> Fn {
    return [first = c(f), second = c(g)](const at::Tensor& x) { return second(first(x)); };
  };
  expect_plain_results({
      {"c(hc)", [&](const Wrap& c) { return c(both(c)); }},
      {"grad(c(hc))", [&](const Wrap& c) { return grad(c(both(c))); }},
      {"grad(sum(grad(sum(c(hc)))))",
       [&](const Wrap& c) { return grad(sum(grad(sum(c(both(c)))))); }},
      {"grad(sum(c(grad(sum(c(hc))))))",
       [&](const Wrap& c) { return grad(sum(c(grad(sum(c(both(c))))))); }},
  });
}

TEST_F(CheckpointNestedTest, C054_OtherThanTensorsGoInAndComeOut) {
  expect_as_plain([&](auto run) -> Tensors {
    const at::Tensor a = leaf({3});
    const at::Tensor b = leaf({3});
    const auto code = [run](int k, const at::Tensor& p, const at::Tensor& q, const Fn& fn) {
      return run(
          [run](int n, const at::Tensor& r, const at::Tensor& s, const Fn& inner) {
            const at::Tensor y = run([n, inner](const at::Tensor& t) { return inner(t * n); }, r);
            return std::make_tuple(y * s.exp(), n + 1, std::string("done"));
          },
          k, p, q, fn);
    };
    const auto [y, number, text] = code(3, a, b, f);
    EXPECT_EQ(number, 4);
    EXPECT_EQ(text, "done");
    return gradients(y, {a, b});
  });
}

struct Pair {
  at::Tensor first;
  at::Tensor second;
};

TEST_F(CheckpointNestedTest, C055_TensorInAStructAndACapturedOneGetTheirGradients) {
  expect_as_plain([&](auto run) -> Tensors {
    const at::Tensor a = leaf({3});
    const at::Tensor b = leaf({3});
    const at::Tensor captured = leaf({3});
    const at::Tensor y = run(
        [run, captured](const Pair& pair) {
          return run(
              [captured](const Pair& p) { return p.first.exp() * p.second * captured.sin(); },
              Pair{pair.first.sin(), pair.second});
        },
        Pair{a, b});
    return gradients(y, {a, b, captured});
  });
}

class CountCalls final : public torch::autograd::FunctionPostHook {
 public:
  explicit CountCalls(int& calls) : calls_(calls) {}
  torch::autograd::variable_list operator()(
      const torch::autograd::variable_list& outputs,
      const torch::autograd::variable_list& /*inputs*/) override {
    ++calls_;
    return outputs;
  }

 private:
  int& calls_;
};

TEST_F(CheckpointNestedTest, C056_BackwardRunsOnTheGraphOfForward) {
  const Fn inner = [](const at::Tensor& t) { return checkpoint(f, t); };
  int calls = 0;
  int tensor_hook_calls = 0;
  const at::Tensor x = leaf({3});
  const at::Tensor y = checkpoint(
      [&](const at::Tensor& t) {
        const at::Tensor z = inner(t).exp();
        if (!is_recomputing()) {
          z.register_hook([&](const at::Tensor& gradient) {
            ++tensor_hook_calls;
            return gradient;
          });
        }
        return z.sin();
      },
      x);
  y.grad_fn()->next_edge(0).function->add_post_hook(std::make_unique<CountCalls>(calls));
  gradients(y, {x});
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(tensor_hook_calls, 1);
}

at::Tensor layer(const at::Tensor& x) {
  return torch::dropout((x.sin() * x).exp().sin(), 0.2, true);
}

// The layers below in a region, this layer on top of them.
at::Tensor layer_over_region(auto run, int depth, const at::Tensor& x) {
  if (depth == 0) {
    return x;
  }
  return run(
      [run, depth](const at::Tensor& t) { return layer(layer_over_region(run, depth - 1, t)); }, x);
}

// This layer, and the layers above in a region.
at::Tensor region_over_layer(auto run, int depth, const at::Tensor& x) {
  if (depth == 0) {
    return x;
  }
  return run(
      [run, depth](const at::Tensor& t) { return region_over_layer(run, depth - 1, layer(t)); }, x);
}

TEST_F(CheckpointNestedTest, C047b_RegionsNestFiftyDeep) {
  constexpr int kDepth = 50;
  for (const bool early_stop : {true, false}) {
    expect_as_plain(
        [&](auto run) -> Tensors {
          const at::Tensor x = leaf({8});
          const at::Tensor y = layer_over_region(run, kDepth, x);
          return {y.detach(), gradients(y, {x})[0]};
        },
        {.early_stop = early_stop});
    expect_as_plain(
        [&](auto run) -> Tensors {
          const at::Tensor x = leaf({8});
          const at::Tensor y = region_over_layer(run, kDepth, x);
          return {y.detach(), gradients(y, {x})[0]};
        },
        {.early_stop = early_stop});
  }
}

TEST_F(CheckpointNestedTest, C047c_RegionsFiftyDeepNeedFewerLayersOfMemoryThanThePlainRun) {
  constexpr std::int64_t kWidth = 1 << 11;
  const auto peak = [&](auto run) {
    const at::Tensor x = leaf({kWidth});
    reset_peak_cpu_memory();
    const std::int64_t before = live_cpu_bytes();
    gradients(layer_over_region(run, 50, x), {x});
    return cpu_memory().peak_bytes - before;
  };
  const std::int64_t of_plain = peak(Plain{});
  const std::int64_t of_regions = peak(InRegion{});
  EXPECT_LT(of_regions, of_plain / 5);
  // One layer's tensors twice over, forward and gradients, whatever the depth.
  EXPECT_LE(of_regions, std::int64_t{16 * kWidth * sizeof(float)});
}

TEST_F(CheckpointNestedTest, C047d_InputsOfRegionsInsideAreNotKept) {
  for (const ReplayMode replay : {ReplayMode::kFunction, ReplayMode::kTape}) {
    const InRegion region{{.replay = replay}};
    const auto four_regions = [&](const at::Tensor& t) {
      return region(f, region(g, region(f, region(g, t))));
    };
    const at::Tensor x = leaf({1000});
    const at::Tensor input = x.exp();
    const std::int64_t before = live_cpu_bytes();
    const at::Tensor y = region(four_regions, input);
    EXPECT_EQ(live_cpu_bytes() - before, static_cast<std::int64_t>(y.nbytes()));
    expect_same_bits(gradients(y, {x}), gradients(f(g(f(g(x.exp())))), {x}));
  }
}

}  // namespace
}  // namespace reprise::testing::nested_test
