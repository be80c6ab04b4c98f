// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// An LSTM cell over sequences of several lengths, in random order, within one budget: the time of
// a step beside that of one with a budget for its length alone, and the share of planning, as a
// table in Markdown. The two steps of a ratio follow each other, in turn.
#include <ATen/Parallel.h>
#include <torch/torch.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdint>
#include <iomanip>
#include <iostream>
#include <map>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "bench/freed_memory.h"
#include "bench/quantile.h"
#include "reprise/engine/cpu_memory.h"
#include "reprise/engine/memory_budget.h"

namespace reprise::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kUntilKnown = 20;  // steps of a pool
constexpr int kPlanned = 50;     // that the share of planning is of

class Recurrent {
 public:
  explicit Recurrent(std::int64_t width) : cell_(width, width) {
    torch::manual_seed(0);
    input_ = torch::randn({width / 2, width});
  }

  // budget: null for a plain step. Returns its seconds.
  double step(int length, MemoryBudget* budget) {
    cell_->zero_grad();
    const Clock::time_point start = Clock::now();
    at::Tensor loss;
    if (budget == nullptr) {
      loss = forward(length);
    } else {
      BudgetScope scope(*budget);
      loss = forward(length);
      std::move(scope).close();
    }
    loss.backward();
    loss.reset();
    return std::chrono::duration<double>(Clock::now() - start).count();
  }

  // Returns a budget of that part of a plain step's memory.
  std::int64_t budget_bytes(int length, double part) {
    step(length, nullptr);
    const std::int64_t before = cpu_memory().current_bytes;
    reset_peak_cpu_memory();
    step(length, nullptr);
    return before +
           static_cast<std::int64_t>(part * static_cast<double>(cpu_memory().peak_bytes - before));
  }

 private:
  at::Tensor forward(int length) {
    auto state = cell_->forward(input_);
    for (int i = 1; i < length; ++i) {
      state = cell_->forward(input_, state);
    }
    return std::get<0>(state).square().mean();
  }

  torch::nn::LSTMCell cell_;
  at::Tensor input_;
};

class Pool {
 public:
  Pool(Recurrent& model, std::vector<int> lengths, double part)
      : model_(model),
        lengths_(std::move(lengths)),
        peak_bytes_(model.budget_bytes(lengths_.back(), part)),
        shared_({.peak_bytes = peak_bytes_}) {
    for (const int length : lengths_) {
      auto& budget = own_[length] =
          std::make_unique<MemoryBudget>(MemoryBudgetOptions{.peak_bytes = peak_bytes_});
      for (int i = 0; i < 5; ++i) {
        model_.step(length, budget.get());
      }
    }
  }

  void measure(int steps) {
    for (int i = 0; i < steps; ++i) {
      const int length = lengths_[random_() % lengths_.size()];
      const bool is_first = i % 2 == 0;
      double own = is_first ? model_.step(length, own_[length].get()) : 0;
      const double shared = model_.step(length, &shared_);
      own = is_first ? own : model_.step(length, own_[length].get());
      if (i < kPlanned) {
        planning_seconds_ += shared_.last_step()->planning_seconds;
        seconds_ += shared;
      }
      if (i >= kUntilKnown) {
        ratios_.push_back(shared / own);
      }
    }
  }

  std::string row(double part) const {
    std::ostringstream text;
    text << std::fixed << std::setprecision(2) << "| " << lengths_.size() << " of "
         << lengths_.front() << "-" << lengths_.back() << " | " << part << " | "
         << with_quartiles(ratios_, 2) << " | " << 100 * planning_seconds_ / seconds_ << " |";
    return text.str();
  }

 private:
  Recurrent& model_;
  const std::vector<int> lengths_;
  const std::int64_t peak_bytes_;
  MemoryBudget shared_;
  std::map<int, std::unique_ptr<MemoryBudget>> own_;
  std::mt19937 random_{7};
  std::vector<double> ratios_;
  double planning_seconds_ = 0;
  double seconds_ = 0;
};

}  // namespace
}  // namespace reprise::bench

int main(int argc, char** argv) {
  CLI::App app("Sequences of several lengths within one budget, as a table in Markdown.");
  std::int64_t width = 256;
  int steps = 100;
  std::vector<double> parts = {0.3, 0.5, 0.8};
  app.add_option("--width", width, "of the cell");
  app.add_option("--steps", steps, "of each pool and budget");
  app.add_option("--parts", parts, "of the plain step's memory");
  CLI11_PARSE(app, argc, argv);
  reprise::bench::keep_freed_memory();
  at::set_num_threads(1);
  reprise::install_cpu_memory_counter();
  reprise::bench::Recurrent model(width);
  std::cout << "| lengths | budget | step / step with a budget of its own (quartiles) | planning, "
               "% of 50 steps |\n| --- | ---: | ---: | ---: |\n";
  const std::vector<std::vector<int>> pools = {
      {20, 25}, {16, 20, 24, 28}, {14, 16, 18, 20, 22, 24, 26, 28}};
  for (const std::vector<int>& lengths : pools) {
    for (const double part : parts) {
      reprise::bench::Pool pool(model, lengths, part);
      pool.measure(steps);
      std::cout << pool.row(part) << std::endl;
    }
  }
  return 0;
}
