// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Collectives inside of regions: replays run them on all ranks alike, or, when kept, on none.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "reprise/engine/cpu_memory.h"
#include "reprise/engine/memory_budget.h"
#include "reprise/engine/value_annotations.h"
#include "reprise/policies/policies.h"
#include "tests/distributed/parallel_layers.h"
#include "tests/distributed/ranks.h"
#include "tests/distributed/region_forms.h"
#include "tests/testing/modules.h"
#include "tests/testing/op_recorder.h"

namespace reprise::collectives_test {
namespace {

using testing::copy_to_ranks;
using testing::expect_same_bits;
using testing::forms_under;
using testing::kStyles;
using testing::on_ranks;
using testing::OpRecorder;
using testing::ParallelGroup;
using testing::Rank;
using testing::reduce_from_ranks;
using testing::region_forms;
using testing::RegionForm;
using testing::Style;

using Tensors = std::vector<at::Tensor>;
using Code = std::function<at::Tensor(const at::Tensor&)>;

// A layer of which each rank has some columns, and one of which it has some rows.
struct Layers {
  explicit Layers(int ranks)
      : up(at::randn({8, 24 / ranks}).requires_grad_()),
        down(at::randn({24 / ranks, 8}).requires_grad_()) {}

  at::Tensor operator()(const at::Tensor& x, Style style) const {
    const at::Tensor hidden = at::gelu(copy_to_ranks(x, style).matmul(up));
    return reduce_from_ranks(hidden.matmul(down), style);
  }

  at::Tensor up;
  at::Tensor down;
};

struct Step {
  Tensors gradients;
  std::size_t in_forward;
  std::size_t in_backward;
};

Step step(const Layers& layers, const at::Tensor& x, const std::function<at::Tensor()>& forward) {
  OpRecorder recorder;
  const at::Tensor loss = forward().sum();
  const std::size_t in_forward = recorder.count("c10d::allreduce_");
  recorder.clear();
  Tensors gradients = torch::autograd::grad({loss}, {x, layers.up, layers.down});
  return {std::move(gradients), in_forward, recorder.count("c10d::allreduce_")};
}

// Expects, in each of the forms and styles, the gradients of a step without regions, and that many
// collectives in backward beside the one of its own.
void expect_replayed(const Rank& rank, const std::vector<RegionForm>& all, std::size_t collectives,
                     const std::function<at::Tensor(const Layers&, const at::Tensor&, Style)>& code,
                     const std::vector<Style>& styles = kStyles) {
  const ParallelGroup group(rank);
  for (const Style style : styles) {
    torch::manual_seed(10 + rank.index);
    const Layers layers(rank.size);
    torch::manual_seed(5);
    const at::Tensor x = at::randn({4, 8}).requires_grad_();
    const Code region = [&](const at::Tensor& t) { return code(layers, t, style); };
    const Step plain = step(layers, x, [&] { return region(x * 2); });
    EXPECT_EQ(plain.in_backward, 1U);
    for (const RegionForm& form : all) {
      SCOPED_TRACE(c10::str(form.name, ", style ", static_cast<int>(style)));
      const Step found = step(layers, x, [&] { return form.run(region, x * 2); });
      expect_same_bits(found.gradients, plain.gradients);
      EXPECT_EQ(found.in_forward, plain.in_forward);
      EXPECT_EQ(found.in_backward, 1 + collectives);
    }
  }
}

at::Tensor saved_behind(const Layers& layers, const at::Tensor& x, Style style) {
  return layers(x, style).sin();
}

at::Tensor last_of_all(const Layers& layers, const at::Tensor& x, Style style) {
  return layers(x, style) + x;
}

TEST(CollectivesTest, ReplayRunsThoseThatASavedTensorNeeds) {
  on_ranks(2, [](Rank& rank) { expect_replayed(rank, region_forms(), 1, saved_behind); });
}

TEST(CollectivesTest, OmitsTheLastOperatorInAReplay) {
  on_ranks(2, [](Rank& rank) { expect_replayed(rank, region_forms(), 0, last_of_all); });
}

// Saves its argument.
struct Squared : torch::autograd::Function<Squared> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x) {
    context->save_for_backward({x});
    return x * x;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    return {gradients[0] * 2 * context->get_saved_variables()[0]};
  }
};

// A Function saves the result of another one last.
at::Tensor last_behind_a_function(const Layers& layers, const at::Tensor& x, Style style) {
  const at::Tensor hidden = at::gelu(x.matmul(layers.up)).matmul(layers.down);
  return reduce_from_ranks(Squared::apply(copy_to_ranks(hidden, style)), style);
}

TEST(CollectivesTest, OmitsTheLastOperatorBehindAFunctionThatSavesAnothersResult) {
  on_ranks(2, [](Rank& rank) {
    expect_replayed(rank, region_forms(), 0, last_behind_a_function);
    expect_replayed(rank, region_forms({.early_stop = false}), 1, last_behind_a_function);
  });
}

TEST(CollectivesTest, WithoutEarlyStopAReplayRunsAll) {
  on_ranks(2, [](Rank& rank) {
    expect_replayed(rank, region_forms({.early_stop = false}), 1, saved_behind);
    expect_replayed(rank, region_forms({.early_stop = false}), 1, last_of_all);
  });
}

TEST(CollectivesTest, RunsOnThreeRanks) {
  on_ranks(3, [](Rank& rank) {
    expect_replayed(rank, region_forms(), 1, saved_behind);
    expect_replayed(rank, region_forms(), 0, last_of_all);
  });
}

TEST(CollectivesTest, RunsNoCollectiveWhoseResultIsKept) {
  on_ranks(2, [](Rank& rank) {
    for (const char* const name :
         {"_c10d_functional::all_reduce", "_c10d_functional::wait_tensor"}) {
      const PolicyHolder policy = policies::save_operators({name});
      for (const bool early_stop : {true, false}) {
        expect_replayed(rank, forms_under(policy, {.early_stop = early_stop}), 0, saved_behind,
                        {Style::kFunctional});
      }
    }
  });
}

// Ranks need not agree on a plan: the results of collectives are neither evicted nor recomputed.
TEST(CollectivesTest, WithinBudgetsNoneRunsAgainWhateverEachRankPlans) {
  on_ranks(2, [](Rank& rank) {
    const ParallelGroup group(rank);
    install_cpu_memory_counter();
    for (const Style style : kStyles) {
      torch::manual_seed(10 + rank.index);
      const Layers layers(rank.size);
      torch::manual_seed(5);
      const at::Tensor x = at::randn({512, 8}).requires_grad_();
      const auto forward = [&] {
        at::Tensor h = x * 2;
        for (int i = 0; i < 6; ++i) {
          h = h + layers(h, style).sin() * 0.1;
        }
        return h;
      };
      const std::int64_t before = cpu_memory().current_bytes;
      reset_peak_cpu_memory();
      const Step plain = step(layers, x, forward);
      const std::int64_t plain_peak = cpu_memory().peak_bytes - before;
      const double part = rank.index == 0 ? 0.9 : 0.6;
      MemoryBudget budget(
          {.peak_bytes = cpu_memory().current_bytes +
                         static_cast<std::int64_t>(part * static_cast<double>(plain_peak))});
      for (int i = 0; i < 4; ++i) {
        SCOPED_TRACE(c10::str("style ", static_cast<int>(style), ", step ", i));
        const Step found = step(layers, x, [&] {
          const BudgetScope scope(budget);
          return forward();
        });
        expect_same_bits(found.gradients, plain.gradients);
        EXPECT_EQ(found.in_forward, plain.in_forward);
        EXPECT_EQ(found.in_backward, plain.in_backward);
        EXPECT_EQ(budget.last_step()->is_planned(), i > 0);
      }
    }
  });
}

TEST(CollectivesTest, RunsNoCollectiveWhoseResultIsSavedByHand) {
  on_ranks(2, [](Rank& rank) {
    const auto saved = [](const Layers& layers, const at::Tensor& x, Style style) {
      const at::Tensor y = layers(x, style);
      must_save(y);
      return y.sin();
    };
    expect_replayed(rank, forms_under(policies::save_nothing()), 0, saved, {Style::kFunctional});
  });
}

// A backward through one result lets go of the saved tensors behind the sum, not of what the sum
// needs: the ranks may hold on to different results.
TEST(CollectivesTest, BackwardThroughAnotherResultRunsTheSameOnes) {
  on_ranks(2, [](Rank& rank) {
    const ParallelGroup group(rank);
    for (const Style style : kStyles) {
      torch::manual_seed(10 + rank.index);
      const Layers layers(rank.size);
      torch::manual_seed(5);
      const at::Tensor x = at::randn({4, 8}).requires_grad_();
      const auto gradients_of = [&](const auto& run) {
        Tensors results = run([&](const at::Tensor& t) -> Tensors {
          return {layers(t, style).sin(), t.exp().cos()};
        });
        Tensors found;
        for (at::Tensor& result : results) {
          found.push_back(torch::autograd::grad({result.sum()}, {x})[0]);
          result.reset();
        }
        return found;
      };
      const Tensors expected = gradients_of([&](const auto& code) { return code(x); });
      for (const RegionForm& form : region_forms()) {
        SCOPED_TRACE(c10::str(form.name, ", style ", static_cast<int>(style)));
        expect_same_bits(gradients_of([&](const auto& code) { return form.run(code, x); }),
                         expected);
      }
    }
  });
}

// The policy has kept the matrix product, which the ranks then sum in place.
TEST(CollectivesTest, SumsAResultInPlaceOverRanks) {
  on_ranks(2, [](Rank& rank) {
    const auto in_place = [](const Layers& layers, const at::Tensor& x, Style style) {
      const at::Tensor hidden = at::gelu(copy_to_ranks(x, style).matmul(layers.up));
      const at::Tensor y = hidden.matmul(layers.down);
      {
        const torch::NoGradGuard no_grad;
        Tensors sum = {y.detach()};
        ParallelGroup::get()->allreduce(sum)->wait();
      }
      return y.sin();
    };
    expect_replayed(rank, region_forms(), 1, in_place, {Style::kInPlace});
    // A tape lets the kept product follow the write.
    const PolicyHolder policy = policies::save_matmuls();
    std::vector<RegionForm> all = forms_under(policy);
    expect_replayed(rank, {all[0]}, 1, in_place, {Style::kInPlace});
    expect_replayed(rank, {all[1], all[2]}, 0, in_place, {Style::kInPlace});
  });
}

}  // namespace
}  // namespace reprise::collectives_test
