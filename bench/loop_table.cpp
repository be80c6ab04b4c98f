// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The loop of pytorch#125591, D = C D / |C D|, within budgets of so many matrices beside what is
// there before the step: the first step of a new budget, and its sixth, which follows a plan that
// is made; as a table in Markdown. A round has a plain step in front of each budget's, so that a
// ratio is one of neighbours in time.
#include <ATen/Parallel.h>
#include <torch/torch.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <iomanip>
#include <iostream>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/freed_memory.h"
#include "bench/quantile.h"
#include "reprise/engine/cpu_memory.h"
#include "reprise/engine/memory_budget.h"

namespace reprise::bench {
namespace {

using Clock = std::chrono::steady_clock;

class Loop {
 public:
  Loop(int steps, std::int64_t size) : steps_(steps), size_(size) {
    torch::manual_seed(0);
    a_ = unit();
    b_ = unit();
    start_ = torch::randn({size, size}, torch::kFloat64);
  }

  std::int64_t bytes_of(int matrices) const { return matrices * size_ * size_ * 8; }

  at::Tensor forward() const {
    const at::Tensor c = a_ + lambda_ * b_;
    at::Tensor d = start_;
    for (int i = 0; i < steps_; ++i) {
      d = c.matmul(d);
      d = d / d.norm();
    }
    return b_.t().matmul(d).norm();
  }

  // budget: null for a plain step. Returns its seconds.
  double step(MemoryBudget* budget) {
    lambda_.mutable_grad().reset();
    const Clock::time_point start = Clock::now();
    at::Tensor loss;
    if (budget == nullptr) {
      loss = forward();
    } else {
      BudgetScope scope(*budget);
      loss = forward();
      std::move(scope).close();
    }
    loss.backward();
    loss.reset();
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    check_gradient();
    return seconds;
  }

 private:
  at::Tensor unit() const {
    const at::Tensor matrix = torch::randn({size_, size_}, torch::kFloat64);
    return matrix / matrix.norm();
  }

  // That of the first step, which is a plain one.
  void check_gradient() {
    const double gradient = lambda_.grad().item<double>();
    gradient_ = std::isnan(gradient_) ? gradient : gradient_;
    if (gradient != gradient_) {
      throw std::logic_error("the gradient is not that of the plain step");
    }
  }

  const int steps_;
  const std::int64_t size_;
  at::Tensor a_, b_, start_;
  at::Tensor lambda_ = torch::zeros({1}, torch::dtype(torch::kFloat64).requires_grad(true));
  double gradient_ = std::numeric_limits<double>::quiet_NaN();
};

void measure(Loop& loop, int matrices, int rounds) {
  constexpr int kUntilPlanned = 5;
  std::vector<double> first, planned;
  for (int round = 0; round < rounds; ++round) {
    MemoryBudget budget({.peak_bytes = cpu_memory().current_bytes + loop.bytes_of(matrices)});
    const double plain = loop.step(nullptr);
    first.push_back(loop.step(&budget) / plain);
    for (int i = 1; i < kUntilPlanned; ++i) {
      loop.step(&budget);
    }
    const double later = loop.step(nullptr);
    planned.push_back(loop.step(&budget) / later);
  }
  std::cout << "| " << matrices << " | " << with_quartiles(first, 2) << " | "
            << with_quartiles(planned, 2) << " |" << std::endl;
}

}  // namespace
}  // namespace reprise::bench

int main(int argc, char** argv) {
  CLI::App app("A loop of matrix products within budgets, as a table in Markdown.");
  int steps = 500;
  std::int64_t size = 200;
  int rounds = 7;
  std::vector<int> matrices = {60, 45, 33, 26, 23, 20};
  app.add_option("--steps", steps, "of the loop");
  app.add_option("--size", size, "of the matrices");
  app.add_option("--rounds", rounds, "budgets of each size");
  app.add_option("--matrices", matrices, "that the budgets have room for");
  CLI11_PARSE(app, argc, argv);
  reprise::bench::keep_freed_memory();
  at::set_num_threads(1);
  reprise::install_cpu_memory_counter();
  reprise::bench::Loop loop(steps, size);
  for (int i = 0; i < 3; ++i) {
    loop.step(nullptr);
  }
  std::cout << "| matrices | first step / plain (quartiles) | planned step / plain (quartiles) |\n"
            << "| ---: | ---: | ---: |\n";
  for (const int each : matrices) {
    reprise::bench::measure(loop, each, rounds);
  }
  return 0;
}
