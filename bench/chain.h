// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: chain.h
//
// The work of the overhead benchmarks: chains of `sin` on four elements, on one thread, so that
// nothing but the bookkeeping counts. Each `sin` saves its input.
#ifndef REPRISE_BENCH_CHAIN_H_
#define REPRISE_BENCH_CHAIN_H_

#include <ATen/Parallel.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/sin.h>
#include <benchmark/benchmark.h>
#include <torch/csrc/autograd/autograd.h>

#include "bench/clock.h"
#include "reprise/engine/checkpoint.h"

namespace reprise::bench {

inline at::Tensor chain(at::Tensor x, int length) {
  for (int i = 0; i < length; ++i) {
    x = at::sin(x);
  }
  return x;
}

// A chain in `depth` regions, one within the other.
inline at::Tensor in_regions(const CheckpointOptions& options, const at::Tensor& x, int length,
                             int depth) {
  if (depth == 0) {
    return chain(x, length);
  }
  return checkpoint(
      options,
      [&options, length, depth](const at::Tensor& h) {
        return in_regions(options, h, length, depth - 1);
      },
      x);
}

inline at::Tensor leaf() { return at::ones({4}).set_requires_grad(true); }

inline void backward(const at::Tensor& y, const at::Tensor& x) {
  benchmark::DoNotOptimize(torch::autograd::grad({y}, {x}, {at::ones({4})}));
}

using Code = at::Tensor (*)(at::Tensor, int length);

// The forward twice, the backward once.
inline void run_floor(const at::Tensor& x, int length, Code code = chain) {
  const at::Tensor y = code(x, length);
  benchmark::DoNotOptimize(code(x, length));
  backward(y, x);
}

// Of this thread, on its core.
template <class Function>
double microseconds(Function&& function) {
  const double start = read_microseconds(CLOCK_THREAD_CPUTIME_ID);
  function();
  return read_microseconds(CLOCK_THREAD_CPUTIME_ID) - start;
}

// Runs the registered benchmarks, for main(). Returns its exit status.
inline int run_benchmarks(int argc, char** argv) {
  at::set_num_threads(1);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) {
    return 1;
  }
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}

}  // namespace reprise::bench

#endif  // REPRISE_BENCH_CHAIN_H_
