// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Pools of steps that alternate within one budget, at random or in turn: an LSTM cell over
// sequences of several lengths, layers with several branches, batches of several sizes. As a table
// in Markdown: the time of a step beside that of one with a budget for its kind alone, both from
// the 20th step of the pool on, the matrix products that both run, the plans, the steps in which
// the guard evicts, and the share of planning. The two steps of a ratio follow each other, in turn.
#include <ATen/Parallel.h>
#include <ATen/record_function.h>
#include <torch/torch.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <iomanip>
#include <iostream>
#include <map>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
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

// Of this thread, since the last call of take_products().
thread_local std::int64_t products = 0;

std::int64_t take_products() { return std::exchange(products, 0); }

void count_products() {
  at::addThreadLocalCallback(
      at::RecordFunctionCallback([](const at::RecordFunction& function)
                                     -> std::unique_ptr<at::ObserverContext> {
        const std::string_view name = function.name();
        products += name == "aten::mm" || name == "aten::addmm" ? 1 : 0;
        return nullptr;
      }).scopes({at::RecordScope::FUNCTION}));
}

struct Step {
  double seconds;
  std::int64_t products;
};

// A model whose forward is of several kinds, by number.
class Model {
 public:
  using Forward = std::function<at::Tensor(int kind)>;

  Model(std::string name, std::shared_ptr<torch::nn::Module> module, Forward forward)
      : name_(std::move(name)), module_(std::move(module)), forward_(std::move(forward)) {}

  const std::string& name() const { return name_; }

  // budget: null for a plain step.
  Step run(int kind, MemoryBudget* budget) {
    module_->zero_grad();
    take_products();
    const Clock::time_point start = Clock::now();
    at::Tensor loss;
    if (budget == nullptr) {
      loss = forward_(kind);
    } else {
      BudgetScope scope(*budget);
      loss = forward_(kind);
      std::move(scope).close();
    }
    loss.backward();
    loss.reset();
    return {std::chrono::duration<double>(Clock::now() - start).count(), take_products()};
  }

  // Returns a budget of that part of a plain step's memory.
  std::int64_t budget_bytes(int kind, double part) {
    run(kind, nullptr);
    const std::int64_t before = cpu_memory().current_bytes;
    reset_peak_cpu_memory();
    run(kind, nullptr);
    return before +
           static_cast<std::int64_t>(part * static_cast<double>(cpu_memory().peak_bytes - before));
  }

 private:
  std::string name_;
  std::shared_ptr<torch::nn::Module> module_;
  Forward forward_;
};

// Kinds are lengths.
Model recurrent(std::int64_t width) {
  torch::manual_seed(0);
  torch::nn::LSTMCell cell(width, width);
  const at::Tensor input = torch::randn({width / 2, width});
  return {"lengths", cell.ptr(), [cell, input](int length) mutable {
            auto state = cell->forward(input);
            for (int i = 1; i < length; ++i) {
              state = cell->forward(input, state);
            }
            return std::get<0>(state).square().mean();
          }};
}

torch::nn::ModuleList layers_of(std::int64_t width, int count) {
  torch::manual_seed(0);
  torch::nn::ModuleList layers;
  for (int i = 0; i < count; ++i) {
    layers->push_back(torch::nn::Linear(width, width));
  }
  return layers;
}

// Kinds are branches, after a trunk: of other operators, and of other lengths.
Model branched(std::int64_t width) {
  constexpr int kLayers = 16;
  constexpr int kTrunk = 6;
  torch::nn::ModuleList layers = layers_of(width, kLayers);
  const at::Tensor input = torch::randn({4 * width, width});
  return {"branches", layers.ptr(), [layers, input](int branch) mutable {
            at::Tensor h = input;
            for (int i = 0; i < kTrunk + branch; ++i) {
              const at::Tensor product = layers[i]->as<torch::nn::Linear>()->forward(h);
              const bool is_odd = i >= kTrunk && (i + branch) % 2 == 1;
              h = h + (is_odd ? product.tanh() : at::gelu(product));
            }
            return h.square().mean();
          }};
}

// Kinds are batches.
Model batched(std::int64_t width) {
  constexpr int kLayers = 12;
  torch::nn::ModuleList layers = layers_of(width, kLayers);
  return {"batches", layers.ptr(), [layers, width](int rows) mutable {
            at::Tensor h = torch::ones({rows, width});
            for (int i = 0; i < kLayers; ++i) {
              h = h + at::gelu(layers[i]->as<torch::nn::Linear>()->forward(h));
            }
            return h.square().mean();
          }};
}

std::string name_of(const Model& model, const std::vector<int>& kinds, bool is_in_turn) {
  std::ostringstream text;
  text << model.name() << ": " << kinds.size() << " of "
       << *std::min_element(kinds.begin(), kinds.end()) << "-"
       << *std::max_element(kinds.begin(), kinds.end()) << (is_in_turn ? ", in turn" : "");
  return text.str();
}

class Pool {
 public:
  // kinds: the one that needs the most memory last.
  Pool(Model& model, std::vector<int> kinds, double part, bool is_in_turn)
      : model_(model),
        kinds_(std::move(kinds)),
        is_in_turn_(is_in_turn),
        peak_bytes_(model.budget_bytes(kinds_.back(), part)),
        shared_({.peak_bytes = peak_bytes_}) {
    for (const int kind : kinds_) {
      auto& budget = own_[kind] =
          std::make_unique<MemoryBudget>(MemoryBudgetOptions{.peak_bytes = peak_bytes_});
      for (int i = 0; i < 5; ++i) {
        model_.run(kind, budget.get());
      }
    }
  }

  void measure(int steps) {
    for (int i = 0; i < steps; ++i) {
      const int kind = kinds_[(is_in_turn_ ? i : random_()) % kinds_.size()];
      const bool is_first = i % 2 == 0;
      Step own = is_first ? model_.run(kind, own_[kind].get()) : Step();
      const Step shared = model_.run(kind, &shared_);
      own = is_first ? own : model_.run(kind, own_[kind].get());
      const BudgetedStep last = *shared_.last_step();
      if (i < kPlanned) {
        planning_seconds_ += last.planning_seconds;
        seconds_ += shared.seconds;
        plans_ += last.plans;
      }
      if (i >= kUntilKnown) {
        times_.push_back(shared.seconds / own.seconds);
        products_.push_back(static_cast<double>(shared.products) /
                            static_cast<double>(own.products));
        late_plans_ += last.plans;
        evicted_ += last.evicted_bytes > 0 ? 1 : 0;
      }
    }
  }

  std::string row(double part) const {
    std::ostringstream text;
    text << std::fixed << std::setprecision(2) << "| " << name_of(model_, kinds_, is_in_turn_)
         << " | " << part << " | " << with_quartiles(times_, 2) << " | "
         << with_quartiles(products_, 3) << " | " << plans_ << ", " << late_plans_ << " | "
         << evicted_ << " of " << times_.size() << " | "
         << 100 * planning_seconds_ / (seconds_ - planning_seconds_) << " |";
    return text.str();
  }

 private:
  Model& model_;
  const std::vector<int> kinds_;
  const bool is_in_turn_;
  const std::int64_t peak_bytes_;
  MemoryBudget shared_;
  std::map<int, std::unique_ptr<MemoryBudget>> own_;
  std::mt19937 random_{7};
  std::vector<double> times_;
  std::vector<double> products_;
  int plans_ = 0;
  int late_plans_ = 0;
  int evicted_ = 0;
  double planning_seconds_ = 0;
  double seconds_ = 0;
};

using Pools = std::vector<std::vector<int>>;

struct Choice {
  std::vector<double> parts = {0.3, 0.5, 0.8};
  std::string pools;  // a part of their names
  int steps = 100;
};

void print_rows(Model model, const Pools& pools, const Choice& choice) {
  for (const std::vector<int>& kinds : pools) {
    for (const double part : choice.parts) {
      for (const bool is_in_turn : {false, true}) {
        if (name_of(model, kinds, is_in_turn).find(choice.pools) == std::string::npos) {
          continue;
        }
        Pool pool(model, kinds, part, is_in_turn);
        pool.measure(choice.steps);
        std::cout << pool.row(part) << std::endl;
      }
    }
  }
}

}  // namespace
}  // namespace reprise::bench

int main(int argc, char** argv) {
  CLI::App app("Steps of several kinds within one budget, as a table in Markdown.");
  std::int64_t width = 256;
  reprise::bench::Choice choice;
  app.add_option("--width", width, "of the layers");
  app.add_option("--steps", choice.steps, "of each pool and budget")->check(CLI::Range(50, 10000));
  app.add_option("--parts", choice.parts, "of the memory of the plain step that needs the most");
  app.add_option("--pools", choice.pools, "only those with this in their names, as 'in turn'");
  CLI11_PARSE(app, argc, argv);
  reprise::bench::keep_freed_memory();
  at::set_num_threads(1);
  reprise::install_cpu_memory_counter();
  reprise::bench::count_products();
  std::cout
      << "| pool | budget | time / of its own (quartiles) | products / of its own (quartiles) "
         "| plans of 50 steps, from the 20th on | steps with evictions | planning, % of 50 "
         "steps |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: |\n";
  reprise::bench::print_rows(
      reprise::bench::recurrent(width),
      {{20, 25}, {20, 23, 25, 28}, {16, 20, 24, 28}, {14, 16, 18, 20, 22, 24, 26, 28}}, choice);
  reprise::bench::print_rows(reprise::bench::branched(width), {{4, 6}, {3, 4, 5, 6, 7, 8, 9, 10}},
                             choice);
  reprise::bench::print_rows(reprise::bench::batched(width),
                             {{256, 512}, {192, 256, 320, 384, 448, 512, 768, 1024}}, choice);
  return 0;
}
