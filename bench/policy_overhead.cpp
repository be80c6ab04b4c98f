// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The cost of one more operator under a policy, in forward and in the replay, against no mode: the
// slope of the time over the length of a chain of `sin` on four elements, one thread. Each saves a
// tensor. From the forward of a region, a plain forward is taken off; from its backward, a plain
// backward and a plain forward. Rounds of all sides alternate within one run; each figure is the
// best of all rounds.
#include <ATen/core/grad_mode.h>
#include <benchmark/benchmark.h>

#include <algorithm>
#include <limits>

#include "bench/chain.h"
#include "reprise/engine/checkpoint.h"
#include "reprise/engine/memory_report.h"
#include "reprise/policies/policies.h"

namespace reprise::bench {
namespace {

constexpr int kShort = 1;
constexpr int kLong = 257;

struct Times {
  double forward = std::numeric_limits<double>::infinity();
  double backward = std::numeric_limits<double>::infinity();
};

// One more round: `forward` makes the graph.
template <class Forward>
void add_round(Times& best, const at::Tensor& x, Forward&& forward) {
  at::Tensor y;
  best.forward = std::min(best.forward, microseconds([&] { y = forward(); }));
  const at::Tensor gradient = at::ones({4});
  best.backward = std::min(best.backward, microseconds([&] {
                             benchmark::DoNotOptimize(torch::autograd::grad({y}, {x}, {gradient}));
                           }));
}

// Of one length.
struct Best {
  Times plain, region;
  double second_forward = std::numeric_limits<double>::infinity();
  double without_graph = std::numeric_limits<double>::infinity();
};

void add_rounds(Best& best, const at::Tensor& x, int length, const CheckpointOptions& options) {
  add_round(best.plain, x, [&] { return chain(x, length); });
  add_round(best.region, x, [&] { return checkpoint(options, chain, x, length); });
  const auto forward = [&] { benchmark::DoNotOptimize(chain(x, length)); };
  best.second_forward = std::min(best.second_forward, microseconds(forward));
  const at::NoGradGuard no_graph;
  best.without_graph = std::min(best.without_graph, microseconds(forward));
}

double slope(double shorter, double longer) { return (longer - shorter) / (kLong - kShort); }

// Of the record, for each operator of a long chain.
double tape_bytes(const at::Tensor& x, const CheckpointOptions& options) {
  const MemoryReportGuard collecting;
  benchmark::DoNotOptimize(checkpoint(options, chain, x, kLong));
  return static_cast<double>(memory_report().regions.at(0).tape_bytes) / kLong;
}

void operator_cost(benchmark::State& state, const CheckpointOptions& options) {
  const at::Tensor x = leaf();
  Best shorter;
  Best longer;
  for (auto round : state) {
    static_cast<void>(round);
    add_rounds(shorter, x, kShort, options);
    add_rounds(longer, x, kLong, options);
  }
  const double forward = slope(shorter.region.forward, longer.region.forward) -
                         slope(shorter.plain.forward, longer.plain.forward);
  const double second = slope(shorter.second_forward, longer.second_forward);
  const double replay = slope(shorter.region.backward, longer.region.backward) -
                        slope(shorter.plain.backward, longer.plain.backward) - second;
  const double cheaper_floor =
      second - slope(shorter.without_graph, longer.without_graph);  // without a second graph
  state.counters["forward_us"] = forward;
  state.counters["replay_over_no_graph_us"] = replay + cheaper_floor;
  state.counters["replay_us"] = replay;
  state.counters["operator_us"] = forward + replay;
  if (options.replay == ReplayMode::kTape) {
    state.counters["tape_bytes_an_operator"] = tape_bytes(x, options);
  }
  state.counters["plain_forward_us"] = slope(shorter.plain.forward, longer.plain.forward);
  const double region_ends = shorter.region.forward + shorter.region.backward;
  const double floor_ends = shorter.plain.forward + shorter.plain.backward + shorter.second_forward;
  state.counters["region_us"] = region_ends - floor_ends - (forward + replay) * kShort;
}

const CheckpointOptions kNoPolicy{};
const CheckpointOptions kRecompute{.policy = policies::save_nothing()};
const CheckpointOptions kSave{.policy = policies::save_everything()};
const CheckpointOptions kList{.policy = policies::save_operators({"aten::sin"})};
const CheckpointOptions kRecomputeUnchecked{.policy = policies::save_nothing(),
                                            .determinism_check = DeterminismCheck::kNone};
const CheckpointOptions kSaveUnchecked{.policy = policies::save_everything(),
                                       .determinism_check = DeterminismCheck::kNone};

const CheckpointOptions kTape{.replay = ReplayMode::kTape};
const CheckpointOptions kTapeRecompute{.policy = policies::save_nothing(),
                                       .replay = ReplayMode::kTape};
const CheckpointOptions kTapeSave{.policy = policies::save_everything(),
                                  .replay = ReplayMode::kTape};

BENCHMARK_CAPTURE(operator_cost, no_policy, kNoPolicy)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(operator_cost, recompute, kRecompute)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(operator_cost, save, kSave)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(operator_cost, save_by_list, kList)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(operator_cost, recompute_unchecked, kRecomputeUnchecked)
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(operator_cost, save_unchecked, kSaveUnchecked)->Unit(benchmark::kMicrosecond);

BENCHMARK_CAPTURE(operator_cost, tape_no_policy, kTape)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(operator_cost, tape_recompute, kTapeRecompute)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(operator_cost, tape_save, kTapeSave)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace reprise::bench

int main(int argc, char** argv) { return reprise::bench::run_benchmarks(argc, argv); }
