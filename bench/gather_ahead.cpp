// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Steps of two ranks that keep half of each region's input, over a link of several delays: with
// gathers that start when they are needed, and with gathers a region ahead. Prints JSON.
//
// The ranks are threads, and both the link and the layers take set times and next to nothing of the
// processor's, so that a small machine shows the hidden time.
#include <ATen/Parallel.h>
#include <torch/torch.h>

#include <CLI/CLI.hpp>
#include <barrier>
#include <chrono>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "bench/slow_link.h"
#include "reprise/engine/checkpoint.h"
#include "reprise/partition/partitioned_store.h"

namespace reprise::bench {
namespace {

using Json = nlohmann::ordered_json;
using Clock = SlowLink::Clock;

constexpr int kRanks = 2;
constexpr int kLayers = 10;
constexpr std::chrono::milliseconds kForward{4};
constexpr std::chrono::milliseconds kBackward{8};
constexpr std::chrono::milliseconds kDelays[] = {
    std::chrono::milliseconds(0), std::chrono::milliseconds(2), std::chrono::milliseconds(5),
    std::chrono::milliseconds(10), std::chrono::milliseconds(20)};

struct Layer : torch::autograd::Function<Layer> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& h) {
    std::this_thread::sleep_for(kForward);
    context->save_for_backward({h});
    return h * h;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    std::this_thread::sleep_for(kBackward);
    return {gradients[0] * context->get_saved_variables()[0] * 2};
  }
};

struct Variant {
  std::string name;
  std::optional<CheckpointOptions> options;
};

std::vector<Variant> variants(const std::shared_ptr<SlowLink>& link, int rank) {
  const auto parts = stores::partitioned(join(link, rank));
  return {{"none", std::nullopt},
          {"checkpoint", CheckpointOptions{}},
          {"when needed", CheckpointOptions{.input_store = parts, .prefetch_depth = 0}},
          {"one ahead", CheckpointOptions{.input_store = parts, .prefetch_depth = 1}},
          {"two ahead", CheckpointOptions{.input_store = parts, .prefetch_depth = 2}}};
}

double step_milliseconds(const Variant& variant, const at::Tensor& x) {
  const auto start = Clock::now();
  const auto layer = [](const at::Tensor& t) { return Layer::apply(t); };
  at::Tensor h = x * 1;
  for (int i = 0; i < kLayers; ++i) {
    h = variant.options ? checkpoint(*variant.options, layer, h) : layer(h);
  }
  h.sum().backward();
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

Json steps(int rounds) {
  const auto link = std::make_shared<SlowLink>(kRanks);
  std::barrier together(kRanks);
  Json result;
  const auto run_rank = [&](int rank) {
    const at::Tensor x = at::ones({64 * 1024}).requires_grad_();
    const std::vector<Variant> all = variants(link, rank);
    for (const auto delay : kDelays) {
      together.arrive_and_wait();
      link->set_delay(delay);
      Json times;
      for (int round = 0; round < rounds + 1; ++round) {  // the first fills caches
        for (const Variant& variant : all) {
          together.arrive_and_wait();
          const double time = step_milliseconds(variant, x);
          if (round > 0) {
            times[variant.name].push_back(time);
          }
        }
      }
      if (rank == 0) {
        result.push_back({{"delay_ms", delay.count()}, {"step_ms", std::move(times)}});
      }
    }
  };
  std::thread other(run_rank, 1);
  run_rank(0);
  other.join();
  return result;
}

}  // namespace
}  // namespace reprise::bench

int main(int argc, char** argv) {
  CLI::App app("Steps of two ranks with partitioned inputs, over links of several delays; JSON.");
  int rounds = 7;
  app.add_option("--rounds", rounds, "timed steps of each variant");
  CLI11_PARSE(app, argc, argv);
  at::set_num_threads(1);
  std::cout << reprise::bench::steps(rounds).dump(1) << '\n';
  return 0;
}
