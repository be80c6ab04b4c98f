// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Tape regions inside function regions whose inputs differ between forward and replay, and replays
// that a backward inside the region asks for while forward runs: see Note [Inputs of regions
// inside].
#include <gmock/gmock.h>

#include <functional>
#include <memory>
#include <vector>

#include "reprise/engine/checkpoint_scope.h"
#include "reprise/policies/policies.h"
#include "tests/conformance/conformance_fixture.h"
#include "tests/engine/forms.h"
#include "tests/testing/wrapper_tensor.h"

namespace reprise::testing::inputs_inside_test {
namespace {

class InputsInsideTest : public ConformanceTest {
 protected:
  static Tensors outcome_of(const Code& run) {
    torch::manual_seed(3);
    const at::Tensor x = at::randn({6, 8}).requires_grad_();
    const at::Tensor y = run(x);
    return {y.detach(), torch::autograd::grad({y.sum()}, {x})[0]};
  }

  static std::vector<CheckpointOptions> outer_options() {
    return {CheckpointOptions{},
            CheckpointOptions{.early_stop = false},
            CheckpointOptions{.determinism_check = DeterminismCheck::kValues},
            CheckpointOptions{.policy = policies::save_nothing()},
            CheckpointOptions{.policy = policies::save_everything()},
            CheckpointOptions{.policy = policies::save_everything(), .early_stop = false}};
  }

  // make: the code, with state of its own. In a tape, in a scope and without either inside a
  // function region.
  static void expect_as_plain(const std::function<Code()>& make) {
    const Tensors expected =
        outcome_of([plain = make()](const at::Tensor& x) { return plain(x.sin()).exp(); });
    for (const CheckpointOptions& options : outer_options()) {
      for (const auto inside : {&in_tape, &in_scope, &in_place}) {
        const Code code = make();
        const auto outer = [&](const at::Tensor& x) { return inside(code, x.sin()).exp(); };
        const auto run = [&](const at::Tensor& x) { return checkpoint(options, outer, x); };
        expect_same_bits(outcome_of(run), expected);
      }
    }
  }
};

TEST_F(InputsInsideTest, WeightsThatAreBelievedGathered) {
  expect_as_plain([] {
    const at::Tensor shard = at::full({8, 8}, 0.25);
    const at::Tensor weight = at::zeros({8, 8});
    const auto is_gathered = std::make_shared<bool>(false);
    return [=](const at::Tensor& x) {
      if (!*is_gathered) {
        weight.copy_(shard);
        *is_gathered = true;
      }
      return x.mm(weight).tanh();
    };
  });
}

TEST_F(InputsInsideTest, TablesThatForwardHasMade) {
  expect_as_plain([] {
    const auto table = std::make_shared<at::Tensor>();
    return [=](const at::Tensor& x) {
      if (!table->defined()) {
        *table = at::ones({6, 8}).tril();
      }
      return (x * table->clone()).sin().cos();
    };
  });
}

// The replay reads the table as well, which must not be taken for the wrapper.
TEST_F(InputsInsideTest, TablesThatForwardHasMadeBesideWrappers) {
  for (const bool has_storage : {true, false}) {
    expect_as_plain([has_storage] {
      const auto table = std::make_shared<at::Tensor>();
      return [=](const at::Tensor& x) {
        if (!table->defined()) {
          *table = x.detach().exp();
        }
        return from_wrapper(to_wrapper(x * *table, has_storage).sin());
      };
    });
  }
}

// A policy keeps what the code changes after the backward, and the recomputation in between goes
// on to make the table.
TEST_F(InputsInsideTest, TablesMadeInARecomputationAheadOfForward) {
  expect_as_plain([] {
    const auto table = std::make_shared<at::Tensor>();
    return [=](const at::Tensor& x) {
      const at::Tensor changed = x.detach().cos();
      const at::Tensor copy = x.detach().requires_grad_();
      const at::Tensor factor = torch::autograd::grad({(copy.sin() * copy).sum()}, {copy})[0];
      changed.narrow(0, 0, 2).add_(x.detach().narrow(0, 2, 2));
      const at::Tensor y = x * factor + changed;
      if (!table->defined()) {
        *table = y.detach().exp();
      }
      return y * *table;
    };
  });
}

TEST_F(InputsInsideTest, InputsThatAreGoneAreAnError) {
  const at::Tensor x = leaf({6, 8});
  auto shard = std::make_shared<at::Tensor>(at::full({8, 8}, 0.25));
  const at::Tensor weight = at::zeros({8, 8});
  const auto inside = [&](const at::Tensor& t) {
    if (shard) {
      weight.copy_(*shard);
    }
    return t.mm(weight).tanh();
  };
  const at::Tensor y = checkpoint([&](const at::Tensor& t) { return in_tape(inside, t.sin()); }, x);
  shard.reset();
  weight.zero_();
  EXPECT_THAT([&] { y.sum().backward(); },
              ::testing::ThrowsMessage<DeterminismError>(
                  ::testing::HasSubstr("a region inside read Float [8, 8]")));
}

at::Tensor with_backward_inside(const at::Tensor& x) {
  const at::Tensor copy = x.detach().requires_grad_();
  return torch::autograd::grad({(copy.sin() * copy).sum()}, {copy})[0];
}

TEST_F(InputsInsideTest, BackwardsInsideFindTheTablesOfForward) {
  const auto make = [] {
    const auto table = std::make_shared<at::Tensor>();
    return [=](const at::Tensor& x) {
      if (!table->defined()) {
        *table = x.detach().exp();
      }
      const at::Tensor y = (x * table->clone()).sin();
      return y * with_backward_inside(y);
    };
  };
  const Tensors expected = outcome_of(make());
  for (const CheckpointOptions& options : outer_options()) {
    const auto code = make();
    const auto run = [&](const at::Tensor& x) { return checkpoint(options, code, x); };
    expect_same_bits(outcome_of(run), expected);
  }
}

TEST_F(InputsInsideTest, BackwardsInsideReadNothingThatIsRefilledUnseen) {
  const auto make = [] {
    const at::Tensor buffer = at::zeros({6, 8});
    return [=](const at::Tensor& x) {
      at::Tensor y = x;
      for (int i = 0; i < 3; ++i) {
        buffer.data().copy_(y.detach());
        y = (y * buffer.clone()).sin();
        y = y * with_backward_inside(y);
      }
      return y;
    };
  };
  const Tensors expected = outcome_of(make());
  expect_same_bits(outcome_of([&](const at::Tensor& x) { return in_scope(make(), x); }), expected);
  expect_same_bits(outcome_of([&](const at::Tensor& x) { return in_tape(make(), x); }), expected);
}

}  // namespace
}  // namespace reprise::testing::inputs_inside_test
