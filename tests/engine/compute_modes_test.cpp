// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// A replay computes as forward did, whatever has been set since, and restores the present modes.
#include "reprise/engine/ambient/compute_modes.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/record_function.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "reprise/engine/checkpoint_scope.h"
#include "tests/conformance/conformance_fixture.h"
#include "tests/testing/replay_names.h"

namespace reprise::compute_modes_test {
namespace {

using testing::bitwise_equal;
using testing::leaf;
using testing::Tensors;

at::Context& context() { return at::globalContext(); }

struct Mode {
  std::string name;
  std::function<void(bool)> set;
  std::function<std::int64_t()> get;
};

struct Readings {
  std::int64_t before;
  std::int64_t on;
  std::int64_t off;
};

// Leaves the mode off.
Readings switch_off(const Mode& mode) {
  Readings readings{};
  readings.before = mode.get();
  mode.set(true);
  readings.on = mode.get();
  mode.set(false);
  readings.off = mode.get();
  return readings;
}

std::int64_t first_of_order() { return static_cast<std::int64_t>(context().sDPPriorityOrder()[0]); }

bool flushes_denormals() {
  const volatile float smallest_normal = std::numeric_limits<float>::min();
  return smallest_normal / 2 == 0;
}

#define REPRISE_MODE(set_name, get_name)                       \
  {                                                            \
#set_name, [](bool on) { context().set_name(on); },          \
        [] { return static_cast<std::int64_t>(context().get_name()); } \
  }

const std::vector<Mode>& modes() {
  static const std::vector<Mode> kModes = {
      REPRISE_MODE(setUserEnabledCuDNN, userEnabledCuDNN),
      REPRISE_MODE(setBenchmarkCuDNN, benchmarkCuDNN),
      REPRISE_MODE(setDeterministicCuDNN, deterministicCuDNN),
      REPRISE_MODE(setUserEnabledMkldnn, userEnabledMkldnn),
      REPRISE_MODE(setDeterministicMkldnn, deterministicMkldnn),
      REPRISE_MODE(setUserEnabledNNPACK, userEnabledNNPACK),
      REPRISE_MODE(setSDPUseFlash, userEnabledFlashSDP),
      REPRISE_MODE(setSDPUseMemEfficient, userEnabledMemEfficientSDP),
      REPRISE_MODE(setSDPUseMath, userEnabledMathSDP),
      REPRISE_MODE(setSDPUseCuDNN, userEnabledCuDNNSDP),
      REPRISE_MODE(setSDPUseOverrideable, userEnabledOverrideableSDP),
      REPRISE_MODE(setAllowFP16BF16ReductionMathSDP, allowFP16BF16ReductionMathSDP),
      REPRISE_MODE(setAllowFP16AccumulationCuBLAS, allowFP16AccumulationCuBLAS),
      REPRISE_MODE(setAllowFP16ReductionCuBLAS, allowFP16ReductionCuBLAS),
      REPRISE_MODE(setAllowBF16ReductionCuBLAS, allowBF16ReductionCuBLAS),
      REPRISE_MODE(setDeterministicFillUninitializedMemory, deterministicFillUninitializedMemory),
      REPRISE_MODE(setAllowTF32CuDNN, allowTF32CuDNN),
      REPRISE_MODE(setAllowTF32CuBLAS, allowTF32CuBLAS),
      {"setFloat32MatmulPrecision",
       [](bool on) { context().setFloat32MatmulPrecision(on ? "medium" : "highest"); },
       [] { return static_cast<std::int64_t>(context().float32MatmulPrecision()); }},
      {"setSDPPriorityOrder",
       [](bool on) {
         context().setSDPPriorityOrder(on ? std::vector<std::int64_t>{0, 1, 2, 3, 4}
                                          : std::vector<std::int64_t>{1, 2, 0, 3, 4});
       },
       first_of_order},
      {"setFlushDenormal", [](bool on) { context().setFlushDenormal(on); },
       [] { return std::int64_t{flushes_denormals()}; }},
      {"set_num_threads", [](bool on) { at::set_num_threads(on ? 3 : 1); },
       [] { return std::int64_t{at::get_num_threads()}; }}};
  return kModes;
}

// Returns the value of `mode` when operators of these names run in a replay.
class AtOperators {
 public:
  explicit AtOperators(const Mode& mode) {
    watched() = this;
    mode_ = &mode;
    callback_ = at::addGlobalCallback(
        at::RecordFunctionCallback([](const at::RecordFunction& f)
                                       -> std::unique_ptr<at::ObserverContext> {
          if (watched() != nullptr && is_recomputing()) {
            watched()->found[f.name()] = watched()->mode_->get();
          }
          return nullptr;
        }).scopes({at::RecordScope::FUNCTION}));
  }
  ~AtOperators() {
    at::removeCallback(callback_);
    watched() = nullptr;
  }
  AtOperators(const AtOperators&) = delete;
  AtOperators& operator=(const AtOperators&) = delete;

  std::map<std::string, std::int64_t> found;

 private:
  static AtOperators*& watched() {
    static AtOperators* instance = nullptr;
    return instance;
  }

  const Mode* mode_;
  at::CallbackHandle callback_;
};

class ComputeModesTest : public testing::ConformanceTest,
                         public ::testing::WithParamInterface<ReplayMode> {
 protected:
  // With the mode as it was before.
  void TearDown() override {
    at::set_num_threads(threads_);
    ConformanceTest::TearDown();
  }
  const int threads_ = at::get_num_threads();
};

INSTANTIATE_TEST_SUITE_P(Forms, ComputeModesTest,
                         ::testing::Values(ReplayMode::kFunction, ReplayMode::kTape),
                         testing::replay_name);

TEST_P(ComputeModesTest, AreThoseOfForwardInAReplayAndAsFoundBehindIt) {
  for (const Mode& mode : modes()) {
    SCOPED_TRACE(mode.name);
    const auto [before, on, off] = switch_off(mode);
    ASSERT_NE(on, off);
    for (const bool in_forward : {true, false}) {
      const at::Tensor x = leaf({3});
      mode.set(in_forward);
      const at::Tensor y = checkpoint(
          {.replay = GetParam()}, [](const at::Tensor& t) { return t.exp().sin(); }, x);
      mode.set(!in_forward);
      const AtOperators watch(mode);
      gradients(y, {x});
      EXPECT_EQ(watch.found.at("aten::exp"), in_forward ? on : off);
      EXPECT_EQ(mode.get(), in_forward ? off : on);
    }
    mode.set(before == on);
  }
}

// Elementwise operators record only the modes that affect them.
TEST_P(ComputeModesTest, MayChangeInsideARegion) {
  for (const Mode& mode : modes()) {
    SCOPED_TRACE(mode.name);
    const auto [before, on, off] = switch_off(mode);
    const at::Tensor x = leaf({3});
    const at::Tensor y = checkpoint(
        {.replay = GetParam()},
        [&](const at::Tensor& t) {
          at::Tensor h = t.cumsum(0);
          mode.set(true);
          h = h.logcumsumexp(0);
          mode.set(false);
          return h.flip(0).tanh();
        },
        x);
    const AtOperators watch(mode);
    gradients(y, {x});
    EXPECT_EQ(watch.found.at("aten::cumsum"), off);
    EXPECT_EQ(watch.found.at("aten::logcumsumexp"), on);
    EXPECT_EQ(watch.found.at("aten::flip"), off);
    EXPECT_EQ(mode.get(), off);
    mode.set(before == on);
  }
}

TEST_P(ComputeModesTest, NumbersOfThreadsOfOthersStay) {
  const auto of_a_new_thread = [] {
    int count = 0;
    std::thread([&] { count = at::get_num_threads(); }).join();
    return count;
  };
  at::set_num_threads(2);
  const at::Tensor x = leaf({3});
  const at::Tensor y = checkpoint(
      {.replay = GetParam()}, [](const at::Tensor& t) { return t.exp().sin(); }, x);
  at::set_num_threads(1);
  gradients(y, {x});
  EXPECT_EQ(at::get_num_threads(), 1);
  EXPECT_EQ(of_a_new_thread(), 1);
}

class ComputeModesGradientsTest : public ComputeModesTest {
 protected:
  using Code = std::function<at::Tensor(const at::Tensor&)>;

  // Forward with the mode on, backward with it off.
  at::Tensor gradient(const Mode& mode, const at::Tensor& values, const Code& code,
                      bool is_region) {
    const at::Tensor x = values.clone().requires_grad_();
    mode.set(true);
    const at::Tensor y = is_region ? checkpoint({.replay = GetParam()}, code, x) : code(x);
    mode.set(false);
    return gradients(y, {x})[0];
  }

  void expect_as_plain(const std::string& name, const at::Tensor& values, const Code& code) {
    const auto found = std::find_if(modes().begin(), modes().end(),
                                    [&](const Mode& mode) { return mode.name == name; });
    ASSERT_NE(found, modes().end());
    const at::Tensor expected = gradient(*found, values, code, false);
    EXPECT_TRUE(bitwise_equal(gradient(*found, values, code, true), expected));
  }
};

INSTANTIATE_TEST_SUITE_P(Forms, ComputeModesGradientsTest,
                         ::testing::Values(ReplayMode::kFunction, ReplayMode::kTape),
                         testing::replay_name);

TEST_P(ComputeModesGradientsTest, RestoreAnotherAttentionKernel) {
  const Code attention = [](const at::Tensor& t) {
    const at::Tensor q = t.view({1, 2, 6, 4});
    return at::scaled_dot_product_attention(q, q, q).sin();
  };
  context().setSDPUseFlash(false);
  expect_as_plain("setSDPPriorityOrder", at::randn({6, 8}), attention);
  context().setSDPUseFlash(true);
  expect_as_plain("setSDPUseFlash", at::randn({6, 8}), attention);
  context().setSDPUseFlash(true);
}

TEST_P(ComputeModesGradientsTest, RestoreTheNumberOfThreadsOfSums) {
  expect_as_plain("set_num_threads", at::randn({200001, 8}), [](const at::Tensor& t) {
    return t.sigmoid().sum(0, true).expand({1, 8}).sin() * t.sigmoid();
  });
}

TEST_P(ComputeModesGradientsTest, RestoreDenormalNumbers) {
  expect_as_plain("setFlushDenormal", at::randn({6, 8}), [](const at::Tensor& t) {
    const at::Tensor small = (t * 1e-30F) * 1e-9F;
    return small.exp() * small * 1e30F;
  });
}

}  // namespace
}  // namespace reprise::compute_modes_test
