// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// How cost grows: with the regions of one backward, with the operators of one region, with the
// depth of nesting. Prints JSON: for each case its size, the best time of a step (forward and
// backward) in microseconds, and what forward leaves on the heap, graph and records and tensors;
// the same for a plain run. bench/side_by_side/scaling.py is the same for Python.
#include <ATen/Parallel.h>
#include <malloc.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <iostream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/chain.h"
#include "reprise/engine/checkpoint.h"

namespace reprise::bench {
namespace {

using Forward = std::function<at::Tensor(const at::Tensor&)>;

constexpr int kShort = 4;
constexpr int kRounds = 2;  // run.py takes the best of several turns

at::Tensor regions_in_a_row(const CheckpointOptions& options, at::Tensor h, int count) {
  for (int i = 0; i < count; ++i) {
    h = checkpoint(options, chain, h, kShort);
  }
  return h;
}

double best_step(const Forward& forward, int rounds) {
  const at::Tensor x = leaf();
  double best = std::numeric_limits<double>::infinity();
  for (int round = 0; round < rounds; ++round) {
    best = std::min(best, microseconds([&] { backward(forward(x), x); }));
  }
  return best;
}

std::int64_t heap_bytes() {
  const auto info = mallinfo2();
  return static_cast<std::int64_t>(info.uordblks + info.hblkhd);
}

std::int64_t heap_after(const Forward& forward) {
  const at::Tensor x = leaf();
  const std::int64_t before = heap_bytes();
  const at::Tensor y = forward(x);
  return heap_bytes() - before;
}

nlohmann::ordered_json measure(int size, const Forward& forward, const Forward& plain, int rounds) {
  const double step = best_step(forward, rounds);  // first, so that caches are filled
  return {{"size", size},
          {"step_us", step},
          {"plain_us", best_step(plain, rounds)},
          {"heap_bytes", heap_after(forward)},
          {"plain_heap_bytes", heap_after(plain)}};
}

nlohmann::ordered_json measure_form(ReplayMode replay) {
  const CheckpointOptions options{.replay = replay};
  nlohmann::ordered_json result;
  for (const int count : {1, 10, 100, 500, 1000, 2000, 3000, 4000}) {
    result["regions"].push_back(measure(
        count, [&](const at::Tensor& x) { return regions_in_a_row(options, x, count); },
        [&](const at::Tensor& x) { return chain(x, count * kShort); }, kRounds));
  }
  for (const int length : {10, 100, 1000, 2500, 5000, 7500, 10000}) {
    result["operators"].push_back(measure(
        length, [&](const at::Tensor& x) { return checkpoint(options, chain, x, length); },
        [&](const at::Tensor& x) { return chain(x, length); }, kRounds));
  }
  for (const int depth : {1, 2, 3, 4, 5, 6, 7, 8}) {
    result["nesting"].push_back(measure(
        depth, [&](const at::Tensor& x) { return in_regions(options, x, kShort, depth); },
        [&](const at::Tensor& x) { return chain(x, kShort); }, 10 * kRounds));
  }
  return result;
}

}  // namespace
}  // namespace reprise::bench

int main() {
  at::set_num_threads(1);
  const nlohmann::ordered_json result = {
      {"function", reprise::bench::measure_form(reprise::ReplayMode::kFunction)},
      {"scope", reprise::bench::measure_form(reprise::ReplayMode::kTape)}};
  std::cout << result.dump(1) << '\n';
  return 0;
}
