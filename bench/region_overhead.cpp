// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// What a region costs over its floor: running the forward twice and the backward once, without
// hooks. Chains of `sin` on four elements, one thread, so that nothing but the bookkeeping counts;
// `sin` saves its input. Rounds of floor and region alternate within one run, so that a machine
// that changes its pace changes it for both; each figure is the best of all rounds.
//
// Besides the time of each chain: the cost of one region (over the floor of the shortest chain,
// less its saved tensors) and of one more saved tensor (the slope over the chain's length).
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/sin.h>
#include <benchmark/benchmark.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <limits>

#include "reprise/engine/checkpoint.h"

namespace {

using Clock = std::chrono::steady_clock;

at::Tensor chain(at::Tensor x, int length) {
  for (int i = 0; i < length; ++i) {
    x = at::sin(x);
  }
  return x;
}

void backward(const at::Tensor& y, const at::Tensor& x) {
  benchmark::DoNotOptimize(torch::autograd::grad({y}, {x}, {at::ones({4})}));
}

void run_floor(const at::Tensor& x, int length) {
  const at::Tensor y = chain(x, length);
  benchmark::DoNotOptimize(chain(x, length));
  backward(y, x);
}

void run_plain(const at::Tensor& x, int length) { backward(chain(x, length), x); }

void run_region(const at::Tensor& x, int length, const reprise::CheckpointOptions& options) {
  backward(reprise::checkpoint(options, chain, x, length), x);
}

template <class Function>
double microseconds(Function&& function) {
  const auto start = Clock::now();
  function();
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

struct Best {
  double floor = std::numeric_limits<double>::infinity();
  double region = std::numeric_limits<double>::infinity();
  double over_floor() const { return region - floor; }
};

// One more round of both, interleaved.
void add_round(Best& best, const at::Tensor& x, int length,
               const reprise::CheckpointOptions& options) {
  best.floor = std::min(best.floor, microseconds([&] { run_floor(x, length); }));
  best.region = std::min(best.region, microseconds([&] { run_region(x, length, options); }));
}

at::Tensor leaf() { return at::ones({4}).set_requires_grad(true); }

void chain_time(benchmark::State& state, const reprise::CheckpointOptions& options) {
  const auto length = static_cast<int>(state.range(0));
  const at::Tensor x = leaf();
  Best best;
  for (auto round : state) {
    static_cast<void>(round);
    add_round(best, x, length, options);
  }
  state.counters["floor_us"] = best.floor;
  state.counters["region_us"] = best.region;
  state.counters["over_floor_us"] = best.over_floor();
  state.counters["ratio_to_floor"] = best.region / best.floor;
}

void region_and_slot(benchmark::State& state, const reprise::CheckpointOptions& options) {
  constexpr int kShort = 1;
  constexpr int kLong = 257;
  const at::Tensor x = leaf();
  Best shortest;
  Best longest;
  for (auto round : state) {
    static_cast<void>(round);
    add_round(shortest, x, kShort, options);
    add_round(longest, x, kLong, options);
  }
  const double slot = (longest.over_floor() - shortest.over_floor()) / (kLong - kShort);
  state.counters["saved_tensor_us"] = slot;
  state.counters["region_us"] = shortest.over_floor() - slot * kShort;
}

void plain_time(benchmark::State& state) {
  const at::Tensor x = leaf();
  for (auto round : state) {
    static_cast<void>(round);
    run_plain(x, static_cast<int>(state.range(0)));
  }
}

const reprise::CheckpointOptions kDefaults{};
const reprise::CheckpointOptions kBare{.preserve_rng_state = false,
                                       .determinism_check = reprise::DeterminismCheck::kNone};
const reprise::CheckpointOptions kToTheEnd{.early_stop = false};

BENCHMARK(plain_time)->Arg(1)->Arg(64)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(chain_time, defaults, kDefaults)
    ->RangeMultiplier(4)
    ->Range(1, 256)
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(region_and_slot, defaults, kDefaults)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(region_and_slot, no_early_stop, kToTheEnd)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(region_and_slot, no_rng_no_check, kBare)->Unit(benchmark::kMicrosecond);

}  // namespace

int main(int argc, char** argv) {
  at::set_num_threads(1);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) {
    return 1;
  }
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
