// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Conformance rows 58 to 65: where a replay ends.
#include <ATen/ops/sin_cpu_dispatch.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include <atomic>
#include <optional>
#include <vector>

#include "tests/conformance/conformance_fixture.h"

namespace reprise::testing::early_stop_test {
namespace {

class CheckpointEarlyStopTest : public ConformanceTest {
 protected:
  // How often the code behind the region's last saved tensor runs, in forward and one backward that
  // runs after `forward`.
  template <class Forward>
  int runs_of_the_end(Forward forward) {
    int runs = 0;
    const at::Tensor x = leaf({3});
    const at::Tensor y = forward(
        [&runs](const at::Tensor& t) {
          const at::Tensor last_saved = t.sin().exp();
          ++runs;
          return last_saved.clone();
        },
        x);
    const at::Tensor gradient = gradients(y, {x})[0];
    EXPECT_TRUE(bitwise_equal(gradient, gradients(x.sin().exp().clone(), {x})[0]));
    return runs;
  }

  int runs_with(const CheckpointOptions& options) { return runs_of_the_end(InRegion{options}); }
};

TEST_F(CheckpointEarlyStopTest, C058_ReplayEndsWithTheLastSavedTensor) {
  EXPECT_EQ(runs_with({}), 1);
}

TEST_F(CheckpointEarlyStopTest, C059_OptionTurnsItOff) {
  EXPECT_EQ(runs_with({.early_stop = false}), 2);
  EXPECT_EQ(runs_with({.early_stop = true}), 1);
}

TEST_F(CheckpointEarlyStopTest, C060_GuardCountsAtForward) {
  for (const bool enabled : {false, true}) {
    const auto guarded_forward = [enabled](auto&& code, const at::Tensor& x) {
      const EarlyStopGuard guard(enabled);
      return checkpoint({.early_stop = !enabled}, code, x);
    };
    EXPECT_EQ(runs_of_the_end(guarded_forward), enabled ? 1 : 2);
  }
}

TEST_F(CheckpointEarlyStopTest, C060b_GuardAroundBackwardAloneChangesNothing) {
  int runs = 0;
  const at::Tensor x = leaf({3});
  const at::Tensor y = checkpoint(
      [&runs](const at::Tensor& t) {
        const at::Tensor last_saved = t.exp();
        ++runs;
        return last_saved.clone();
      },
      x);
  const EarlyStopGuard guard(false);
  gradients(y, {x});
  EXPECT_EQ(runs, 1);
}

TEST_F(CheckpointEarlyStopTest, C061_InnermostGuardWins) {
  const EarlyStopGuard outer(false);
  {
    const EarlyStopGuard inner(true);
    EXPECT_EQ(runs_with({.early_stop = false}), 1);
  }
  EXPECT_EQ(runs_with({.early_stop = true}), 2);
}

// While alive, counts how often the CPU kernel of aten::sin is called.
class SinKernelCount {
 public:
  SinKernelCount() : library_(torch::Library::IMPL, "aten", c10::DispatchKey::CPU, __FILE__, 0) {
    calls = 0;
    SilentWarnings silent;  // about a kernel that is registered already
    const c10::WarningUtils::WarningHandlerGuard guard(&silent);
    library_.impl("sin", &counted_sin);
  }
  static inline std::atomic<int> calls = 0;

 private:
  struct SilentWarnings final : c10::WarningHandler {
    void process(const c10::Warning& /*warning*/) override {}
  };
  static at::Tensor counted_sin(const at::Tensor& x) {
    ++calls;
    return at::cpu::sin(x);
  }
  torch::Library library_;
};

struct SinRuns {
  int of_code;
  int of_kernel;
};

SinRuns runs_of_sin(bool early_stop) {
  const SinKernelCount kernel;
  int runs = 0;
  const at::Tensor x = leaf({3});
  const at::Tensor y = checkpoint(
      {.early_stop = early_stop},
      [&runs](const at::Tensor& t) {
        ++runs;
        return t.sin();
      },
      x);
  y.sum().backward();
  return {runs, SinKernelCount::calls};
}

TEST_F(CheckpointEarlyStopTest, C063_OperatorThatSavesItsInputIsNotRunAgain) {
  const SinRuns runs = runs_of_sin(/*early_stop=*/true);
  EXPECT_EQ(runs.of_code, 2);
  EXPECT_EQ(runs.of_kernel, 1);
}

TEST_F(CheckpointEarlyStopTest, C064_ItIsRunAgainWithoutEarlyStop) {
  const SinRuns runs = runs_of_sin(/*early_stop=*/false);
  EXPECT_EQ(runs.of_code, 2);
  EXPECT_EQ(runs.of_kernel, 2);
}

TEST_F(CheckpointEarlyStopTest, C065_RegionThatSavesNothingIsNotReplayed) {
  for (const bool early_stop : {true, false}) {
    int runs = 0;
    const at::Tensor x = leaf({3});
    const at::Tensor y = checkpoint(
        {.early_stop = early_stop},
        [&runs](const at::Tensor& t) {
          ++runs;
          return t.clone();
        },
        x);
    EXPECT_EQ(live_frames(), 0) << "nobody asks the frame for anything";
    EXPECT_TRUE(bitwise_equal(gradients(y, {x})[0], torch::ones({3})));
    EXPECT_EQ(runs, 1);
  }
}

TEST_F(CheckpointEarlyStopTest, C065b_ReplayEndsWithTheLastTensorThatIsStillWanted) {
  int runs_of_first = 0;
  int runs_of_second = 0;
  const at::Tensor x = leaf({3});
  std::vector<at::Tensor> results = checkpoint(
      [&](const at::Tensor& t) -> std::vector<at::Tensor> {
        ++runs_of_first;
        const at::Tensor first = t.exp().clone();
        ++runs_of_second;
        return {first, t.cos().exp()};
      },
      x);
  watch(results[1]);
  results.pop_back();  // nobody can ask for its tensors any more
  gradients(results[0], {x});
  EXPECT_EQ(runs_of_first, 2);
  EXPECT_EQ(runs_of_second, 1);
}

}  // namespace
}  // namespace reprise::testing::early_stop_test
