// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Dropout on what all ranks hold alike, and in forks on what a rank holds of its own, in processes
// that were seeded as tensor parallelism asks for.
#include "reprise/rng/rng_state_tracker.h"

#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "reprise/engine/checkpoint.h"
#include "reprise/engine/checkpoint_scope.h"
#include "reprise/partition/partitioned_store.h"
#include "reprise/policies/policies.h"
#include "tests/distributed/ranks.h"
#include "tests/testing/bitwise.h"
#include "tests/testing/modules.h"

namespace reprise::ranks_rng_test {
namespace {

using testing::bitwise_equal;
using testing::expect_same_bits;
using testing::on_ranks;
using testing::Rank;

using Tensors = std::vector<at::Tensor>;
using Code = std::function<Tensors(const Tensors&)>;
using Region = std::function<Tensors(const CheckpointOptions&, const Code&, const Tensors&)>;

at::Tensor drop(const at::Tensor& t) { return torch::dropout(t, 0.3, true); }

at::Tensor drop_of_rank(const at::Tensor& t) {
  const auto fork = default_rng_state_tracker().fork();
  return drop(t.sin());
}

// Of {the replicated tensors, the rank's own part}.
Tensors both(const Tensors& t) {
  at::Tensor shared = drop(t[0].tanh());
  at::Tensor own;
  {
    const auto fork = default_rng_state_tracker().fork();
    own = drop_of_rank(drop(t[1].exp())) + drop(t[1]);
  }
  shared = drop(shared.sin());
  return {shared, drop_of_rank(own.tanh())};
}

Tensors shared_only(const Tensors& t) {
  const at::Tensor h = drop(t[0].exp());
  drop_of_rank(h);  // draws in between, from another state
  return {drop(h.cos())};
}

struct Outcome {
  Tensors shared, own;  // results, gradients, and after forward and backward the default state
  std::vector<RngStateTracker::States> states = {};

  void note_random() {
    shared.push_back(at::detail::getDefaultCPUGenerator().get_state());
    states.push_back(default_rng_state_tracker().states());
  }
};

Outcome train(const Rank& rank, const Region& region, const CheckpointOptions& options = {}) {
  model_parallel_manual_seed(77, rank.index);
  CheckpointOptions of_shared = options;
  of_shared.input_store = stores::partitioned(rank.group, {.min_bytes = 0});
  const at::Tensor x = torch::randn({20, 20}).requires_grad_();
  const at::Tensor y = torch::randn({20, 20}).requires_grad_();
  at::Tensor shared = x.sin();
  at::Tensor own = y.sin();
  for (int block = 0; block < 2; ++block) {
    const Tensors results = region(options, both, {shared, own});
    shared = region(of_shared, shared_only, {results[0]})[0];
    own = results[1];
  }
  Outcome outcome{.shared = {shared.detach()}, .own = {own.detach()}};
  outcome.note_random();
  const Tensors gradients = torch::autograd::grad({shared.sum() + own.sum()}, {x, y});
  outcome.shared.push_back(gradients[0]);
  outcome.own.push_back(gradients[1]);
  outcome.note_random();
  return outcome;
}

Tensors of_all_ranks(const Rank& rank, const at::Tensor& tensor) {
  std::vector<Tensors> found(1);
  for (int i = 0; i < rank.size; ++i) {
    found[0].push_back(at::empty_like(tensor));
  }
  Tensors inputs = {tensor};
  rank.group->allgather(found, inputs)->wait();
  return found[0];
}

void expect_alike_on_all(const Rank& rank, const Tensors& tensors) {
  for (const at::Tensor& tensor : tensors) {
    for (const at::Tensor& of_rank : of_all_ranks(rank, tensor)) {
      EXPECT_TRUE(bitwise_equal(of_rank, tensor));
    }
  }
}

void expect_another_on_each(const Rank& rank, const Tensors& tensors) {
  for (const at::Tensor& tensor : tensors) {
    const Tensors all = of_all_ranks(rank, tensor);
    for (std::size_t i = 0; i < all.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        EXPECT_FALSE(at::equal(all[i], all[j])) << "ranks " << i << " and " << j;
      }
    }
  }
}

Tensors in_scope(const CheckpointOptions& options, const Code& code, const Tensors& t) {
  const CheckpointScope scope(options);
  return code(t);
}

struct Form {
  std::string name;
  Region region;
};

std::vector<Form> forms() {
  const auto with_replay = [](ReplayMode replay) {
    return [replay](CheckpointOptions options, const Code& code, const Tensors& t) {
      options.replay = replay;
      return checkpoint(options, code, t);
    };
  };
  return {{"function", with_replay(ReplayMode::kFunction)},
          {"tape", with_replay(ReplayMode::kTape)},
          {"scope", in_scope}};
}

std::vector<std::pair<std::string, CheckpointOptions>> many_options() {
  const auto even = [](const PolicyContext& context) { return context.ordinal() % 2 == 0; };
  return {{"no policy", {}},
          {"masks", {.policy = policies::save_operators({"aten::bernoulli_.float"})}},
          {"sines", {.policy = policies::save_operators({"aten::sin"})}},
          {"even", {.policy = PolicyHolder(even)}}};
}

class RanksAndForksTest : public ::testing::TestWithParam<int> {};

INSTANTIATE_TEST_SUITE_P(Ranks, RanksAndForksTest, ::testing::Values(2, 3, 4),
                         ::testing::PrintToStringParamName());

TEST_P(RanksAndForksTest, MasksOutsideOfForksAreSharedAndThoseInsideAreNotAlsoInBackward) {
  on_ranks(GetParam(), [](Rank& rank) {
    const Outcome plain = train(
        rank, [](const auto& /*options*/, const Code& code, const Tensors& t) { return code(t); });
    expect_alike_on_all(rank, plain.shared);
    expect_another_on_each(rank, plain.own);
    for (const auto& [form, region] : forms()) {
      for (const auto& [name, options] : many_options()) {
        SCOPED_TRACE(form + ", " + name);
        const Outcome found = train(rank, region, options);
        expect_same_bits(found.shared, plain.shared);
        expect_same_bits(found.own, plain.own);
        EXPECT_TRUE(found.states == plain.states);
        // Backward leaves the states where forward did.
        EXPECT_TRUE(bitwise_equal(found.shared[1], found.shared[3]));
        EXPECT_TRUE(found.states[0] == found.states[1]);
      }
    }
  });
}

TEST(RanksInReplicasTest, ShareMasksInTheirTensorParallelGroupOnly) {
  on_ranks(4, [](Rank& rank) {
    model_parallel_manual_seed(77 + 1000 * static_cast<std::uint64_t>(rank.index / 2),
                               rank.index % 2);
    const at::Tensor x = at::ones({400}).requires_grad_();
    const Tensors masks = checkpoint(
        [](const at::Tensor& t) {
          return Tensors{drop(t.exp()), drop_of_rank(t)};
        },
        x);
    for (const at::Tensor& mask : masks) {
      const at::Tensor gradient = torch::autograd::grad({mask.sum()}, {x}, {}, true)[0];
      EXPECT_TRUE(at::equal(gradient != 0, mask != 0));
    }
    const Tensors shared = of_all_ranks(rank, masks[0].detach());
    EXPECT_TRUE(bitwise_equal(shared[0], shared[1]));
    EXPECT_TRUE(bitwise_equal(shared[2], shared[3]));
    EXPECT_FALSE(at::equal(shared[0], shared[2]));
    expect_another_on_each(rank, {masks[1].detach()});
  });
}

}  // namespace
}  // namespace reprise::ranks_rng_test
