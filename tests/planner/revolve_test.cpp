// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Chains of equal operators, for which the optimum is known (Griewank and Walther, "Algorithm 799:
// revolve", 2000).
//
// Note [Revolve and the simulator]: t(n, c) counts all steps forward but those that backward itself
// takes, with c snapshots of which one is the input of the chain. Here
//   - the first sweep is the program's own forward: n - 1 steps of t(n, c) are no recomputation;
//   - the input exists before the step: c snapshots take c - 1 bytes beside its own;
//   - what backward of an operator reads takes 1 byte if it is no snapshot.
// An operator that runs holds its input and its result: 2 bytes beside the snapshots, or 1 if the
// input is a snapshot. If each operator of backward has a workspace of 1 byte, then a last snapshot
// that is read at once takes what another value that is read would: the budget c + 1 beside the
// input allows for c - 1 snapshots and what is read, and no more; the optimum is t(n, c) - (n - 1).
// Without the workspace a stretch of one or two operators gets by with less, and the optimum is
// that of the recursion in optimum_without_workspace().
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

namespace reprise::testing::revolve_test {
namespace {

using planner::Choice;
using planner::Plan;
using planner::Simulation;
using planner::Simulator;
using planner::Trace;
using planner::ValueId;

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr std::int64_t kInputBytes = 1;

Trace uniform_chain(int operators, std::int64_t workspace_bytes) {
  Trace trace;
  std::vector<ValueId> values{trace.add_value({.bytes = kInputBytes})};
  for (int op = 0; op < operators; ++op) {
    values.push_back(trace.add_value({.bytes = 1, .released = std::min(op + 1, operators - 1)}));
    trace.operators.push_back(
        {.name = "forward", .seconds = 1, .reads = {values[op]}, .results = {values[op + 1]}});
  }
  trace.backward_begin = operators;
  for (int op = operators - 1; op >= 0; --op) {
    trace.operators.push_back({.name = "backward",
                               .seconds = 1,
                               .workspace_bytes = workspace_bytes,
                               .reads = {values[op]}});
  }
  return trace;
}

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

std::int64_t binomial(int n, int k) {
  std::int64_t result = 1;
  for (int i = 1; i <= k; ++i) {
    result = result * (n - k + i) / i;
  }
  return result;
}

// t(n, c) of the paper.
std::int64_t revolve_steps(int n, int c) {
  int r = 0;
  while (binomial(c + r, c) < n) {
    ++r;
  }
  return static_cast<std::int64_t>(r) * n - binomial(c + r, c + 1);
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
      const std::int64_t expected = revolve_steps(n, c) - (n - 1);
      EXPECT_EQ(best_recompute_seconds(trace, kInputBytes + c + 1), static_cast<double>(expected))
          << n << " operators, " << c << " snapshots";
    }
  }
}

// Too many operators for the dynamic programme: binomial checkpoints.
TEST(RevolveTest, LongChainsAreWithinTwoPercentOfTheClosedForm) {
  for (const int n : {150, 700, 3000}) {
    const Trace trace = uniform_chain(n, 1);
    for (const int c : {3, 5, 10, 20, 100}) {
      planner::Planner planner(trace, {.stores = {}, .max_simulations = 100});
      const auto found = planner.plan(kInputBytes + c + 1);
      const auto expected = static_cast<double>(revolve_steps(n, c) - (n - 1));
      ASSERT_TRUE(found) << n << " operators, " << c << " snapshots";
      EXPECT_LE(found->simulation.recompute_seconds, 1.02 * expected)
          << n << " operators, " << c << " snapshots";
      EXPECT_GE(found->simulation.recompute_seconds, expected);
    }
  }
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
            1.1 * static_cast<double>(revolve_steps(kOperators, kSnapshots) - (kOperators - 1)));
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
                static_cast<double>(revolve_steps(n, c) - (n - 1)))
          << n << " operators, " << c << " snapshots";
    }
  }
}

}  // namespace
}  // namespace reprise::testing::revolve_test
