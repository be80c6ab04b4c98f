// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Regions with transfers between ranks that do not all do the same around them, and a GPT's block.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstddef>
#include <functional>
#include <iterator>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "reprise/engine/errors.h"
#include "reprise/hooks/stores.h"
#include "reprise/partition/partitioned_store.h"
#include "reprise/rng/rng_state_tracker.h"
#include "tests/distributed/parallel_layers.h"
#include "tests/distributed/ranks.h"
#include "tests/distributed/region_forms.h"
#include "tests/testing/bitwise.h"
#include "tests/testing/modules.h"
#include "tests/testing/op_recorder.h"

namespace reprise::parallel_ranks_test {
namespace {

using testing::all_reduce;
using testing::bitwise_equal;
using testing::copy_to_ranks;
using testing::expect_same_bits;
using testing::forms_under;
using ::testing::HasSubstr;
using testing::kStyles;
using testing::on_ranks;
using testing::OpRecorder;
using testing::ParallelGroup;
using testing::Rank;
using testing::reduce_from_ranks;
using testing::region_forms;
using testing::RegionForm;
using testing::start_all_reduce;
using testing::Style;
using testing::wait_tensor;

using Tensors = std::vector<at::Tensor>;

void expect_backward(const at::Tensor& y, const at::Tensor& x, std::size_t collectives,
                     const Tensors& expected) {
  const OpRecorder recorder;
  const Tensors gradients = torch::autograd::grad({y.sum()}, {x});
  EXPECT_EQ(recorder.count("c10d::allreduce_"), collectives);
  expect_same_bits(gradients, expected);
}

// All ranks but one drop the tensors saved behind the last collective.
TEST(ParallelRanksTest, RunTheSameCollectivesHoldingDifferentResults) {
  on_ranks(2, [](Rank& rank) {
    const ParallelGroup group(rank);
    for (const Style style : kStyles) {
      const at::Tensor x = at::randn({4, 8}).requires_grad_();
      const auto code = [style](const at::Tensor& t) {
        const at::Tensor h = t.sin();
        return std::tuple(h, reduce_from_ranks(h.exp(), style).cos());
      };
      const Tensors expected = torch::autograd::grad({std::get<0>(code(x * 2)).sum()}, {x});
      for (const RegionForm& form : region_forms()) {
        SCOPED_TRACE(c10::str(form.name, ", style ", static_cast<int>(style)));
        auto [h, metric] = form.run(code, x * 2);
        if (rank.index != 0) {
          metric.reset();
        }
        expect_backward(h, x, 1, expected);
      }
    }
  });
}

// Only one of them saves something behind it.
TEST(ParallelRanksTest, NeedAllCollectivesIfTheySaveDifferentTensors) {
  on_ranks(2, [](Rank& rank) {
    const ParallelGroup group(rank);
    for (const Style style : kStyles) {
      const at::Tensor x = at::randn({4, 8}).requires_grad_();
      const auto code = [&](const at::Tensor& t) {
        const at::Tensor y = reduce_from_ranks(t.sin(), style);
        return rank.index == 0 ? y.exp().log() : y;
      };
      const Tensors expected = torch::autograd::grad({code(x * 2).sum()}, {x});
      for (const RegionForm& form : region_forms({.early_stop = false})) {
        SCOPED_TRACE(c10::str(form.name, ", style ", static_cast<int>(style)));
        expect_backward(form.run(code, x * 2), x, 1, expected);
      }
    }
  });
}

// Two that do not depend on each other, of which backward needs the one that was later first.
TEST(ParallelRanksTest, ReplaysRunThemInTheOrderOfForward) {
  on_ranks(2, [](Rank& rank) {
    const ParallelGroup group(rank);
    const at::Tensor x = at::randn({4, 8}).requires_grad_();
    const auto code = [&](const at::Tensor& t) {
      const at::Tensor first = reduce_from_ranks(t.sin(), Style::kFunctional);
      const at::Tensor second = reduce_from_ranks(t.cos(), Style::kFunctional);
      // One rank saves them in another order than the other.
      const at::Tensor a = rank.index == 0 ? first.exp() : second.exp();
      const at::Tensor b = rank.index == 0 ? second.exp() : first.exp();
      return rank.index == 0 ? a * 2 + b : b * 2 + a;
    };
    const Tensors expected = torch::autograd::grad({code(x * 2).sum()}, {x});
    for (const RegionForm& form : region_forms()) {
      SCOPED_TRACE(form.name);
      expect_backward(form.run(code, x * 2), x, 2, expected);
    }
  });
}

// The policy keeps the result, in a store, before the other rank has so much as begun.
TEST(ParallelRanksTest, KeepsInFlightResultsOnArrival) {
  on_ranks(2, [](Rank& rank) {
    const ParallelGroup group(rank);
    const at::Tensor x = at::randn({4, 8}).requires_grad_();
    int round = 0;
    const auto code = [&](const at::Tensor& t) {
      const std::string begun = "begun " + std::to_string(round);
      if (rank.index == 1) {
        rank.wait_for(begun);
      }
      const torch::NoGradGuard no_grad;
      const at::Tensor sum = start_all_reduce(t.sin());
      if (rank.index == 0) {
        rank.tell(begun);
      }
      return wait_tensor(sum);
    };
    const auto region = [&](const at::Tensor& t) { return code(t) * t.exp(); };
    const Tensors expected = torch::autograd::grad({region(x * 2).sum()}, {x});
    for (const char* const kept : {"all_reduce", "wait_tensor"}) {
      const PolicyHolder policy =
          policies::keep_in(stores::packed() | stores::partitioned(rank.group, {.min_bytes = 0}),
                            policies::save_operators({std::string("_c10d_functional::") + kept}));
      for (const RegionForm& form : forms_under(policy)) {
        SCOPED_TRACE(c10::str(form.name, ", ", kept));
        ++round;
        expect_backward(form.run(region, x * 2), x, 0, expected);
      }
    }
  });
}

TEST(ParallelRanksTest, TensorFromOutsideIsSummedOnce) {
  on_ranks(2, [](Rank& rank) {
    const ParallelGroup group(rank);
    for (const RegionForm& form : region_forms({.early_stop = false})) {
      SCOPED_TRACE(form.name);
      const at::Tensor count = at::ones({3});
      const at::Tensor x = at::randn({4, 8}).requires_grad_();
      const at::Tensor y = form.run(
          [&](const at::Tensor& t) {
            Tensors counts = {count};
            ParallelGroup::get()->allreduce(counts)->wait();
            return t.sin();
          },
          x * 2);
      EXPECT_TRUE(bitwise_equal(count, at::full({3}, 2.0)));
      expect_same_bits(torch::autograd::grad({y.sum()}, {x}), {(x * 2).cos().detach() * 2});
      EXPECT_TRUE(bitwise_equal(count, at::full({3}, 2.0)));
    }
  });
}

// Each rank sends to one and receives from the other. A tape, which cannot tell whether the other
// end needs it, keeps what came.
TEST(ParallelRanksTest, SendsFromOneRankToAnother) {
  on_ranks(2, [](Rank& rank) {
    const ParallelGroup group(rank);
    const at::Tensor x = at::randn({4, 8}).requires_grad_() + rank.index;
    const auto code = [&](const at::Tensor& t) {
      Tensors sent = {t.sin().detach()};
      Tensors received = {at::empty({4, 8})};
      const auto sending = ParallelGroup::get()->send(sent, 1 - rank.index, 7);
      ParallelGroup::get()->recv(received, 1 - rank.index, 7)->wait();
      sending->wait();
      return received[0] * t.exp();
    };
    const Tensors expected = torch::autograd::grad({code(x * 2).sum()}, {x});
    for (const RegionForm& form : region_forms()) {
      SCOPED_TRACE(form.name);
      const at::Tensor y = form.run(code, x * 2);
      const OpRecorder recorder;
      expect_same_bits(torch::autograd::grad({y.sum()}, {x}), expected);
      const bool is_tape = form.is_scope || form.options.replay == ReplayMode::kTape;
      EXPECT_EQ(recorder.count("c10d::send"), is_tape ? 0U : 1U);
      EXPECT_EQ(recorder.count("c10d::recv_"), is_tape ? 0U : 1U);
    }
  });
}

// LibTorch has renamed it.
template <class Group>
auto gather_into(Group& group, at::Tensor& whole, at::Tensor& part) {
  if constexpr (requires { group.all_gather_single(whole, part); }) {
    return group.all_gather_single(whole, part);
  } else {
    return group._allgather_base(whole, part);
  }
}

// Sequence parallelism: gather in front, reduce-scatter behind.
TEST(ParallelRanksTest, GatherAndScatterWithWhatIsAllocatedForThem) {
  on_ranks(2, [](Rank& rank) {
    const ParallelGroup group(rank);
    const at::Tensor x = at::randn({4, 8}).requires_grad_();
    const auto gathered = [&](const at::Tensor& t, bool as_list) {
      const torch::NoGradGuard no_grad;
      if (as_list) {
        std::vector<Tensors> parts = {{at::empty({4, 8}), at::empty({4, 8})}};
        Tensors part = {t.contiguous()};
        ParallelGroup::get()->allgather(parts, part)->wait();
        return at::cat(parts[0]);
      }
      at::Tensor whole = at::empty({8, 8});
      at::Tensor part = t.contiguous();
      gather_into(*ParallelGroup::get(), whole, part)->wait();
      return whole;
    };
    for (const bool as_list : {false, true}) {
      const auto code = [&](const at::Tensor& t) {
        const at::Tensor whole = gathered(t.sin(), as_list);
        return (whole.exp() * t.repeat({2, 1})).cos();
      };
      const Tensors expected = torch::autograd::grad({code(x * 2).sum()}, {x});
      for (const RegionForm& form : region_forms()) {
        SCOPED_TRACE(c10::str(form.name, as_list ? ", list" : ""));
        expect_same_bits(torch::autograd::grad({form.run(code, x * 2).sum()}, {x}), expected);
      }
    }
  });
}

// Weights that are gathered into one slot. Gloo counts this write, on a thread of its own, before
// the next gather or after; a tensor saved in between means what was there then.
TEST(ParallelRanksTest, GatherIntoOneSlotAgainAndAgain) {
  on_ranks(2, [](Rank& rank) {
    const ParallelGroup group(rank);
    std::vector<at::Tensor> parts;
    for (int i = 0; i < 3; ++i) {
      parts.push_back(at::full({4, 8}, i + 2.0));
    }
    const at::Tensor x = at::ones({8, 8}).requires_grad_();
    at::Tensor slot = at::empty({8, 8});
    const auto product = [&](at::Tensor t) {
      for (at::Tensor& part : parts) {
        gather_into(*ParallelGroup::get(), slot, part)->wait();
        t = t.sin() * slot;
      }
      return t;
    };
    const auto expected = [&] {
      at::Tensor t = x * 2;
      for (const at::Tensor& part : parts) {
        t = t.sin() * part[0][0];
      }
      return torch::autograd::grad({t.sum()}, {x});
    }();
    for (const RegionForm& form : region_forms()) {
      SCOPED_TRACE(form.name);
      for (int time = 0; time < 10; ++time) {
        const at::Tensor y = form.run(product, x * 2);
        expect_same_bits(torch::autograd::grad({y.sum()}, {x}), expected);
      }
    }
  });
}

TEST(ParallelRanksTest, RefusesToKeepInPlaceSumsInFunctionRegions) {
  on_ranks(2, [](Rank& rank) {
    const ParallelGroup group(rank);
    const auto code = [](const at::Tensor& t) {
      return all_reduce(t.sin(), Style::kInPlace).exp();
    };
    const PolicyHolder policy = policies::save_operators({"c10d::allreduce_"});
    try {
      checkpoint({.policy = policy}, code, at::randn({4, 8}).requires_grad_());
      FAIL() << "no error";
    } catch (const CheckpointError& error) {
      EXPECT_THAT(error.what(), HasSubstr("c10d::allreduce_"));
      EXPECT_THAT(error.what(), HasSubstr("_c10d_functional"));
    }
  });
}

struct Block {
  Block(int ranks, Style collectives)
      : style(collectives),
        query(weight(ranks)),
        key(weight(ranks)),
        value(weight(ranks)),
        output(weight(ranks).t().contiguous().detach().requires_grad_()),
        up(weight(ranks)),
        down(weight(ranks).t().contiguous().detach().requires_grad_()) {}

  static at::Tensor weight(int ranks) {
    return (at::randn({12, 12 / ranks}) * 0.3).requires_grad_();
  }
  Tensors weights() const { return {query, key, value, output, up, down}; }

  // Other numbers on each rank inside the fork, the same behind it.
  static at::Tensor drop_part(const at::Tensor& t) {
    const auto fork = default_rng_state_tracker().fork();
    return at::dropout(t, 0.2, true);
  }

  at::Tensor operator()(const at::Tensor& h) const {
    const at::Tensor x = copy_to_ranks(at::layer_norm(h, {12}), style);
    const at::Tensor scores = x.matmul(query).matmul(x.matmul(key).t()).softmax(-1);
    const at::Tensor attended = drop_part(scores).matmul(x.matmul(value)).matmul(output);
    const at::Tensor middle = h + at::dropout(reduce_from_ranks(attended, style), 0.2, true);
    const at::Tensor y = copy_to_ranks(at::layer_norm(middle, {12}), style);
    const at::Tensor hidden = drop_part(at::gelu(y.matmul(up))).matmul(down);
    return middle + at::dropout(reduce_from_ranks(hidden, style), 0.2, true);
  }

  Style style;
  at::Tensor query, key, value, output, up, down;
};

Tensors gradients_of(const std::vector<Block>& blocks, const RegionForm* form) {
  default_rng_state_tracker().reset();
  model_parallel_manual_seed(3, ParallelGroup::get()->getRank());
  const at::Tensor x = at::randn({5, 12}).requires_grad_();
  at::Tensor h = x * 1;
  Tensors leaves = {x};
  for (const Block& block : blocks) {
    h = form == nullptr ? block(h) : form->run(block, h);
    const Tensors weights = block.weights();
    leaves.insert(leaves.end(), weights.begin(), weights.end());
  }
  Tensors gradients = torch::autograd::grad({h.square().sum()}, leaves);
  gradients.push_back(at::rand({4}));  // the generators stand where they would
  return gradients;
}

std::vector<RegionForm> forms_for_blocks(const Rank& rank) {
  std::vector<RegionForm> all = region_forms();
  const auto add = [&all](std::vector<RegionForm> more) {
    std::move(more.begin(), more.end(), std::back_inserter(all));
  };
  add(forms_under(policies::save_matmuls()));
  add(forms_under(policies::save_operators({"_c10d_functional::all_reduce"})));
  add(forms_under(policies::save_everything()));
  add(region_forms({.input_store = stores::partitioned(rank.group, {.min_bytes = 0})}));
  return all;
}

void expect_same_gradients(Rank& rank) {
  const ParallelGroup group(rank);
  for (const Style style : kStyles) {
    torch::manual_seed(20 + rank.index);
    const std::vector<Block> blocks = {{rank.size, style}, {rank.size, style}};
    const Tensors expected = gradients_of(blocks, nullptr);
    for (const RegionForm& form : forms_for_blocks(rank)) {
      SCOPED_TRACE(c10::str(form.name, ", style ", static_cast<int>(style)));
      expect_same_bits(gradients_of(blocks, &form), expected);
    }
  }
}

TEST(ParallelRanksTest, RunsBlocksWithDropoutInForksAndOutside) {
  on_ranks(2, expect_same_gradients);
}

TEST(ParallelRanksTest, RunsBlocksOfAGptOnThreeRanks) { on_ranks(3, expect_same_gradients); }

}  // namespace
}  // namespace reprise::parallel_ranks_test
