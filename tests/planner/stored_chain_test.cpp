// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Long chains whose plans may put checkpoints into a store: beside the least time that two levels
// of checkpoints reach, by a recursion.
//
// As in Note [Revolve and the simulator] in uniform_chain.h, a budget of c + 1 beside the input
// allows for c - 1 snapshots in memory. An input that comes back from the store is one of them
// until the stretch behind it is reversed; a stretch of a single operator reads it at once, and
// needs none.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "reprise/planner/plan.h"
#include "reprise/planner/planner.h"
#include "reprise/planner/simulator.h"
#include "reprise/planner/trace.h"
#include "tests/planner/uniform_chain.h"

namespace reprise::testing::stored_chain_test {
namespace {

using planner::Choice;
using planner::Plan;
using planner::Simulation;
using planner::Simulator;
using planner::Solution;
using planner::StoreOption;
using planner::Trace;

constexpr double kInfinite = std::numeric_limits<double>::infinity();

// The computation waits for its copies.
StoreOption store_of(double seconds_per_value) {
  StoreOption store;
  store.name = "disk";
  store.latency_seconds = seconds_per_value / 2;
  return store;
}

// Seconds of recomputation and of copies beside a step that recomputes nothing. Forward may keep
// inputs in memory and in the store in any order.
class Optimum {
 public:
  explicit Optimum(double copy_seconds) : copy_seconds_(copy_seconds) {}

  double operator()(int n, int c) { return forward(n, c - 1, false); }

 private:
  // Of `n` operators whose input is there, with room for `snapshots` more.
  double again(int n, int snapshots) {
    if (n == 1) {
      return 0;
    }
    if (snapshots < 0) {
      return kInfinite;
    }
    const auto [found, is_new] = again_.try_emplace({n, snapshots, false}, n * (n - 1) / 2);
    if (is_new && snapshots > 0) {
      double best = kInfinite;
      for (int i = 1; i < n; ++i) {
        best = std::min(best, i + again(n - i, snapshots - 1) + again(i, snapshots));
      }
      again_[{n, snapshots, false}] = best;
    }
    return again_[{n, snapshots, false}];
  }

  // Forward itself is the first sweep. is_stored: the input is in the store.
  double forward(int n, int snapshots, bool is_stored) {
    const auto [found, is_new] = forward_.try_emplace({n, snapshots, is_stored}, kInfinite);
    if (!is_new) {
      return found->second;
    }
    const int left = is_stored ? snapshots - 1 : snapshots;
    double best = again(n, left);
    for (int i = 1; i < n; ++i) {
      const double in_front = again(i, left);
      if (snapshots > 0 || i == n - 1) {
        best = std::min(best, in_front + forward(n - i, snapshots - 1, false));
      }
      best = std::min(best, in_front + copy_seconds_ + forward(n - i, snapshots, true));
    }
    return forward_[{n, snapshots, is_stored}] = best;
  }

  struct Key {
    int n;
    int snapshots;
    bool is_stored;
    auto operator<=>(const Key&) const = default;
  };
  const double copy_seconds_;
  std::map<Key, double> again_;
  std::map<Key, double> forward_;
};

// The same where all that forward puts into the store comes before what it keeps in memory, which
// costs no more; between them, revolve's closed form. Time: with the square of `n`.
double optimum_of_long_chain(int n, int c, double copy_seconds) {
  std::vector<double> again(n + 1);     // with c - 1 snapshots, the input among them
  std::vector<double> in_front(n + 1);  // with one more
  std::vector<double> in_memory(n + 1);
  for (int size = 1; size <= n; ++size) {
    again[size] = static_cast<double>(revolve_steps(size, c - 1));
    in_front[size] = static_cast<double>(revolve_steps(size, c));
    in_memory[size] = again[size] - (size - 1);
  }
  std::vector<double> stored(again);  // by size, with the input in the store
  double best = in_front[n] - (n - 1);
  for (int size = 2; size <= n; ++size) {
    double least = stored[size];
    for (int i = 1; i < size; ++i) {
      const double behind = std::min(in_memory[size - i], copy_seconds + stored[size - i]);
      least = std::min(least, again[i] + behind);
    }
    stored[size] = least;
  }
  for (int i = 1; i < n; ++i) {
    best = std::min(best, in_front[i] + copy_seconds + stored[n - i]);
  }
  return best;
}

double extra_seconds(const Simulation& simulation) {
  return simulation.recompute_seconds + simulation.store_seconds;
}

std::optional<Solution> planned(const Trace& trace, std::int64_t bytes,
                                const std::vector<StoreOption>& stores, int max_simulations = 100) {
  planner::Planner planner(trace, {.stores = stores, .max_simulations = max_simulations});
  return planner.plan(kInputBytes + bytes);
}

// Of all plans with choices of these kinds.
double exhaustive_optimum(const Trace& trace, std::int64_t peak_bytes, const StoreOption& store) {
  constexpr Choice kKinds[] = {{.retained_from = 0},
                               {.retained_from = 1},
                               {.retained_from = 2},
                               {.retained_from = Choice::kNever},
                               {.retained_from = 0, .store = 0}};
  const Simulator simulator(trace, {store});
  // The input is there, and backward does not read the last result.
  const int values = static_cast<int>(trace.values.size()) - 2;
  std::int64_t plans = 1;
  for (int i = 0; i < values; ++i) {
    plans *= static_cast<std::int64_t>(std::size(kKinds));
  }
  double best = kInfinite;
  for (std::int64_t number = 0; number < plans; ++number) {
    Plan plan(trace);
    std::int64_t rest = number;
    for (int i = 0; i < values; ++i, rest /= static_cast<std::int64_t>(std::size(kKinds))) {
      plan.choices[i + 1] = kKinds[rest % static_cast<std::int64_t>(std::size(kKinds))];
    }
    const Simulation result = simulator.run(plan);
    if (result.is_valid && result.peak_bytes <= peak_bytes) {
      best = std::min(best, extra_seconds(result));
    }
  }
  return best;
}

TEST(StoredChainTest, NoPlanIsBetterThanTheRecursion) {
  for (const double seconds : {0.5, 1.5, 4.0}) {
    Optimum optimum(seconds);
    for (int n = 2; n <= 6; ++n) {
      const Trace trace = uniform_chain(n, 1);
      for (int c = 1; c <= n; ++c) {
        EXPECT_EQ(exhaustive_optimum(trace, kInputBytes + c + 1, store_of(seconds)), optimum(n, c))
            << n << " operators, " << c << " snapshots, " << seconds << " s";
      }
    }
  }
}

TEST(StoredChainTest, TheOptimumKeepsInMemoryWhatComesLast) {
  for (const double seconds : {0.5, 3.0, 20.0, 200.0}) {
    Optimum optimum(seconds);
    for (const int n : {5, 12, 40, 75}) {
      for (const int c : {2, 3, 5}) {
        EXPECT_EQ(optimum_of_long_chain(n, c, seconds), optimum(n, c))
            << n << " operators, " << c << " snapshots, " << seconds << " s";
      }
    }
  }
}

// A copy is worth the recomputation of so many operators.
TEST(StoredChainTest, LongChainsAreWithinTwoPercentOfTheOptimum) {
  for (const int n : {200, 1'000, 3'000, 10'000}) {
    const Trace trace = uniform_chain(n, 1);
    for (const int c : {3, 5, 20}) {
      const std::optional<Solution> in_memory = planned(trace, c + 1, {});
      ASSERT_TRUE(in_memory);
      for (const double seconds :
           n < 10'000 ? std::vector{2.0, 50.0, 1'000.0} : std::vector{50.0}) {
        SCOPED_TRACE(std::to_string(n) + " operators, " + std::to_string(c) + " snapshots, " +
                     std::to_string(seconds) + " s");
        const std::optional<Solution> found = planned(trace, c + 1, {store_of(seconds)});
        ASSERT_TRUE(found);
        const double least = optimum_of_long_chain(n, c, seconds);
        EXPECT_GE(extra_seconds(found->simulation), least * (1 - 1e-9));
        EXPECT_LE(extra_seconds(found->simulation), 1.02 * least);
        EXPECT_LE(found->simulation.seconds, in_memory->simulation.seconds);
      }
    }
  }
}

TEST(StoredChainTest, AFastStoreLeavesLittleToRecompute) {
  for (const int n : {200, 10'000}) {
    const std::optional<Solution> found = planned(uniform_chain(n, 1), 4, {store_of(1e-9)});
    ASSERT_TRUE(found);
    EXPECT_LE(found->simulation.recompute_seconds, n);
  }
}

TEST(StoredChainTest, AStoreThatCostsMoreThanItSavesIsNotUsed) {
  constexpr int kOperators = 1'000;
  const Trace trace = uniform_chain(kOperators, 1);
  const std::optional<Solution> in_memory = planned(trace, 21, {});
  const std::optional<Solution> found = planned(trace, 21, {store_of(1e6)});
  ASSERT_TRUE(in_memory && found);
  EXPECT_EQ(found->simulation.store_seconds, 0);
  EXPECT_EQ(found->simulation.seconds, in_memory->simulation.seconds);
}

// Less room in the store: a longer step, up to that without it.
TEST(StoredChainTest, AStoreIsNotFilledBeyondItsCapacity) {
  const Trace trace = uniform_chain(2'000, 1);
  StoreOption store = store_of(2.0);
  double before = 0;
  for (const std::int64_t capacity : {2'000, 100, 30, 5}) {
    SCOPED_TRACE(std::to_string(capacity) + " bytes in the store");
    store.capacity_bytes = capacity;
    const std::optional<Solution> found = planned(trace, 6, {store});
    ASSERT_TRUE(found);
    EXPECT_LE(found->simulation.stored_bytes[0], capacity);
    EXPECT_GE(found->simulation.stored_bytes[0], std::min<std::int64_t>(capacity / 2, 100));
    EXPECT_GE(found->simulation.seconds, before);
    before = found->simulation.seconds;
  }
  EXPECT_LT(before, planned(trace, 6, {})->simulation.seconds);
}

// Copies beside the computation: as long as the operators of a stretch hide them, they are free.
TEST(StoredChainTest, OverlappedCopiesHideBehindStretches) {
  constexpr int kOperators = 3'000;
  const Trace trace = uniform_chain(kOperators, 1);
  StoreOption store = store_of(40);
  const double in_turn = planned(trace, 7, {store})->simulation.seconds;
  store.is_overlapped = true;
  const std::optional<Solution> beside = planned(trace, 7, {store});
  ASSERT_TRUE(beside);
  EXPECT_GT(beside->simulation.stored_bytes[0], kOperators / 100);
  EXPECT_LT(beside->simulation.seconds, in_turn);
  EXPECT_LE(beside->simulation.store_seconds, 0.01 * beside->simulation.seconds);
}

TEST(StoredChainTest, OfTwoStoresTheFasterOneIsUsed) {
  const Trace trace = uniform_chain(1'000, 1);
  const std::optional<Solution> both = planned(trace, 6, {store_of(100), store_of(10)});
  const std::optional<Solution> one = planned(trace, 6, {store_of(10)});
  ASSERT_TRUE(both && one);
  EXPECT_EQ(both->simulation.stored_bytes[0], 0);
  EXPECT_EQ(both->simulation.seconds, one->simulation.seconds);
}

}  // namespace
}  // namespace reprise::testing::stored_chain_test
