// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// A training step of each model of the zoo (forward, loss, backward; no optimiser), with regions or
// stores and without. Prints the tables of docs/models.md and docs/stores.md: the peak of a step
// over the memory before it, its time as a ratio of interleaved steps, and whether gradients and
// buffers have the same bits.
#include <ATen/Parallel.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iomanip>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/clock.h"
#include "bench/zoo/stepped_model.h"
#include "bench/zoo/zoo.h"
#include "reprise/hooks/compressed_store.h"
#include "reprise/hooks/store_guard.h"
#include "reprise/hooks/stores.h"
#include "reprise/policies/policies.h"

namespace reprise::bench {
namespace {

using Tensors = std::vector<at::Tensor>;
using Store = std::shared_ptr<ActivationStore>;

// A way to compute the loss of a model.
using Forward = std::function<at::Tensor(zoo::Model&)>;

Forward in_regions(zoo::Form form, CheckpointOptions options = {}) {
  return [run = zoo::RegionRunner{form, std::move(options)}](zoo::Model& model) {
    return model.loss(run);
  };
}

Forward with_store(Store store) {
  return [store = std::move(store)](zoo::Model& model) {
    const StoreGuard guard(store);
    return model.loss({});
  };
}

std::vector<Forward> forms() {
  return {in_regions(zoo::Form::kFunction), in_regions(zoo::Form::kScope),
          in_regions(zoo::Form::kScope, {.policy = policies::save_compute_intensive()})};
}

std::vector<Forward> ready_stores() {
  return {with_store(stores::packed()), with_store(stores::compressed()),
          with_store(stores::packed() | stores::compressed())};
}

double microseconds_of(zoo::SteppedModel& stepped, const Forward& forward) {
  stepped.reset();
  const double start = read_microseconds(CLOCK_MONOTONIC);
  forward(stepped.model()).backward();
  return read_microseconds(CLOCK_MONOTONIC) - start;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// How long a variant runs before it is another one's turn, and how often.
struct Turns {
  int rounds = 15;
  double seconds = 0;  // 0: one step. Otherwise the first half is not counted
};

// Returns the median time of the steps of one turn. Stores that watch how much they slow the
// computation down judge by about a second: steps of theirs between others are no training.
double turn_microseconds(zoo::SteppedModel& stepped, const Forward& forward, double seconds) {
  const double start = read_microseconds(CLOCK_MONOTONIC);
  const auto elapsed = [&] { return (read_microseconds(CLOCK_MONOTONIC) - start) / 1e6; };
  while (elapsed() < seconds / 2) {
    microseconds_of(stepped, forward);
  }
  std::vector<double> times = {microseconds_of(stepped, forward)};
  while (elapsed() < seconds) {
    times.push_back(microseconds_of(stepped, forward));
  }
  return median(times);
}

bool have_equal_bits(const Tensors& first, const Tensors& second) {
  const auto bits = [](const at::Tensor& tensor) { return tensor.flatten().view(torch::kUInt8); };
  return std::equal(first.begin(), first.end(), second.begin(), second.end(),
                    [&](const at::Tensor& a, const at::Tensor& b) {
                      return a.defined() == b.defined() && (!a.defined() || bits(a).equal(bits(b)));
                    });
}

// For each of `variants`, the median of its turns' ratios to the plain ones next to them.
std::vector<double> time_ratios(zoo::SteppedModel& stepped, const std::vector<Forward>& variants,
                                const Turns& turns) {
  const Forward plain = in_regions(zoo::Form::kPlain);
  std::vector<std::vector<double>> ratios(variants.size());
  for (int round = 0; round < turns.rounds; ++round) {
    for (std::size_t i = 0; i < variants.size(); ++i) {
      const double base = turn_microseconds(stepped, plain, turns.seconds);
      ratios[i].push_back(turn_microseconds(stepped, variants[i], turns.seconds) / base);
    }
  }
  std::vector<double> medians(ratios.size());
  std::transform(ratios.begin(), ratios.end(), medians.begin(), median);
  return medians;
}

void print_row(const zoo::Kind& kind, std::int64_t scale, const std::vector<Forward>& variants,
               const Turns& turns) {
  zoo::SteppedModel stepped(kind.name, scale);
  const zoo::Step& plain = stepped.plain();
  const auto plain_peak = static_cast<double>(plain.peak);
  std::cout << "| " << kind.name << " | " << kind.description << " | " << std::fixed
            << std::setprecision(1) << plain_peak / (1 << 20) << " MiB" << std::setprecision(2);
  const std::vector<double> ratios = time_ratios(stepped, variants, turns);
  bool is_same = true;
  for (std::size_t i = 0; i < variants.size(); ++i) {
    const zoo::Step found = stepped.run([&] { return variants[i](stepped.model()); });
    is_same = is_same && have_equal_bits(found.results, plain.results);
    std::cout << " | " << static_cast<double>(found.peak) / plain_peak << " | " << ratios[i];
  }
  std::cout << " | " << (is_same ? "yes" : "NO") << " |" << std::endl;
}

}  // namespace
}  // namespace reprise::bench

int main(int argc, char** argv) {
  CLI::App app("Training steps of small models with and without checkpointing; prints a table.");
  std::string only;
  std::int64_t scale = 16;
  reprise::bench::Turns turns;
  bool with_stores = false;
  app.add_option("--only", only, "models whose name contains this");
  app.add_option("--scale", scale, "of the batches");
  app.add_option("--rounds", turns.rounds, "turns of each variant");
  app.add_option("--seconds", turns.seconds, "of a turn, its first half not counted; 0: one step");
  app.add_flag("--stores", with_stores, "stores around plain steps in place of regions");
  CLI11_PARSE(app, argc, argv);
  at::set_num_threads(1);
  const auto variants = with_stores ? reprise::bench::ready_stores() : reprise::bench::forms();
  for (const reprise::zoo::Kind& kind : reprise::zoo::kinds()) {
    if (kind.name.find(only) != std::string::npos) {
      reprise::bench::print_row(kind, scale, variants, turns);
    }
  }
  return 0;
}
