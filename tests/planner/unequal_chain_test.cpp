// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Chains of more than a hundred unequal operators beside the least recomputation that nested
// checkpoints reach, by a recursion over all stretches. REPRISE_CHAIN_OPERATORS sets how many; the
// recursion takes time with their cube.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
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

// Seconds of recomputation by stretch and bytes beside the chain's input.
class Optimum {
 public:
  Optimum(const UnequalChain& chain, int most_bytes)
      : chain_(chain),
        size_(chain.size()),
        most_bytes_(most_bytes),
        again_(static_cast<std::size_t>(size_) * size_ * (most_bytes + 1), kInfinite),
        in_forward_(static_cast<std::size_t>(size_) * (most_bytes + 1), kInfinite) {
    for (int s = size_ - 1; s >= 0; --s) {
      for (int t = s; t < size_; ++t) {
        solve(s, t, false);
      }
      solve(s, size_ - 1, true);
    }
  }

  double operator()(int bytes) const { return in_forward_[bytes]; }

 private:
  float* row(int s, int t, bool is_in_forward) {
    const std::size_t row = is_in_forward ? s : static_cast<std::size_t>(s) * size_ + t;
    return (is_in_forward ? in_forward_ : again_).data() + row * (most_bytes_ + 1);
  }

  void solve(int s, int t, bool is_in_forward) {
    float* const best = row(s, t, is_in_forward);
    if (s == t) {
      const int need = std::max(chain_.workspace[s], is_in_forward ? chain_.bytes[s + 1] : 0);
      std::fill(best + std::min(need, most_bytes_ + 1), best + most_bytes_ + 1, 0.0F);
      return;
    }
    int need = chain_.bytes[s + 1];
    float seconds = 0;
    for (int c = s + 1; c <= t; ++c) {
      need = std::max(need, (c - 1 > s ? chain_.bytes[c - 1] : 0) + chain_.bytes[c]);
      seconds += is_in_forward ? 0.0F : static_cast<float>(chain_.seconds[c - 1]);
      if (is_in_forward && chain_.is_evicted[c]) {
        continue;
      }
      const float* const right = row(c, t, is_in_forward);
      const float* const left = row(s, c - 1, false);
      for (int bytes = need; bytes <= most_bytes_; ++bytes) {
        best[bytes] = std::min(best[bytes], seconds + right[bytes - chain_.bytes[c]] + left[bytes]);
      }
    }
    if (is_in_forward) {
      const float* const again = row(s, t, false);
      need = std::max(need, chain_.bytes[t] + chain_.bytes[t + 1]);
      for (int bytes = need; bytes <= most_bytes_; ++bytes) {
        best[bytes] = std::min(best[bytes], again[bytes]);
      }
    }
  }

  const UnequalChain& chain_;
  const int size_;
  const int most_bytes_;
  std::vector<float> again_;
  std::vector<float> in_forward_;
};

void expect_near_optimum(const UnequalChain& chain, int max_simulations, double most_ratio) {
  const planner::Trace trace = chain.trace();
  const Optimum optimum(chain, 70);
  for (const int bytes : {25, 40, 70}) {
    planner::Planner planner(trace, {.stores = {}, .max_simulations = max_simulations});
    const auto found = planner.plan(chain.bytes[0] + bytes);
    ASSERT_TRUE(found) << bytes << " bytes";
    EXPECT_GE(found->simulation.recompute_seconds, optimum(bytes)) << bytes << " bytes";
    EXPECT_LE(found->simulation.recompute_seconds, most_ratio * optimum(bytes))
        << bytes << " bytes";
  }
}

TEST(UnequalChainTest, LongChainsAreWithinOnePercentOfTheOptimum) {
  for (const std::uint64_t seed : {1, 2}) {
    expect_near_optimum(UnequalChain(seed, operators()), 2000, 1.01);
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
