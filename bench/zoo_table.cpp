// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// A training step of each model of the zoo (forward, loss, backward; no optimiser), with regions
// and without. Prints the table of docs/models.md: the peak of a step over what was there before,
// its time as a ratio of interleaved steps, and whether gradients and buffers have the same bits.
#include <ATen/Parallel.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <iomanip>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/clock.h"
#include "bench/zoo/zoo.h"
#include "reprise/engine/cpu_memory.h"
#include "reprise/policies/policies.h"

namespace reprise::bench {
namespace {

using zoo::Form;
using zoo::RegionRunner;
using Tensors = std::vector<at::Tensor>;

const std::vector<RegionRunner>& runners() {
  static const std::vector<RegionRunner> kRunners = {
      {},
      {Form::kFunction, {}},
      {Form::kScope, {}},
      {Form::kScope, {.policy = policies::save_compute_intensive()}},
  };
  return kRunners;
}

struct Outcome {
  std::int64_t peak_bytes = 0;
  Tensors results;  // gradients and buffers
};

class Trial {
 public:
  explicit Trial(const zoo::Kind& kind, std::int64_t scale) : model_(kind.make(scale)) {
    for (const at::Tensor& buffer : model_->buffers()) {
      buffers_.push_back(buffer.clone());
    }
    outcome_of(runners().front());  // fills LibTorch's caches
  }

  Outcome outcome_of(const RegionRunner& run) {
    reset();
    Outcome outcome;
    reset_peak_cpu_memory();
    const std::int64_t before = cpu_memory().current_bytes;
    model_->loss(run).backward();
    outcome.peak_bytes = cpu_memory().peak_bytes - before;
    for (const at::Tensor& parameter : model_->parameters()) {
      outcome.results.push_back(parameter.grad().defined() ? parameter.grad().clone()
                                                           : at::Tensor());
    }
    for (const at::Tensor& buffer : model_->buffers()) {
      outcome.results.push_back(buffer.clone());
    }
    return outcome;
  }

  double microseconds_of(const RegionRunner& run) {
    reset();
    const double start = read_microseconds(CLOCK_THREAD_CPUTIME_ID);
    model_->loss(run).backward();
    return read_microseconds(CLOCK_THREAD_CPUTIME_ID) - start;
  }

 private:
  void reset() {
    const at::NoGradGuard no_graph;
    model_->zero_grad();
    const Tensors now = model_->buffers();
    for (std::size_t i = 0; i < now.size(); ++i) {
      now[i].copy_(buffers_[i]);
    }
    torch::manual_seed(1);
  }

  std::shared_ptr<zoo::Model> model_;
  Tensors buffers_;
};

bool have_equal_bits(const Tensors& first, const Tensors& second) {
  const auto bits = [](const at::Tensor& tensor) { return tensor.flatten().view(torch::kUInt8); };
  return std::equal(first.begin(), first.end(), second.begin(), second.end(),
                    [&](const at::Tensor& a, const at::Tensor& b) {
                      return a.defined() == b.defined() && (!a.defined() || bits(a).equal(bits(b)));
                    });
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// For each runner, the ratios of its steps to the plain ones next to them.
std::vector<double> time_ratios(Trial& trial, int rounds) {
  std::vector<std::vector<double>> ratios(runners().size());
  for (int round = 0; round < rounds; ++round) {
    const double plain = trial.microseconds_of(runners().front());
    for (std::size_t i = 1; i < runners().size(); ++i) {
      ratios[i].push_back(trial.microseconds_of(runners()[i]) / plain);
    }
  }
  std::vector<double> medians = {1.0};
  for (std::size_t i = 1; i < ratios.size(); ++i) {
    medians.push_back(median(ratios[i]));
  }
  return medians;
}

void print_row(const zoo::Kind& kind, std::int64_t scale, int rounds) {
  Trial trial(kind, scale);
  const Outcome plain = trial.outcome_of(runners().front());
  std::cout << "| " << kind.name << " | " << kind.description << " | " << std::fixed
            << std::setprecision(1) << static_cast<double>(plain.peak_bytes) / (1 << 20) << " MiB"
            << std::setprecision(2);
  const std::vector<double> ratios = time_ratios(trial, rounds);
  bool is_same = true;
  for (std::size_t i = 1; i < runners().size(); ++i) {
    const Outcome found = trial.outcome_of(runners()[i]);
    is_same = is_same && have_equal_bits(found.results, plain.results);
    std::cout << " | "
              << static_cast<double>(found.peak_bytes) / static_cast<double>(plain.peak_bytes)
              << " | " << ratios[i];
  }
  std::cout << " | " << (is_same ? "yes" : "NO") << " |" << std::endl;
}

}  // namespace
}  // namespace reprise::bench

int main(int argc, char** argv) {
  CLI::App app("Training steps of small models with and without checkpointing; prints a table.");
  std::string only;
  std::int64_t scale = 16;
  int rounds = 15;
  app.add_option("--only", only, "models whose name contains this");
  app.add_option("--scale", scale, "of the batches");
  app.add_option("--rounds", rounds, "timed steps of each variant");
  CLI11_PARSE(app, argc, argv);
  at::set_num_threads(1);
  reprise::install_cpu_memory_counter();
  for (const reprise::zoo::Kind& kind : reprise::zoo::kinds()) {
    if (kind.name.find(only) != std::string::npos) {
      reprise::bench::print_row(kind, scale, rounds);
    }
  }
  return 0;
}
