// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The time that offloading hides, on the test device: a step of a chain of layers, whose kernels
// and copies take set times, for links of several speeds. Prints a table, and writes the tasks of
// one step of each kind to a file for tools/offload-timeline to draw.
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "reprise/hooks/host_store.h"
#include "reprise/hooks/store_guard.h"
#include "tests/testing/device/test_device.h"

namespace reprise::offload_timeline {
namespace {

using testing::Delays;
using testing::TaskSpan;
using testing::Work;
using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::duration<double, std::milli>;

constexpr int kLayers = 10;
constexpr std::int64_t kElements = 32 * 1024;
constexpr std::int64_t kBytes = kElements * 4;
constexpr auto kKernel = std::chrono::microseconds(4000);

enum class Kind { kNone, kWaitedFor, kBeside };
const std::map<Kind, std::string>& names() {
  static const std::map<Kind, std::string> kNames = {{Kind::kNone, "no offload"},
                                                     {Kind::kWaitedFor, "each copy waited for"},
                                                     {Kind::kBeside, "stores::host()"}};
  return kNames;
}

std::shared_ptr<HostStore> store_for(Kind kind) {
  // As SaveOnCpuGuard, but without prefetch, like torch.autograd.graph.save_on_cpu.
  return kind == Kind::kWaitedFor ? stores::host({.max_in_flight_bytes = 0, .keep_last = 0})
                                  : stores::host({.max_in_flight_bytes = 2 * kBytes});
}

struct Step {
  double milliseconds;
  HostCounters counters;
  std::vector<TaskSpan> spans;
  Clock::time_point begin;
};

// Each layer saves its result.
Step run_step(Kind kind, const Delays& delays) {
  const at::Tensor x = at::ones({kElements}, testing::test_device()).requires_grad_();
  const auto store = store_for(kind);
  const testing::DelayGuard delaying(delays);
  const testing::TraceGuard tracing;
  const auto begin = Clock::now();
  at::Tensor h = x;
  {
    std::optional<StoreGuard> guard;
    if (kind != Kind::kNone) {
      guard.emplace(store, StoreGuardOptions{.prefetch_depth = kind == Kind::kBeside ? 2 : 0});
    }
    for (int layer = 0; layer < kLayers; ++layer) {
      h = h.tanh();
    }
  }
  h.backward(at::ones_like(h));
  auto spans = testing::TraceGuard::take_spans();
  const Milliseconds time = Clock::now() - begin;
  return {time.count(), store->counters(), std::move(spans), begin};
}

Step median_step(Kind kind, const Delays& delays) {
  std::vector<Step> steps;
  for (int i = 0; i < 5; ++i) {
    steps.push_back(run_step(kind, delays));
  }
  std::sort(steps.begin(), steps.end(),
            [](const Step& a, const Step& b) { return a.milliseconds < b.milliseconds; });
  return steps[steps.size() / 2];
}

Delays delays_for(double copy_milliseconds) {
  return {.kernel = kKernel,
          .copy_bytes_per_microsecond = static_cast<double>(kBytes) / (copy_milliseconds * 1000),
          .free_at_once = true};
}

void write_spans(std::ostream& out, Kind kind, const Step& step) {
  for (const TaskSpan& span : step.spans) {
    const Milliseconds begin = span.begin - step.begin;
    const Milliseconds end = span.end - step.begin;
    const char* const row = span.work == Work::kKernel    ? "compute"
                            : span.work == Work::kCopyOut ? "out"
                                                          : "in";
    out << names().at(kind) << ',' << row << ',' << begin.count() << ',' << end.count() << '\n';
  }
}

double in_milliseconds(std::chrono::nanoseconds time) { return Milliseconds(time).count(); }

void print_table(std::ostream& tasks) {
  std::cout
      << "| a copy takes | " << names().at(Kind::kNone) << " | " << names().at(Kind::kWaitedFor)
      << " | " << names().at(Kind::kBeside)
      << " | of that, backward waits | forward waits |\n| --- | --- | --- | --- | --- | --- |\n"
      << std::fixed << std::setprecision(0);
  for (const double copy : {2.0, 4.0, 8.0, 16.0}) {
    const Delays delays = delays_for(copy);
    std::map<Kind, Step> steps;
    for (const auto& [kind, name] : names()) {
      steps.emplace(kind, median_step(kind, delays));
      if (copy == 4.0) {
        write_spans(tasks, kind, steps.at(kind));
      }
    }
    const HostCounters& counters = steps.at(Kind::kBeside).counters;
    std::cout << "| " << copy << " ms";
    for (const auto& [kind, name] : names()) {
      std::cout << " | " << steps.at(kind).milliseconds << " ms";
    }
    std::cout << " | " << in_milliseconds(counters.wait_time) << " ms | "
              << in_milliseconds(counters.put_wait_time) << " ms |\n";
  }
}

}  // namespace
}  // namespace reprise::offload_timeline

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: offload_timeline FILE\n";
    return 2;
  }
  std::ofstream tasks(argv[1]);
  tasks << "kind,row,begin_ms,end_ms\n";
  reprise::offload_timeline::print_table(tasks);
  return tasks.good() ? 0 : 1;
}
