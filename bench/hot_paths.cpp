// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The hot paths, for callgrind to count their instructions: regions around chains of two lengths,
// and their floors. Each is run a few times to warm up, then kRuns times, which are dumped under a
// name. bench/side_by_side/instructions.py runs this and makes costs of the counts.
//
// A path is in a process of its own: the number of instructions that malloc() takes depends on all
// that the process has allocated before.
#include <ATen/Parallel.h>
#include <sys/wait.h>
#include <unistd.h>
#include <valgrind/callgrind.h>

#include <cstdlib>
#include <functional>
#include <memory>
#include <string>

#include "bench/chain.h"
#include "reprise/engine/checkpoint.h"
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

void count_region(const std::string& name, const CheckpointOptions& options) {
  const at::Tensor x = leaf();
  for (const int length : kLengths) {
    count_alone(name + "/" + std::to_string(length),
                [&] { backward(checkpoint(options, chain, x, length), x); });
  }
}

void count_all() {
  const at::Tensor x = leaf();
  const auto keeping = std::make_shared<KeepingProvider>();
  for (const int length : kLengths) {
    count_alone("floor/" + std::to_string(length), [&] { run_floor(x, length); });
    count_alone("hooks that do nothing/" + std::to_string(length), [&] {
      const hooks_internal::HookScope hooks(keeping);
      run_floor(x, length);
    });
  }
  count_region("function", {});
  count_region("function, no early stop", {.early_stop = false});
  count_region("function, not watched",
               {.determinism_check = DeterminismCheck::kNone, .watch_operators = false});
  count_region("function, recompute", {.policy = policies::save_nothing()});
  count_region("function, save", {.policy = policies::save_everything()});
  count_region("scope", {.replay = ReplayMode::kTape});
  count_region("scope, save", {.policy = policies::save_everything(), .replay = ReplayMode::kTape});
}

}  // namespace
}  // namespace reprise::bench

int main() {
  at::set_num_threads(1);
  reprise::bench::count_all();
  return 0;
}
