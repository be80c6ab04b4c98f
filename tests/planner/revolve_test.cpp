// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Chains of equal operators: Note [Revolve and the simulator] in uniform_chain.h.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "reprise/planner/chain/chain_planner.h"
#include "reprise/planner/plan.h"
#include "reprise/planner/planner.h"
#include "reprise/planner/schedule/execution.h"
#include "reprise/planner/simulator.h"
#include "reprise/planner/trace.h"
#include "tests/planner/uniform_chain.h"

namespace reprise::testing::revolve_test {
namespace {

using planner::Choice;
using planner::Plan;
using planner::Simulation;
using planner::Simulator;
using planner::Trace;
using planner::ValueId;

constexpr double kInfinite = std::numeric_limits<double>::infinity();
// Infinity if none of the plans fits.
double best_recompute_seconds(const Trace& trace, std::int64_t peak_bytes) {
  const Simulator simulator(trace);
  const planner_internal::TraceFacts facts(trace);
  double best = kInfinite;
  for (const Plan& plan : planner_internal::ChainPlanner(simulator, facts).plans(peak_bytes)) {
    const Simulation result = simulator.run(plan);
    EXPECT_TRUE(result.is_valid);
    if (result.is_valid && result.peak_bytes <= peak_bytes) {
      best = std::min(best, result.recompute_seconds);
    }
  }
  return best;
}

// The recomputation of `n` operators whose input is there, with `bytes` beside it; is_in_forward:
// forward itself is the first sweep.
class OptimumWithoutWorkspace {
 public:
  double operator()(int n, int bytes, bool is_in_forward) {
    if (bytes < 0) {
      return kInfinite;
    }
    if (n == 1) {
      return is_in_forward && bytes < 1 ? kInfinite : 0;
    }
    const auto [found, is_new] = known_.try_emplace({n, bytes, is_in_forward}, kInfinite);
    if (!is_new) {
      return found->second;
    }
    double best = kInfinite;
    for (int i = 1; i < n; ++i) {
      if (bytes >= std::min(i, 2)) {
        best = std::min(best, (is_in_forward ? 0 : i) + (*this)(n - i, bytes - 1, is_in_forward) +
                                  (*this)(i, bytes, false));
      }
    }
    return known_[{n, bytes, is_in_forward}] = best;
  }

 private:
  struct Key {
    int n;
    int bytes;
    bool is_in_forward;
    auto operator<=>(const Key&) const = default;
  };
  std::map<Key, double> known_;
};

// Of all plans with choices of these kinds.
double exhaustive_optimum(const Trace& trace, std::int64_t peak_bytes) {
  constexpr std::uint8_t kKinds[] = {0, 1, 2, 3, Choice::kNever};
  const Simulator simulator(trace);
  // The input is there, and backward does not read the last result.
  const int values = static_cast<int>(trace.values.size()) - 2;
  std::int64_t plans = 1;
  for (int i = 0; i < values; ++i) {
    plans *= std::size(kKinds);
  }
  double best = kInfinite;
  for (std::int64_t number = 0; number < plans; ++number) {
    Plan plan(trace);
    std::int64_t rest = number;
    for (int i = 0; i < values; ++i, rest /= std::size(kKinds)) {
      plan.choices[i + 1].retained_from = kKinds[rest % std::size(kKinds)];
    }
    const Simulation result = simulator.run(plan);
    if (result.is_valid && result.peak_bytes <= peak_bytes) {
      best = std::min(best, result.recompute_seconds);
    }
  }
  return best;
}

TEST(RevolveTest, ClosedFormIsThatOfThePaper) {
  EXPECT_EQ(revolve_steps(10, 1), 45);
  EXPECT_EQ(revolve_steps(10, 3), 15);
  EXPECT_EQ(revolve_steps(100, 5), 316);
}

TEST(RevolveTest, UniformChainsReachTheClosedForm) {
  for (const int n : {2, 3, 5, 8, 13, 20, 27, 30}) {
    const Trace trace = uniform_chain(n, 1);
    for (int c = 1; c <= n; ++c) {
      const std::int64_t expected = revolve_recomputation(n, c);
      EXPECT_EQ(best_recompute_seconds(trace, kInputBytes + c + 1), static_cast<double>(expected))
          << n << " operators, " << c << " snapshots";
    }
  }
}

void expect_within_two_percent(const Trace& trace, int n, int c) {
  planner::Planner planner(trace, {.stores = {}, .max_simulations = 100});
  const auto found = planner.plan(kInputBytes + c + 1);
  const auto least = static_cast<double>(revolve_recomputation(n, c));
  ASSERT_TRUE(found) << n << " operators, " << c << " snapshots";
  EXPECT_LE(found->simulation.recompute_seconds, 1.02 * least)
      << n << " operators, " << c << " snapshots";
  EXPECT_GE(found->simulation.recompute_seconds, least);
}

// Too many operators for the dynamic programme: binomial checkpoints.
TEST(RevolveTest, LongChainsAreWithinTwoPercentOfTheClosedForm) {
  for (const int n : {150, 700, 3000}) {
    const Trace trace = uniform_chain(n, 1);
    for (const int c : {3, 5, 10, 20, 100}) {
      expect_within_two_percent(trace, n, c);
    }
  }
}

// As the time between the operators of a recorded forward.
TEST(RevolveTest, OperatorsThatNeverRunAgainTakeNoSnapshots) {
  constexpr int kOperators = 3000;
  for (const int c : {10, 100}) {
    Trace trace = uniform_chain(kOperators, 1);
    planner::Operator& last = trace.operators[trace.backward_begin - 1];
    last.seconds = kOperators;
    last.can_recompute = false;
    expect_within_two_percent(trace, kOperators, c);
  }
}

// With one snapshot less, operators would run more often than plans may have them.
TEST(RevolveTest, FewestSnapshotsThatMayBeTriedAreTried) {
  constexpr int kOperators = 65'000;
  expect_within_two_percent(uniform_chain(kOperators, 1), kOperators, 3);
}

// Every seventh result is left, as forward has evicted the others: a plan begins with these.
TEST(RevolveTest, EvictedResultsAreNoCheckpoints) {
  constexpr int kOperators = 600;
  constexpr int kSnapshots = 20;
  Trace trace = uniform_chain(kOperators, 1);
  for (int op = 0; op + 1 < kOperators; ++op) {
    trace.values[op + 1].is_evicted = op % 7 != 0;
  }
  planner::Planner planner(trace, {.stores = {}, .max_simulations = 100});
  const auto found = planner.plan(kInputBytes + kSnapshots + 1);
  ASSERT_TRUE(found);
  EXPECT_LE(found->simulation.recompute_seconds,
            1.1 * static_cast<double>(revolve_recomputation(kOperators, kSnapshots)));
}

TEST(RevolveTest, ChainsWithoutWorkspaceReachTheOptimumOfTheRecursion) {
  OptimumWithoutWorkspace optimum;
  for (const int n : {3, 4, 7, 10, 16, 25, 30}) {
    const Trace trace = uniform_chain(n, 0);
    for (int bytes = 2; bytes <= n; ++bytes) {
      EXPECT_EQ(best_recompute_seconds(trace, kInputBytes + bytes), optimum(n, bytes, true))
          << n << " operators, " << bytes << " bytes";
    }
  }
}

TEST(RevolveTest, NoPlanIsBetterThanTheRecursion) {
  OptimumWithoutWorkspace optimum;
  for (int n = 2; n <= 6; ++n) {
    const Trace trace = uniform_chain(n, 0);
    for (int bytes = 1; bytes <= n; ++bytes) {
      EXPECT_EQ(exhaustive_optimum(trace, kInputBytes + bytes), optimum(n, bytes, true))
          << n << " operators, " << bytes << " bytes";
    }
  }
}

TEST(RevolveTest, NoPlanIsBetterThanTheClosedForm) {
  for (int n = 2; n <= 6; ++n) {
    const Trace trace = uniform_chain(n, 1);
    for (int c = 1; c <= n; ++c) {
      EXPECT_EQ(exhaustive_optimum(trace, kInputBytes + c + 1),
                static_cast<double>(revolve_recomputation(n, c)))
          << n << " operators, " << c << " snapshots";
    }
  }
}

}  // namespace
}  // namespace reprise::testing::revolve_test
