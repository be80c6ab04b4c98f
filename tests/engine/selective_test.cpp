// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Selective checkpointing beyond the conformance list: random numbers, kept bytes,
// batch-norm, and programs made up at random.
#include <random>

#include "reprise/engine/errors.h"
#include "reprise/engine/memory_report.h"
#include "reprise/policies/policies.h"
#include "tests/conformance/conformance_fixture.h"
#include "tests/testing/kernel_counter.h"

namespace reprise::testing::selective_test {
namespace {

// Saves the operators whose ordinal has a set bit.
PolicyHolder by_bits(std::uint64_t bits) {
  return [bits](const PolicyContext& context) {
    return (bits >> (static_cast<std::uint64_t>(context.ordinal()) % 64) & 1U) != 0;
  };
}

class SelectiveTest : public ConformanceTest, public ::testing::WithParamInterface<ReplayMode> {
 protected:
  static CheckpointOptions in_form(PolicyHolder policy) {
    return {.policy = std::move(policy), .replay = GetParam()};
  }
};

class SelectiveFunctionTest : public ConformanceTest {};

TEST_P(SelectiveTest, RandomOperatorsAreExactWhicheverAreKept) {
  const auto code = [](const at::Tensor& t) {
    const at::Tensor a = torch::dropout(t.sin(), 0.5, true);
    const at::Tensor b = a * at::rand_like(a);
    return torch::dropout(b.exp(), 0.3, true) * at::bernoulli(t.detach().sigmoid());
  };
  const at::Tensor x = leaf({4, 4});
  torch::manual_seed(9);
  const Tensors expected = gradients(code(x), {x});
  for (std::uint64_t bits = 0; bits < 256; ++bits) {
    torch::manual_seed(9);
    const at::Tensor y = checkpoint(in_form(by_bits(bits)), code, x);
    const at::Tensor generator = cpu_generator_state();
    torch::autograd::grad({y.sum()}, {x}, {}, /*retain_graph=*/true);
    expect_same_bits(gradients(y, {x}), expected);
    EXPECT_TRUE(bitwise_equal(cpu_generator_state(), generator));
  }
}

// The products are kept, and the relus save their own results: both at once would be twice as much.
TEST_P(SelectiveTest, ReleasesKeptResultsAsTheLastReplayUsesThem) {
  constexpr int kLayers = 8;
  const at::Tensor w = torch::randn({32, 32});
  const auto code = [w](const at::Tensor& t) {
    at::Tensor h = t;
    for (int i = 0; i < kLayers; ++i) {
      const at::Tensor m = h.mm(w);
      h = at::relu(at::cat({m, m}, 1)).narrow(1, 0, 32);  // as large as two that are kept
    }
    return h;
  };
  const at::Tensor x = leaf({32, 32});
  const Tensors expected = gradients(code(x), {x});
  const at::Tensor loss = checkpoint(in_form(policies::save_matmuls()), code, x).sum();
  const auto peak_of_backward = [&](bool keeps_graph) {
    const std::int64_t before = live_cpu_bytes();
    reset_peak_cpu_memory();
    expect_same_bits(torch::autograd::grad({loss}, {x}, {}, keeps_graph), expected);
    return (cpu_memory().peak_bytes - before) / static_cast<std::int64_t>(x.nbytes());
  };
  if (GetParam() == ReplayMode::kTape) {  // computes one layer at a time
    EXPECT_EQ(peak_of_backward(/*keeps_graph=*/true), 6);
    EXPECT_EQ(peak_of_backward(/*keeps_graph=*/false), 6);
    return;
  }
  const std::int64_t with_graph = peak_of_backward(/*keeps_graph=*/true);
  EXPECT_EQ(with_graph, 2 * kLayers + 4);
  // At the peak, the last layer's replay has yet to take the result.
  EXPECT_EQ(peak_of_backward(/*keeps_graph=*/false), with_graph - (kLayers - 1));
}

TEST_P(SelectiveTest, SavingEverythingKeepsNoMoreThanAutogradWould) {
  const auto code = [](const at::Tensor& t) {
    return ((t.sin() + 1).exp() * 2 - 3).sigmoid().reshape({64, 16}).add(1).tanh();
  };
  const at::Tensor x = leaf({32, 32});
  const auto kept = [&](auto forward) {
    const std::int64_t before = live_cpu_bytes();
    const at::Tensor y = forward();
    const std::int64_t bytes = live_cpu_bytes() - before;
    gradients(y, {x});
    return bytes;
  };
  const std::int64_t plain = kept([&] { return code(x); });
  EXPECT_EQ(kept([&] { return checkpoint(in_form(policies::save_everything()), code, x); }), plain);
}

// Results that nothing needs are released while forward runs.
TEST_P(SelectiveTest, SavingEverythingPeaksAsAutogradDoes) {
  const at::Tensor w = torch::randn({32, 32});
  const auto code = [w](const at::Tensor& t) {
    at::Tensor h = t;
    for (int i = 0; i < 8; ++i) {
      h = at::relu(h.mm(w));
    }
    return h;
  };
  const at::Tensor x = leaf({32, 32});
  const Tensors expected = gradients(code(x), {x});
  const auto peak_of = [&](auto forward) {
    const std::int64_t before = live_cpu_bytes();
    reset_peak_cpu_memory();
    const at::Tensor y = forward();
    const std::int64_t peak = cpu_memory().peak_bytes - before;
    expect_same_bits(gradients(y, {x}), expected);
    return peak / static_cast<std::int64_t>(x.nbytes());
  };
  const std::int64_t plain = peak_of([&] { return code(x); });
  EXPECT_EQ(peak_of([&] { return checkpoint(in_form(policies::save_everything()), code, x); }),
            plain);
}

// Of a convolution, a batch norm and a relu autograd does not save the second one's result.
TEST_P(SelectiveTest, SavingEverythingKeepsNoResultOfABatchNorm) {
  torch::nn::Conv2d conv(torch::nn::Conv2dOptions(4, 4, 3).padding(1));
  torch::nn::BatchNorm2d norm(4);
  auto code = [conv, norm](const at::Tensor& t) mutable { return at::relu(norm(conv(t))); };
  const at::Tensor x = leaf({2, 4, 16, 16});
  code(x).sum().backward();  // allocates gradients
  const std::int64_t before = live_cpu_bytes();
  const at::Tensor y = checkpoint(in_form(policies::save_everything()), code, x);
  const auto units = (live_cpu_bytes() - before) / static_cast<std::int64_t>(x.nbytes());
  EXPECT_EQ(units, 2);
  y.sum().backward();
}

// So it is where results are looked at through views, as between the heads of attention.
TEST_P(SelectiveTest, AsksForNoViews) {
  const auto code = [](const at::Tensor& t) {
    const at::Tensor sum = (t + 1).view({2, 64, 8}).transpose(0, 1) + 2;
    return sum.reshape({1024}).view({32, 32}).mm(t.sin().add_(1).t());
  };
  const at::Tensor x = leaf({32, 32});
  const auto kept = [&](auto forward) {
    const std::int64_t before = live_cpu_bytes();
    const at::Tensor y = forward();
    const std::int64_t bytes = live_cpu_bytes() - before;
    expect_same_bits(gradients(y, {x}), gradients(code(x), {x}));
    return bytes;
  };
  const std::int64_t plain = kept([&] { return code(x); });
  EXPECT_EQ(kept([&] { return checkpoint(in_form(policies::save_everything()), code, x); }), plain);
}

TEST_P(SelectiveTest, ComputesNoUnneededResults) {
  const auto code = [](const at::Tensor& t) {
    const at::Tensor statistic = t.detach().mm(t.detach()).sum();  // no gradient depends on it
    return std::make_tuple(t.sin().exp().tanh(), statistic);
  };
  const at::Tensor x = leaf({8, 8});
  const auto [y, statistic] = checkpoint(in_form(policies::save_nothing()), code, x);
  const Tensors expected = gradients(std::get<0>(code(x)), {x});
  const KernelCounter kernels;
  expect_same_bits(gradients(y, {x}), expected);
  EXPECT_EQ(kernels.count("aten::sin"), 1U);
  EXPECT_EQ(kernels.count("aten::mm"), 0U);
}

TEST_P(SelectiveTest, KeptBytesAreWhatThePolicySaid) {
  const at::Tensor x = leaf({16, 16});
  const std::int64_t before = live_cpu_bytes();
  {
    const at::Tensor y = checkpoint(
        in_form(policies::save_operators({"aten::mm"})),
        [](const at::Tensor& t) { return t.sin().mm(t).sin().mm(t).sin().sum(); }, x);
    EXPECT_EQ(live_cpu_bytes() - before, 2 * 16 * 16 * 4 + 4);
    y.backward();
    EXPECT_EQ(live_cpu_bytes() - before, 16 * 16 * 4 + 4);  // the gradient, and y
  }
}

TEST_P(SelectiveTest, PassesInputsToALaunchedKernel) {
  const auto code = [](const at::Tensor& t) {
    const at::Tensor input = t.detach().sin().contiguous();
    const at::Tensor output = at::empty_like(input);
    for (int i = 0; i < 16; ++i) {
      output.data_ptr<float>()[i] = 2 * input.data_ptr<float>()[i];
    }
    return (t * output).exp();
  };
  const at::Tensor x = leaf({16});
  const Tensors expected = gradients(code(x), {x});
  for (const PolicyHolder& policy : {policies::save_everything(), policies::save_nothing()}) {
    expect_same_bits(gradients(checkpoint(in_form(policy), code, x), {x}), expected);
  }
}

TEST_P(SelectiveTest, NestedRegionsFollowTheirOwnPolicies) {
  const auto inner = [](const at::Tensor& t) {
    return torch::dropout(t.sin().mm(t), 0.5, true).exp();
  };
  const auto plain = [&](const at::Tensor& t) { return inner(inner(t).cos()).sin(); };
  const at::Tensor x = leaf({4, 4});
  torch::manual_seed(2);
  const Tensors expected = gradients(plain(x), {x});
  for (std::uint64_t outer_bits = 0; outer_bits < 32; ++outer_bits) {
    for (const PolicyHolder& inner_policy : {PolicyHolder(), policies::save_matmuls()}) {
      torch::manual_seed(2);
      const auto outer = [&](const at::Tensor& t) {
        const CheckpointOptions options = in_form(inner_policy);
        return checkpoint(options, inner, checkpoint(options, inner, t).cos()).sin();
      };
      const at::Tensor y = checkpoint(in_form(by_bits(outer_bits * 37)), outer, x);
      expect_same_bits(gradients(y, {x}), expected);
    }
  }
}

TEST_P(SelectiveTest, BackwardInsideTheRegionIsRight) {
  const auto code = [](const at::Tensor& t) {
    const at::Tensor y = t.sin().exp();
    const at::Tensor g = torch::autograd::grad({y.sum()}, {t}, {}, true, /*create_graph=*/true)[0];
    return (y * g).sin();
  };
  const at::Tensor x = leaf({4});
  const Tensors expected = gradients(code(x), {x});
  for (std::uint64_t bits = 0; bits < 32; ++bits) {
    expect_same_bits(gradients(checkpoint(in_form(by_bits(bits * 41)), code, x), {x}), expected);
  }
}

// It asks for the results kept so far, and forward continues.
TEST_P(SelectiveTest, AllowsBackwardInsideTheRegionToFreeItsGraph) {
  const auto code = [](const at::Tensor& t) {
    const at::Tensor leaf = t.detach().requires_grad_();
    const at::Tensor g = torch::autograd::grad({leaf.sin().exp().sum()}, {leaf})[0];
    return (t.exp() * g).sin().mm(t).tanh();
  };
  const at::Tensor x = leaf({4, 4});
  const Tensors expected = gradients(code(x), {x});
  for (std::uint64_t bits = 0; bits < 64; ++bits) {
    expect_same_bits(gradients(checkpoint(in_form(by_bits(bits * 41)), code, x), {x}), expected);
  }
}

// A linear layer on three dimensions adds its bias in place, through a view that its schema does
// not declare.
TEST_P(SelectiveTest, KeepsResultsWithABiasAddedInPlace) {
  torch::manual_seed(1);
  torch::nn::Linear linear(4, 4);
  const at::Tensor x = leaf({2, 3, 4});
  const auto code = [&linear](const at::Tensor& t) {
    return torch::gelu(linear(torch::gelu(linear(t.transpose(0, 1)))));
  };
  const Tensors expected = gradients(code(x), {x, linear->weight, linear->bias});
  for (const PolicyHolder& policy :
       {policies::save_matmuls(), policies::every_nth_matmul(2), policies::save_everything(),
        policies::save_operators({"aten::add_.Tensor"}), by_bits(0x5a5a)}) {
    const at::Tensor y = checkpoint(in_form(policy), code, x);
    expect_same_bits(gradients(y, {x, linear->weight, linear->bias}), expected);
  }
}

// Tape replays run no code of the region.
TEST_F(SelectiveFunctionTest, RetryAfterAnExceptionIsRight) {
  bool fail = true;
  const at::Tensor x = leaf({4, 4});
  const at::Tensor y = checkpoint(
      {.policy = policies::save_matmuls()},
      [&fail](const at::Tensor& t) {
        const at::Tensor h = t.sin().mm(t).exp();
        if (fail && is_recomputing()) {
          throw std::domain_error("once");
        }
        return h.mm(t).sin();
      },
      x);
  EXPECT_THAT([&] { torch::autograd::grad({y.sum()}, {x}, {}, true); },
              ::testing::ThrowsMessage<std::domain_error>(::testing::HasSubstr("once")));
  fail = false;
  expect_same_bits(gradients(y, {x}), gradients(x.sin().mm(x).exp().mm(x).sin(), {x}));
}

TEST_P(SelectiveTest, BatchNormIsUpdatedOnceWhetherKeptOrNot) {
  for (std::uint64_t bits = 0; bits < 16; ++bits) {
    torch::manual_seed(1);
    torch::nn::BatchNorm2d norm(4);
    torch::nn::BatchNorm2d same(4);
    const at::Tensor x = leaf({2, 4, 3, 3});
    const auto code = [](torch::nn::BatchNorm2d& m, const at::Tensor& t) {
      return torch::relu(m(t.sin())).exp();
    };
    const at::Tensor y = checkpoint(
        in_form(by_bits(bits)), [&](const at::Tensor& t) { return code(norm, t); }, x);
    const Tensors got = gradients(y, {x, norm->weight});
    expect_same_bits(got, gradients(code(same, x), {x, same->weight}));
    expect_same_bits(norm->buffers(), same->buffers());
  }
}

// A program of `length` operators over a few tensors, the same for the same seed.
at::Tensor random_program(std::uint64_t seed, int length, const at::Tensor& x,
                          const at::Tensor& w) {
  std::mt19937_64 random(seed);
  const auto pick = [&random](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  std::vector<at::Tensor> pool = {x.sin(), w.cos(), x * w};
  for (int i = 0; i < length; ++i) {
    const at::Tensor& a = pool[pick(pool.size())];
    const at::Tensor& b = pool[pick(pool.size())];
    at::Tensor result;
    switch (pick(12)) {
      case 0:
        result = a.mm(b);
        break;
      case 1:
        result = (a * b).tanh();
        break;
      case 2:
        result = torch::dropout(a, 0.4, true);
        break;
      case 3:
        result = a.t().contiguous();
        break;
      case 4:
        result = a + b.narrow(0, 1, 1);
        break;
      case 5:
        result = std::get<0>(a.sort(1));
        break;
      case 6:
        result = (a + 1).mul_(0.5).add_(b);
        break;
      case 7:
        result = at::layer_norm(a, {4});
        break;
      case 8:
        result = a.softmax(1);
        break;
      case 9:
        result = at::cat({a.narrow(1, 0, 2), b.narrow(1, 2, 2)}, 1);
        break;
      case 10: {
        result = a.clone();
        result.narrow(0, 1, 2).sigmoid_();
        break;
      }
      default:
        result = a * at::rand_like(b);
        break;
    }
    pool.push_back(result);
  }
  return pool.back() + pool[pool.size() / 2] + x + w;
}

// The report on results that the policy wanted to keep; others are not listed.
std::int64_t kept_by_policy(const MemoryReport& report) {
  std::int64_t bytes = 0;
  for (const OperatorReport& op : report.regions.at(0).operators) {
    EXPECT_TRUE(op.kept_bytes == 0 || keeps(op.decision)) << op.name;
    bytes += op.kept_bytes;
  }
  return bytes;
}

TEST_P(SelectiveTest, ProgramsMadeUpAtRandomAreAsWithoutRegions) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const at::Tensor x = leaf({4, 4});
    const at::Tensor w = leaf({4, 4});
    const auto code = [seed](const at::Tensor& a, const at::Tensor& b) {
      return random_program(seed, 12, a, b);
    };
    torch::manual_seed(4);
    const Tensors expected = gradients(code(x, w), {x, w});
    std::mt19937_64 random(seed);
    for (int policy = 0; policy < 4; ++policy) {
      SCOPED_TRACE(seed);
      torch::manual_seed(4);
      const MemoryReportGuard collecting;
      const std::int64_t before = live_cpu_bytes();
      const at::Tensor y = checkpoint(in_form(by_bits(random())), code, x, w);
      EXPECT_EQ(live_cpu_bytes() - before, kept_by_policy(memory_report()) + 4 * 4 * 4);  // and y
      if (policy % 2 == 1) {
        torch::autograd::grad({y.sum()}, {x, w}, {}, /*retain_graph=*/true);
      }
      expect_same_bits(gradients(y, {x, w}), expected);
    }
  }
}

// The policy insists on results and on the writes to them, too.
TEST_P(SelectiveTest, MutationErrorLeavesNothingBehind) {
  int errors = 0;
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    const at::Tensor x = leaf({4, 4});
    const at::Tensor w = leaf({4, 4});
    at::Tensor kept;
    const auto code = [seed, &kept](const at::Tensor& a, const at::Tensor& b) {
      const at::Tensor sum = a.sin() + b;
      kept = is_recomputing() ? kept : sum.detach();
      return random_program(seed, 12, sum.exp(), b) * sum;
    };
    torch::manual_seed(4);
    const Tensors expected = torch::autograd::grad({code(x, w).sum()}, {x, w});
    torch::manual_seed(4);
    const at::Tensor y = checkpoint(in_form([](const PolicyContext& context) {
                                      return context.op().ends_with("_")
                                                 ? CheckpointPolicy::MUST_RECOMPUTE
                                                 : CheckpointPolicy::MUST_SAVE;
                                    }),
                                    code, x, w);
    expect_same_bits(torch::autograd::grad({y.sum()}, {x, w}, {}, /*retain_graph=*/true), expected);
    kept.add_(1);
    for (const bool retain : {true, false}) {
      try {
        torch::autograd::grad({y.sum()}, {x, w}, {}, retain);
      } catch (const MutationError&) {
        ++errors;
      }
    }
    watch(y);
  }
  EXPECT_EQ(errors, 60);
  const at::Tensor x = leaf({4});
  gradients(x.sin(),
            {x});  // a backward that failed leaves nodes in the thread's queue until the next
}

INSTANTIATE_TEST_SUITE_P(Forms, SelectiveTest,
                         ::testing::Values(ReplayMode::kFunction, ReplayMode::kTape),
                         [](const auto& form) {
                           return form.param == ReplayMode::kTape ? "Tape" : "Function";
                         });

}  // namespace
}  // namespace reprise::testing::selective_test
