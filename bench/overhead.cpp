// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// What regions cost over their floor: running the forward twice and the backward once, without
// hooks. One thread. Rounds of floor and region alternate within one run, so that a machine that
// changes its pace changes it for both; each figure is the best of all rounds.
//
// chain/FORM/POLICY/LENGTH: one region around a chain. nested/FORM/none/DEPTH: a chain of eight in
// regions within regions. bench/side_by_side/overhead.py is the same for Python.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <limits>
#include <string>

#include "bench/chain.h"
#include "reprise/engine/checkpoint.h"
#include "reprise/policies/policies.h"

namespace reprise::bench {
namespace {

constexpr int kNestedLength = 8;

void time_regions(benchmark::State& state, const CheckpointOptions& options, int length,
                  int depth) {
  const at::Tensor x = leaf();
  double floor = std::numeric_limits<double>::infinity();
  double region = std::numeric_limits<double>::infinity();
  for (auto round : state) {
    static_cast<void>(round);
    floor = std::min(floor, microseconds([&] { run_floor(x, length); }));
    region =
        std::min(region, microseconds([&] { backward(in_regions(options, x, length, depth), x); }));
  }
  state.counters["floor_us"] = floor;
  state.counters["region_us"] = region;
  state.counters["over_floor_us"] = region - floor;
}

void register_regions(const std::string& name, const CheckpointOptions& options, int length,
                      int depth) {
  benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) {
    time_regions(state, options, length, depth);
  })->Unit(benchmark::kMicrosecond);
}

void register_form(const std::string& form, Replay replay) {
  const struct {
    const char* name;
    CheckpointOptions options;
  } policies[] = {{"none", {.replay = replay}},
                  {"recompute", {.policy = policies::save_nothing(), .replay = replay}},
                  {"save", {.policy = policies::save_everything(), .replay = replay}}};
  for (const auto& [policy, options] : policies) {
    for (const int length : {1, 4, 16, 64, 256}) {
      register_regions("chain/" + form + "/" + policy + "/" + std::to_string(length), options,
                       length, 1);
    }
  }
  for (const int depth : {1, 2, 4, 8}) {
    register_regions("nested/" + form + "/none/" + std::to_string(depth), {.replay = replay},
                     kNestedLength, depth);
  }
}

}  // namespace
}  // namespace reprise::bench

int main(int argc, char** argv) {
  reprise::bench::register_form("function", reprise::Replay::kFunction);
  reprise::bench::register_form("scope", reprise::Replay::kTape);
  return reprise::bench::run_benchmarks(argc, argv);
}
