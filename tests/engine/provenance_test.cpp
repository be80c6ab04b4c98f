// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// A function region's recomputation is compared with its forward by operators: other numbers, other
// tensors and another order are errors where something saved depends on them, and nothing else is.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>

#include "reprise/engine/errors.h"
#include "reprise/engine/policy_bypass.h"
#include "reprise/engine/recomputing.h"
#include "reprise/policies/policies.h"
#include "tests/conformance/conformance_fixture.h"

namespace reprise::testing::provenance_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class ProvenanceTest : public ConformanceTest {
 protected:
  // A backward that failed leaves nodes in the thread's queue until the next.
  void TearDown() override {
    {
      const at::Tensor x = leaf({1});
      torch::autograd::grad({x.sum()}, {x});
    }
    ConformanceTest::TearDown();
  }

  template <class Fn>
  auto backward_of(const CheckpointOptions& options, Fn fn) {
    return [this, options, fn] {
      const at::Tensor x = leaf({4, 4});
      gradients(checkpoint(options, fn, x), {x});
    };
  }
};

TEST_F(ProvenanceTest, AnotherNumberIsAnErrorThatNamesTheOperator) {
  auto calls = std::make_shared<int>(0);
  const auto fn = [calls](const at::Tensor& x) { return (x.sin() * ++*calls).exp(); };
  EXPECT_THAT(backward_of({.name = "block"}, fn),
              ThrowsMessage<DeterminismError>(
                  AllOf(HasSubstr("region 'block'"), HasSubstr("recomputed otherwise"),
                        HasSubstr("operator 1 of the recomputation, aten::mul.Scalar"))));
}

// Otherwise what is made from them again would hold the values of another member, without an error.
TEST_F(ProvenanceTest, TensorsOfOpaqueLayoutsAreAsStaleAsTheirSources) {
  if (!at::hasMKLDNN()) {
    GTEST_SKIP() << "LibTorch is built without MKL-DNN";
  }
  const auto members =
      std::make_shared<std::pair<at::Tensor, at::Tensor>>(torch::randn({4}), torch::randn({4}));
  const auto fn = [members](const at::Tensor& x) {
    const at::Tensor y = x * (members->first + 1);
    std::swap(members->first, members->second);
    return y.to_mkldnn().relu().to_dense().exp();
  };
  EXPECT_THAT(backward_of({}, fn), ThrowsMessage<MutationError>(
                                       HasSubstr("in other memory than the tensor that forward")));
}

// _foreach_mul_() returns nothing.
TEST_F(ProvenanceTest, ThrowsForAHiddenWriteInForwardAlone) {
  for (const bool in_replay : {false, true}) {
    const auto fn = [in_replay](const at::Tensor& x) {
      const at::Tensor h = x.sin();
      if (in_replay || !is_recomputing()) {
        const PolicyBypassGuard bypass;
        const torch::NoGradGuard no_grad;
        at::_foreach_mul_({h}, 2);
      }
      return h.exp();
    };
    const at::Tensor x = leaf({4, 4});
    const at::Tensor y = checkpoint(fn, x);
    if (in_replay) {
      expect_same_bits(gradients(y, {x}), gradients(fn(x), {x}));
    } else {
      EXPECT_THAT([&] { gradients(y, {x}); },
                  ThrowsMessage<DeterminismError>(HasSubstr("recomputed otherwise")));
    }
  }
}

TEST_F(ProvenanceTest, AnotherSliceIsAnError) {
  auto calls = std::make_shared<int>(0);
  const at::Tensor table = torch::randn({2, 4});
  const auto fn = [calls, table](const at::Tensor& x) { return x * table[++*calls % 2]; };
  EXPECT_THAT(backward_of({}, fn),
              ThrowsMessage<DeterminismError>(HasSubstr("recomputed otherwise")));
}

TEST_F(ProvenanceTest, KeptResultsInAnotherOrderAreAnError) {
  auto calls = std::make_shared<int>(0);
  const at::Tensor w1 = torch::randn({4, 4});
  const at::Tensor w2 = torch::randn({4, 4});
  const auto fn = [=](const at::Tensor& x) {
    const bool is_first = ++*calls % 2 == 1;
    const at::Tensor one = x.mm(is_first ? w1 : w2);
    const at::Tensor other = x.mm(is_first ? w2 : w1);
    return is_first ? one.sin() + other.cos() : other.sin() + one.cos();
  };
  EXPECT_THAT([&] { backward_of({.policy = policies::save_matmuls()}, fn)(); },
              ThrowsMessage<CheckpointError>(
                  HasSubstr("tensors from outside the region, which it captured or reads")));
}

TEST_F(ProvenanceTest, ThrowsForCapturedTensorThatWasReplaced) {
  auto captured = std::make_shared<at::Tensor>(torch::randn({4}));
  for (const bool is_saved : {true, false}) {
    const at::Tensor x = leaf({4});
    const at::Tensor y = checkpoint(
        [captured, is_saved](const at::Tensor& t) {
          return is_saved ? (t * *captured).sum() : (t + *captured).sin();
        },
        x);
    *captured = torch::randn({4});
    EXPECT_THAT([&] { gradients(y, {x}); },
                ThrowsMessage<MutationError>(HasSubstr("in other memory than")));
  }
}

TEST_F(ProvenanceTest, CodeForForwardAloneMakesNoDifference) {
  for (const bool has_policy : {false, true}) {
    const auto fn = [](const at::Tensor& x) {
      const at::Tensor y = x.sin();
      if (!is_recomputing()) {
        y.detach().abs().mean().item<float>();
      }
      return y.exp();
    };
    const at::Tensor x = leaf({4});
    const Tensors expected = gradients(fn(x), {x});
    if (!has_policy) {
      expect_same_bits(gradients(checkpoint(fn, x), {x}), expected);
    }
  }
}

// As models do with masks and tables.
TEST_F(ProvenanceTest, AcceptsTensorsThatForwardMakesOnceAndKeeps) {
  for (const bool is_written : {false, true}) {
    auto cached = std::make_shared<at::Tensor>();
    const auto fn = [cached](const at::Tensor& x) {
      if (!cached->defined()) {
        *cached = at::ones({4, 4}).tril();
      }
      return (x.sin() * *cached).exp();
    };
    const at::Tensor x = leaf({4, 4});
    const Tensors expected = gradients(fn(x), {x});
    cached->reset();
    const at::Tensor y = checkpoint(fn, x);
    if (is_written) {
      cached->add_(1);
      EXPECT_THAT([&] { gradients(y, {x}); },
                  ThrowsMessage<CheckpointError>(
                      HasSubstr("tensors from outside the region, which it captured or reads")));
    } else {
      expect_same_bits(gradients(y, {x}), expected);
    }
  }
}

// Without being named in the options.
TEST_F(ProvenanceTest, CapturedGeneratorIsRestored) {
  expect_as_plain([&](auto run) -> Tensors {
    const at::Generator generator = at::detail::createCPUGenerator(7);
    const at::Tensor x = leaf({64});
    const at::Tensor y = run(
        [generator](const at::Tensor& t) {
          return (t.sin() * (at::rand({64}, generator) > 0.5)).sin();
        },
        x);
    at::rand({3}, generator);
    Tensors found = gradients(y, {x});
    found.push_back(at::rand({3}, generator));
    return found;
  });
}

TEST_F(ProvenanceTest, RestoresAGeneratorThatIsResetToItsState) {
  const auto fn = [](const at::Tensor& t) {
    at::Generator generator = at::detail::getDefaultCPUGenerator();
    const at::Tensor state = generator.get_state();
    const at::Tensor noise = at::rand_like(t);
    generator.set_state(state);
    return (t * noise).sin();
  };
  expect_as_plain([&](auto run) -> Tensors {
    const at::Tensor x = leaf({8});
    const at::Tensor y = run(fn, x);
    at::rand({5});
    return gradients(y, {x});
  });
}

// Autograd saves it before the operator fills it.
TEST_F(ProvenanceTest, NoiseThatIsSavedBeforeItIsDrawnIsDrawn) {
  expect_as_plain([this](auto run) -> Tensors {
    const at::Tensor x = leaf({16, 16});
    return gradients(run([](const at::Tensor& t) { return at::rrelu(t, 0.1, 0.4, true); }, x), {x});
  });
}

TEST_F(ProvenanceTest, AllowsHandlerInTheCodeToCatchTheEarlyStop) {
  const auto fn = [](const at::Tensor& x) {
    const at::Tensor y = x.cos();
    try {
      return y.sin();
    } catch (const std::exception&) {
      return y.exp();  // never in forward
    }
  };
  const at::Tensor x = leaf({4});
  const Tensors expected = gradients(fn(x), {x});
  for (const PolicyHolder& policy : {PolicyHolder(), policies::save_nothing()}) {
    expect_same_bits(gradients(checkpoint({.policy = policy}, fn, x), {x}), expected);
  }
}

// The member would hold the recomputation's tensor, whose gradient backward does not set.
TEST_F(ProvenanceTest, ThrowsForMemberThatRetainsItsGradient) {
  auto member = std::make_shared<at::Tensor>();
  const auto fn = [member](const at::Tensor& x) {
    *member = x.sin();
    member->retain_grad();
    return (*member * x).exp();
  };
  EXPECT_THAT(backward_of({}, fn),
              ThrowsMessage<CheckpointError>(
                  AllOf(HasSubstr("retains its gradient"), HasSubstr("CheckpointScope"))));
  member->reset();
}

}  // namespace
}  // namespace reprise::testing::provenance_test
