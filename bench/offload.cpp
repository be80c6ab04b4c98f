// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The cost of keeping autograd's saved tensors in host memory. Prints JSON.
//
// By default on the test device of tests/testing/device, whose kernels and copies take set times,
// so that a machine without an accelerator shows what is hidden: interleaved steps of a chain of
// layers, for links of several speeds. On the CPU, what the bookkeeping of one saved tensor takes.
// With --cuda steps of a GPT on a GPU, and the peak of its memory. bench/side_by_side/offload.py is
// the same for Python's torch.autograd.graph.save_on_cpu.
#include <ATen/Parallel.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/torch.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "bench/models/model.h"
#include "reprise/hooks/host_store.h"
#include "reprise/hooks/save_on_cpu.h"
#include "reprise/hooks/store_guard.h"
#include "tests/testing/device/test_device.h"

namespace reprise::bench {
namespace {

using Forward = std::function<at::Tensor()>;
using Json = nlohmann::ordered_json;

// As offload.py has them.
constexpr int kLayers = 10;
constexpr std::int64_t kElements = 32 * 1024;
constexpr std::chrono::microseconds kKernel{4000};
constexpr double kCopyMilliseconds[] = {2, 4, 8};
constexpr int kShort = 8;
constexpr int kLong = 136;

struct Variant {
  std::string name;
  std::function<at::Tensor(const Forward&)> run;
};

// Two saved tensors of a chain may be on their way out.
std::vector<Variant> variants(std::int64_t max_in_flight_bytes = 2 * 4 * kElements) {
  const auto saved_on_cpu = [](const Forward& forward) {
    const SaveOnCpuGuard guard({.pin_memory = true});
    return forward();
  };
  const auto in_host_store =
      [host = stores::host({.max_in_flight_bytes = max_in_flight_bytes})](const Forward& forward) {
        const StoreGuard guard(host, {.prefetch_depth = 2});
        return forward();
      };
  return {{"none", [](const Forward& forward) { return forward(); }},
          {"save_on_cpu", saved_on_cpu},
          {"host", in_host_store}};
}

void synchronize(c10::Device device) {
  if (device.is_cpu()) {
    return;
  }
  c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(device.index());
}

double step_microseconds(const Variant& variant, const Forward& forward, c10::Device device) {
  const auto start = std::chrono::steady_clock::now();
  variant.run(forward).backward();
  synchronize(device);
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start)
      .count();
}

Json interleaved_steps(const std::vector<Variant>& variants, const Forward& forward,
                       c10::Device device, int rounds) {
  Json steps;
  for (int round = 0; round < rounds + 1; ++round) {  // the first fills caches
    for (const Variant& variant : variants) {
      const double time = step_microseconds(variant, forward, device) / 1000;
      if (round > 0) {
        steps[variant.name].push_back(time);
      }
    }
  }
  return steps;
}

at::Tensor chain(const at::Tensor& x, int length) {
  at::Tensor h = x;
  for (int i = 0; i < length; ++i) {
    h = h.tanh();
  }
  return h.sum();
}

Json steps_of_a_chain(int rounds) {
  const std::vector<Variant> all = variants();
  const c10::Device device = testing::test_device();
  const at::Tensor x = at::ones({kElements}, device).requires_grad_();
  Json result;
  for (const double copy : kCopyMilliseconds) {
    const testing::DelayGuard delays({.kernel = kKernel,
                                      .copy_bytes_per_microsecond = kElements * 4 / (copy * 1000),
                                      .free_at_once = true});
    result.push_back({{"copy_ms", copy},
                      {"step_ms", interleaved_steps(
                                      all, [&] { return chain(x, kLayers); }, device, rounds)}});
  }
  return result;
}

// Microseconds that one more saved tensor takes if it is on the host already, so that nothing is
// copied: the bookkeeping. One figure a round.
Json cost_of_a_saved_tensor(int rounds) {
  const c10::Device device(c10::DeviceType::CPU);
  const at::Tensor x = at::ones({4}).requires_grad_();
  const std::vector<Variant> all = variants();
  Json costs;
  for (int round = 0; round < rounds + 1; ++round) {  // the first fills caches
    for (const Variant& variant : all) {
      const auto step = [&](int length) {
        return step_microseconds(
            variant, [&] { return chain(x, length); }, device);
      };
      const double shorter = step(kShort);
      const double longer = step(kLong);
      if (round > 0) {
        costs[variant.name].push_back((longer - shorter) / (kLong - kShort));
      }
    }
  }
  return costs;
}

Json peaks(const std::vector<Variant>& variants, const Forward& forward, c10::Device device) {
  auto* const allocator = c10::getDeviceAllocator(device.type());
  Json result;
  for (const Variant& variant : variants) {
    synchronize(device);
    allocator->resetPeakStats(0);
    const auto before = allocator->getDeviceStats(0).allocated_bytes[0].current;
    step_microseconds(variant, forward, device);
    result[variant.name] = allocator->getDeviceStats(0).allocated_bytes[0].peak - before;
  }
  return result;
}

Json measure_on_cuda(int rounds) {
  const c10::Device device(c10::DeviceType::CUDA, 0);
  torch::manual_seed(0);
  const Model model = gpt::make(/*fused=*/true, gpt::Size::kLarge, device);
  const Forward forward = [&] { return run_plainly(model); };
  const std::vector<Variant> all = variants(HostOptions{}.max_in_flight_bytes);
  Json steps = interleaved_steps(all, forward, device, rounds);
  return {{"step_ms", std::move(steps)}, {"peak_bytes", peaks(all, forward, device)}};
}

}  // namespace
}  // namespace reprise::bench

int main(int argc, char** argv) {
  CLI::App app("Steps with what autograd saves in host memory; prints JSON.");
  bool cuda = false;
  int rounds = 7;
  app.add_flag("--cuda", cuda, "a GPT on a GPU, not the test device");
  app.add_option("--rounds", rounds, "timed steps of each variant");
  CLI11_PARSE(app, argc, argv);
  at::set_num_threads(1);
  const nlohmann::ordered_json result =
      cuda ? reprise::bench::measure_on_cuda(rounds)
           : nlohmann::ordered_json{
                 {"chain", reprise::bench::steps_of_a_chain(rounds)},
                 {"saved_tensor_us", reprise::bench::cost_of_a_saved_tensor(30 * rounds)}};
  std::cout << result.dump(1) << '\n';
  return 0;
}
