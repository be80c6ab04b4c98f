// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Chains of more than a hundred unequal operators beside the least recomputation that nested
// checkpoints reach, by a recursion over all stretches; without a store, and with one for what
// forward keeps. REPRISE_CHAIN_OPERATORS sets how many; the recursion takes time with their cube.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "reprise/planner/chain/stretches.h"
#include "reprise/planner/planner.h"
#include "reprise/planner/trace.h"
#include "tests/testing/number_from.h"

namespace reprise::testing::unequal_chain_test {
namespace {

using planner_internal::Stretch;
using planner_internal::Stretches;

constexpr float kInfinite = std::numeric_limits<float>::infinity();
constexpr int kMostBytes = 8;

int operators() { return static_cast<int>(number_from("REPRISE_CHAIN_OPERATORS", 180)); }

// Backward of an operator reads its input, with a workspace.
struct UnequalChain {
  UnequalChain(std::uint64_t seed, int size) {
    std::mt19937_64 random(seed);
    const auto between = [&](int least, int most) {
      return least + static_cast<int>(random() % static_cast<std::uint64_t>(most - least + 1));
    };
    for (int op = 0; op <= size; ++op) {
      bytes.push_back(between(1, kMostBytes));
    }
    for (int op = 0; op < size; ++op) {
      seconds.push_back(between(1, 10));
      workspace.push_back(between(1, kMostBytes));
    }
    is_evicted.resize(size + 1);
  }

  int size() const { return static_cast<int>(seconds.size()); }

  planner::Trace trace() const {
    planner::Trace trace;
    std::vector<planner::ValueId> values{trace.add_value({.bytes = bytes[0]})};
    for (int op = 0; op < size(); ++op) {
      values.push_back(trace.add_value({.bytes = bytes[op + 1],
                                        .released = std::min(op + 1, size() - 1),
                                        .is_evicted = is_evicted[op + 1]}));
      trace.operators.push_back({.name = "forward",
                                 .seconds = static_cast<double>(seconds[op]),
                                 .reads = {values[op]},
                                 .results = {values[op + 1]}});
    }
    trace.backward_begin = size();
    for (int op = size() - 1; op >= 0; --op) {
      trace.operators.push_back({.name = "backward",
                                 .seconds = 1,
                                 .workspace_bytes = workspace[op],
                                 .reads = {values[op]}});
    }
    return trace;
  }

  std::vector<int> bytes;      // by value: the input, and an operator's result
  std::vector<int> seconds;    // by operator
  std::vector<int> workspace;  // by operator of backward
  std::vector<bool> is_evicted;
};

// Seconds of recomputation by stretch and bytes beside the chain's input, and of copies to a store
// and back, infinite if there is none.
class Optimum {
 public:
  Optimum(const UnequalChain& chain, int most_bytes, float copy_seconds_per_byte)
      : chain_(chain),
        size_(chain.size()),
        most_bytes_(most_bytes),
        copy_seconds_per_byte_(copy_seconds_per_byte),
        again_(static_cast<std::size_t>(size_) * size_ * (most_bytes + 1), kInfinite),
        in_forward_(static_cast<std::size_t>(size_) * (most_bytes + 1), kInfinite),
        with_stored_input_(in_forward_) {
    for (int s = size_ - 1; s >= 0; --s) {
      for (int t = s; t < size_; ++t) {
        solve_again(s, t);
      }
      solve_in_forward(s, false);
      solve_in_forward(s, true);
    }
  }

  double operator()(int bytes) const { return in_forward_[bytes]; }

 private:
  float* again(int s, int t) {
    return again_.data() + (static_cast<std::size_t>(s) * size_ + t) * (most_bytes_ + 1);
  }
  float* in_forward(int s, bool is_input_stored) {
    return (is_input_stored ? with_stored_input_ : in_forward_).data() +
           static_cast<std::size_t>(s) * (most_bytes_ + 1);
  }

  // The best of what is in front of a place and behind it; `taken` bytes by the place, by what is
  // in front of it.
  void combine(float* best, int need, float seconds, const float* behind, int taken_behind,
               const float* in_front, int taken_in_front) const {
    for (int bytes = std::max({need, taken_behind, taken_in_front}); bytes <= most_bytes_;
         ++bytes) {
      best[bytes] = std::min(
          best[bytes], seconds + behind[bytes - taken_behind] + in_front[bytes - taken_in_front]);
    }
  }

  void solve_again(int s, int t) {
    float* const best = again(s, t);
    if (s == t) {
      const int need = chain_.workspace[s];
      std::fill(best + std::min(need, most_bytes_ + 1), best + most_bytes_ + 1, 0.0F);
      return;
    }
    int need = chain_.bytes[s + 1];
    float seconds = 0;
    for (int c = s + 1; c <= t; ++c) {
      need = std::max(need, (c - 1 > s ? chain_.bytes[c - 1] : 0) + chain_.bytes[c]);
      seconds += static_cast<float>(chain_.seconds[c - 1]);
      combine(best, need, seconds, again(c, t), chain_.bytes[c], again(s, c - 1), 0);
    }
  }

  // A stored input takes its bytes while forward and backward are at its stretch.
  void solve_in_forward(int s, bool is_input_stored) {
    const int last = size_ - 1;
    const int own = is_input_stored ? chain_.bytes[s] : 0;
    float* const best = in_forward(s, is_input_stored);
    int need = own + chain_.bytes[s + 1];
    if (s == last) {
      need = std::max(need, own + chain_.workspace[s]);
      std::fill(best + std::min(need, most_bytes_ + 1), best + most_bytes_ + 1, 0.0F);
      return;
    }
    for (int c = s + 1; c <= last; ++c) {
      need = std::max(need, (c - 1 > s ? chain_.bytes[c - 1] : own) + chain_.bytes[c]);
      if (chain_.is_evicted[c]) {
        continue;
      }
      combine(best, need, 0, in_forward(c, false), chain_.bytes[c], again(s, c - 1), own);
      const float copies = copy_seconds_per_byte_ * static_cast<float>(chain_.bytes[c]);
      combine(best, need, copies, in_forward(c, true), 0, again(s, c - 1), own);
    }
    need = std::max(need, chain_.bytes[last] + chain_.bytes[last + 1]);
    const std::vector<float> nothing(most_bytes_ + 1);
    combine(best, need, 0, again(s, last), own, nothing.data(), 0);
  }

  const UnequalChain& chain_;
  const int size_;
  const int most_bytes_;
  const float copy_seconds_per_byte_;
  std::vector<float> again_;
  std::vector<float> in_forward_;
  std::vector<float> with_stored_input_;
};

// copy_seconds_per_byte: to a store and back.
void expect_near_optimum(const UnequalChain& chain, int max_simulations, double most_ratio,
                         float copy_seconds_per_byte = kInfinite) {
  const planner::Trace trace = chain.trace();
  std::vector<planner::StoreOption> stores;
  if (copy_seconds_per_byte < kInfinite) {
    stores.emplace_back().put_seconds_per_byte = copy_seconds_per_byte;
  }
  const Optimum optimum(chain, 70, copy_seconds_per_byte);
  for (const int bytes : {25, 40, 70}) {
    planner::Planner planner(trace, {.stores = stores, .max_simulations = max_simulations});
    const auto found = planner.plan(chain.bytes[0] + bytes);
    ASSERT_TRUE(found) << bytes << " bytes";
    const double seconds = found->simulation.recompute_seconds + found->simulation.store_seconds;
    EXPECT_GE(seconds, optimum(bytes) * (1 - 1e-5)) << bytes << " bytes";
    EXPECT_LE(seconds, most_ratio * optimum(bytes)) << bytes << " bytes";
  }
}

TEST(UnequalChainTest, LongChainsAreWithinOnePercentOfTheOptimum) {
  for (const std::uint64_t seed : {1, 2}) {
    expect_near_optimum(UnequalChain(seed, operators()), 2000, 1.01);
  }
}

TEST(UnequalChainTest, LongChainsWithAStoreAreWithinTwoPercentOfTheOptimum) {
  for (const float seconds : {1.0F, 10.0F, 50.0F}) {
    SCOPED_TRACE(std::to_string(seconds) + " s per byte");
    expect_near_optimum(UnequalChain(1, operators()), 2000, 1.02, seconds);
  }
}

TEST(UnequalChainTest, QuickSearchesAreWithinTwoPercentOfTheOptimum) {
  for (const std::uint64_t seed : {1, 2}) {
    expect_near_optimum(UnequalChain(seed, operators()), 100, 1.02);
  }
}

// Forward has evicted all but a few results, and plans begin with these.
TEST(UnequalChainTest, EvictedResultsAreMadeAgainFirst) {
  for (const int left : {5, 50, 1000}) {
    UnequalChain chain(3, operators());
    for (int op = 0; op + 1 < chain.size(); ++op) {
      chain.is_evicted[op + 1] = (op + 1) % left != 0;
    }
    expect_near_optimum(chain, 100, 1.03);
  }
}

TEST(StretchesTest, FewStagesHaveAllStretches) {
  const Stretches stretches(std::vector<std::int64_t>(9, 1), 9);
  EXPECT_EQ(stretches.rows(), 9 * 10 / 2 + 9);
  std::vector<bool> is_visited(stretches.rows());
  stretches.for_each([&](const Stretch& stretch) {
    const std::int32_t row = stretches.row(stretch);
    ASSERT_NE(row, Stretches::kNoRow);
    EXPECT_FALSE(is_visited[row]);
    is_visited[row] = true;
    for (std::int32_t c = stretch.s + 1; c <= stretch.t; ++c) {
      EXPECT_TRUE(is_visited[stretches.row({stretch.s, c - 1})]);
      EXPECT_TRUE(is_visited[stretches.row({c, stretch.t, stretch.is_in_forward})]);
    }
  });
  EXPECT_EQ(std::count(is_visited.begin(), is_visited.end(), true), stretches.rows());
}

// Each stretch can be divided, and the number of stretches grows as that of the stages.
TEST(StretchesTest, ManyStagesHaveStretchesAtSeveralScales) {
  constexpr int kStages = 1000;
  constexpr int kReach = 16;
  std::vector<std::int64_t> bytes;
  for (int stage = 0; stage < kStages; ++stage) {
    bytes.push_back(1 + stage * 7 % 5);
  }
  const Stretches stretches(bytes, kReach);
  EXPECT_LE(stretches.rows(), 2 * kReach * kStages);
  EXPECT_NE(stretches.row({0, kStages - 1}), Stretches::kNoRow);
  stretches.for_each([&](const Stretch& stretch) {
    bool can_be_divided = stretch.s == stretch.t;
    for (std::int32_t c = stretch.s + 1; c <= stretch.t && !can_be_divided; ++c) {
      can_be_divided = stretches.row({stretch.s, c - 1}) != Stretches::kNoRow &&
                       stretches.row({c, stretch.t, stretch.is_in_forward}) != Stretches::kNoRow;
    }
    EXPECT_TRUE(can_be_divided) << stretch.s << " to " << stretch.t;
  });
}

}  // namespace
}  // namespace reprise::testing::unequal_chain_test
