// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// A training step of a model (forward, loss, backward; no optimiser) under each variant. Prints
// JSON: the times of interleaved steps in milliseconds, the bytes that forward leaves behind, the
// peak of a step over what was there before, and whether gradients and buffers have the bits of the
// run without checkpointing. bench/side_by_side/model_steps.py is the same for Python.
#include <ATen/Parallel.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "bench/clock.h"
#include "bench/models/model.h"
#include "bench/models/variants.h"
#include "reprise/engine/cpu_memory.h"

namespace reprise::bench {
namespace {

constexpr std::uint64_t kSeed = 1;  // of each step's random numbers

using Tensors = std::vector<at::Tensor>;

Tensors clones(const Tensors& tensors) {
  Tensors copies;
  for (const at::Tensor& tensor : tensors) {
    copies.push_back(tensor.clone());
  }
  return copies;
}

at::Tensor bits(const at::Tensor& tensor) { return tensor.flatten().view(torch::kUInt8); }

bool have_equal_bits(const Tensors& first, const Tensors& second) {
  return std::equal(
      first.begin(), first.end(), second.begin(), second.end(),
      [](const at::Tensor& a, const at::Tensor& b) { return bits(a).equal(bits(b)); });
}

// Of a step.
struct Outcome {
  std::int64_t kept_bytes, peak_bytes;
  Tensors gradients, buffers;
  double loss;
};

class Bench {
 public:
  explicit Bench(Model model) : model_(std::move(model)), buffers_(clones(buffers())) {}

  // A step from the same state as each other one.
  double step_milliseconds(const Variant& variant) {
    reset();
    const double start = read_microseconds(clock_);
    variant.forward(model_).backward();
    return (read_microseconds(clock_) - start) / 1e3;
  }

  Outcome outcome_of(const Variant& variant) {
    reset();
    reset_peak_cpu_memory();
    const std::int64_t before = cpu_memory().current_bytes;
    const at::Tensor loss = variant.forward(model_);
    const std::int64_t kept = cpu_memory().current_bytes - before;
    loss.backward();
    const std::int64_t peak = cpu_memory().peak_bytes - before;
    Tensors gradients;
    for (const at::Tensor& parameter : model_.module->parameters()) {
      gradients.push_back(parameter.grad().clone());
    }
    return {kept, peak, gradients, clones(buffers()), loss.item<double>()};
  }

 private:
  Tensors buffers() const { return model_.module->buffers(); }

  void reset() {
    const at::NoGradGuard no_graph;
    model_.module->zero_grad();
    const Tensors now = buffers();
    for (std::size_t i = 0; i < now.size(); ++i) {
      now[i].copy_(buffers_[i]);
    }
    torch::manual_seed(kSeed);
  }

  Model model_;
  Tensors buffers_;
  // Where one thread does all of a step, only the time that it has a core counts.
  clockid_t clock_ = at::get_num_threads() == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
};

// The variants of these names, or all.
std::vector<Variant> selected(const std::vector<std::string>& names) {
  std::vector<Variant> found;
  std::copy_if(
      variants().begin(), variants().end(), std::back_inserter(found), [&](const Variant& variant) {
        return names.empty() || std::find(names.begin(), names.end(), variant.name) != names.end();
      });
  return found;
}

nlohmann::ordered_json measure(Bench& bench, std::vector<Variant> order, int rounds) {
  nlohmann::ordered_json result;
  const Outcome expected = bench.outcome_of(variants().front());
  result["loss"] = expected.loss;
  for (const Variant& variant : order) {
    if (variant.measured == Measured::kTime) {
      bench.step_milliseconds(variant);  // none of the timed ones is its first
      continue;
    }
    const Outcome found = bench.outcome_of(variant);
    result["variants"][variant.name] = {
        {"kept_bytes", found.kept_bytes},
        {"peak_bytes", found.peak_bytes},
        {"gradients_equal", have_equal_bits(found.gradients, expected.gradients)},
        {"buffers_equal", have_equal_bits(found.buffers, expected.buffers)}};
  }
  order.erase(
      std::remove_if(order.begin(), order.end(),
                     [](const Variant& variant) { return variant.measured == Measured::kMemory; }),
      order.end());
  for (int round = 0; round < rounds; ++round) {
    for (const Variant& variant : order) {
      result["variants"][variant.name]["step_ms"].push_back(bench.step_milliseconds(variant));
    }
    std::reverse(order.begin(), order.end());
  }
  return result;
}

}  // namespace
}  // namespace reprise::bench

int main(int argc, char** argv) {
  CLI::App app("Training steps with and without checkpointing; prints JSON.");
  std::string model;
  std::vector<std::string> only;
  int rounds = 5;
  int threads = 1;
  app.add_option("--model", model, "gpt, gpt-fused, resnet, lstm or moe")->required();
  app.add_option("--only", only, "the variants to measure; all if not given");
  app.add_option("--rounds", rounds, "timed steps of each variant");
  app.add_option("--threads", threads, "of LibTorch");
  CLI11_PARSE(app, argc, argv);
  at::set_num_threads(threads);
  reprise::install_cpu_memory_counter();
  reprise::bench::Bench bench(reprise::bench::make_model(model));
  std::cout << measure(bench, reprise::bench::selected(only), rounds).dump(1) << '\n';
  return 0;
}
