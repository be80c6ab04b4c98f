// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The hot paths, for callgrind to count their instructions: regions around chains of two lengths,
// and their floors. Each is run a few times to warm up, then kRuns times, which are dumped under a
// name. bench/side_by_side/instructions.py runs this and makes costs of the counts. Then the bytes
// that regions hold per operator, which are printed.
//
// A path is in a process of its own: the number of instructions that malloc() takes depends on all
// that the process has allocated before.
#include <ATen/Parallel.h>
#include <ATen/ops/neg.h>
#include <malloc.h>
#include <sys/wait.h>
#include <unistd.h>
#include <valgrind/callgrind.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <utility>

#include "bench/chain.h"
#include "reprise/engine/checkpoint.h"
#include "reprise/engine/memory_budget.h"
#include "reprise/hooks/seam/hook_stack.h"
#include "reprise/policies/policies.h"

namespace reprise::bench {
namespace {

constexpr int kWarmUps = 5;
constexpr int kRuns = 20;
constexpr int kLengths[] = {1, 65};

// The least that hooks can do. LibTorch's cost for them is paid twice by every tensor in a region,
// in forward and in the replay.
class KeepingHooks final : public hooks_internal::SavedVariableHooks {
 public:
  void call_pack_hook(const at::Tensor& tensor) override { kept_ = tensor; }
  at::Tensor call_unpack_hook() override { return kept_; }

 private:
  at::Tensor kept_;
};

class KeepingProvider final : public hooks_internal::HookProvider {
 public:
  std::unique_ptr<hooks_internal::SavedVariableHooks> make_hooks() override {
    return std::make_unique<KeepingHooks>();
  }
};

void count(const std::string& name, const std::function<void()>& run) {
  for (int i = 0; i < kWarmUps; ++i) {
    run();
  }
  CALLGRIND_START_INSTRUMENTATION;
  CALLGRIND_ZERO_STATS;
  for (int i = 0; i < kRuns; ++i) {
    run();
  }
  CALLGRIND_DUMP_STATS_AT(name.c_str());
  CALLGRIND_STOP_INSTRUMENTATION;
}

void count_alone(const std::string& name, const std::function<void()>& run) {
  const pid_t child = ::fork();
  if (child == 0) {
    count(name, run);
    std::_Exit(0);
  }
  int status = -1;
  TORCH_CHECK(child > 0 && ::waitpid(child, &status, 0) == child && status == 0, name, " failed");
}

// Operators of which autograd saves nothing, and then one that saves what they have made.
at::Tensor negations(at::Tensor x, int length) {
  for (int i = 0; i < length; ++i) {
    x = at::neg(x);
  }
  return at::sin(x);
}

void count_lengths(const std::string& name, const std::function<void(int length)>& run) {
  for (const int length : kLengths) {
    count_alone(name + "/" + std::to_string(length), [&] { run(length); });
  }
}

void count_region(const std::string& name, const CheckpointOptions& options, Code code = chain) {
  const at::Tensor x = leaf();
  count_lengths(name, [&](int length) { backward(checkpoint(options, code, x, length), x); });
}

void count_budget() {
  const at::Tensor x = leaf();
  MemoryBudget budget({.peak_bytes = std::int64_t{1} << 40});  // each length is in its own process
  count_lengths("budget", [&](int length) {
    BudgetScope step(budget);
    const at::Tensor y = chain(x, length);
    std::move(step).close();
    backward(y, x);
  });
}

void count_all() {
  const auto keeping = std::make_shared<KeepingProvider>();
  const at::Tensor x = leaf();
  count_lengths("floor", [&](int length) { run_floor(x, length); });
  count_lengths("floor, once", [&](int length) { backward(chain(x, length), x); });
  count_lengths("floor, nothing saved", [&](int length) { run_floor(x, length, negations); });
  count_lengths("hooks that do nothing", [&](int length) {
    const hooks_internal::HookScope hooks(keeping);
    run_floor(x, length);
  });
  count_region("function", {});
  count_region("function, nothing saved", {}, negations);
  count_region("function, no early stop", {.early_stop = false});
  count_region("function, not watched",
               {.determinism_check = DeterminismCheck::kNone, .watch_operators = false});
  count_region("function, recompute", {.policy = policies::save_nothing()});
  count_region("function, save", {.policy = policies::save_everything()});
  count_region("scope", {.replay = ReplayMode::kTape});
  count_region("scope, nothing saved", {.replay = ReplayMode::kTape}, negations);
  count_region("scope, recompute",
               {.policy = policies::save_nothing(), .replay = ReplayMode::kTape});
  count_region("scope, save", {.policy = policies::save_everything(), .replay = ReplayMode::kTape});
  count_budget();
}

// Returns the bytes that the heap holds while there is a graph.
double bytes_held(const std::function<at::Tensor()>& forward) {
  const auto in_use = [] { return static_cast<double>(::mallinfo2().uordblks); };
  double bytes = 0;
  for (int i = 0; i < kWarmUps; ++i) {
    const double before = in_use();
    const at::Tensor y = forward();
    bytes = in_use() - before;
  }
  return bytes;
}

// Prints the bytes per operator that a region's graph and record hold.
void weigh(const std::string& name, const CheckpointOptions& options, Code code = chain) {
  const at::Tensor x = leaf();
  const auto held_by = [&](int length) {
    return bytes_held([&] { return checkpoint(options, code, x, length); });
  };
  constexpr int kLong = 1025, kShort = 513;  // past the first growth of tables
  const double bytes = (held_by(kLong) - held_by(kShort)) / (kLong - kShort);
  std::cout << name << ": bytes of an operator\t" << std::llround(bytes) << '\n';
}

void weigh_all() {
  weigh("function", {});
  weigh("function, nothing saved", {}, negations);
  weigh("function, recompute", {.policy = policies::save_nothing()});
  weigh("function, save", {.policy = policies::save_everything()});
  weigh("scope", {.replay = ReplayMode::kTape});
  weigh("scope, nothing saved", {.replay = ReplayMode::kTape}, negations);
  weigh("scope, save", {.policy = policies::save_everything(), .replay = ReplayMode::kTape});
}

}  // namespace
}  // namespace reprise::bench

int main() {
  at::set_num_threads(1);
  reprise::bench::count_all();
  reprise::bench::weigh_all();
  return 0;
}
