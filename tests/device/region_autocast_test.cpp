// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Autocast on an accelerator, around regions and in them. The numbers in names are from
// docs/semantics.md.
#include <ATen/autocast_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <optional>
#include <stdexcept>
#include <vector>

#include "reprise/engine/checkpoint.h"
#include "reprise/policies/policies.h"
#include "tests/testing/bitwise.h"
#include "tests/testing/device/test_device.h"

namespace reprise::region_autocast_test {
namespace {

using testing::bitwise_equal;
using testing::kDeviceType;
using testing::test_device;

struct AutocastState {
  bool enabled;
  at::ScalarType dtype;
  bool caches;

  static AutocastState now() {
    return {at::autocast::is_autocast_enabled(kDeviceType),
            at::autocast::get_autocast_dtype(kDeviceType),
            at::autocast::is_autocast_cache_enabled()};
  }
  void set() const {
    at::autocast::set_autocast_enabled(kDeviceType, enabled);
    at::autocast::set_autocast_dtype(kDeviceType, dtype);
    at::autocast::set_autocast_cache_enabled(caches);
  }
  friend bool operator==(const AutocastState&, const AutocastState&) = default;
};

class [[nodiscard]] Autocast {
 public:
  explicit Autocast(const AutocastState& state) : found_(AutocastState::now()) {
    state.set();
    at::autocast::increment_nesting();
  }
  ~Autocast() {
    if (at::autocast::decrement_nesting() == 0) {
      at::autocast::clear_cache();
    }
    found_.set();
  }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  const AutocastState found_;
};

// Autocast is on around the call, in the code, or in neither.
enum class Where { kAround, kInside, kNowhere };

template <class Run>
std::vector<at::Tensor> product_gradients(Where where, const Run& run) {
  const AutocastState on{true, at::kBFloat16, true};
  torch::manual_seed(0);
  const std::vector<at::Tensor> leaves{at::randn({10, 5}).to(test_device()).requires_grad_(),
                                       at::randn({5, 5}).to(test_device()).requires_grad_()};
  const auto region = [&](const at::Tensor& x, const at::Tensor& w) {
    std::optional<Autocast> inside;
    if (where == Where::kInside) {
      inside.emplace(on);
    }
    const at::Tensor y = x.mm(w).mm(w).sin().mm(w);
    EXPECT_EQ(y.scalar_type(), where == Where::kNowhere ? at::kFloat : at::kBFloat16);
    const at::Tensor z = y.exp();
    EXPECT_EQ(z.scalar_type(), at::kFloat);
    return z;
  };
  at::Tensor y;
  {
    std::optional<Autocast> around;
    if (where == Where::kAround) {
      around.emplace(on);
    }
    y = run(region, leaves[0], leaves[1]);
  }
  auto gradients = torch::autograd::grad({y.sum()}, leaves);
  return {gradients[0].cpu(), gradients[1].cpu()};
}

TEST(DeviceAutocastTest, C108_ReplayOnTheDeviceSeesAutocast) {
  for (const Where where : {Where::kAround, Where::kInside, Where::kNowhere}) {
    const auto expected =
        product_gradients(where, [](auto& region, auto& x, auto& w) { return region(x, w); });
    const std::vector<CheckpointOptions> all = {
        {},
        {.replay = ReplayMode::kTape},
        {.policy = policies::save_matmuls()},
        {.policy = policies::save_matmuls(), .replay = ReplayMode::kTape}};
    for (const CheckpointOptions& options : all) {
      const auto found = product_gradients(
          where, [&](auto& region, auto& x, auto& w) { return checkpoint(options, region, x, w); });
      EXPECT_TRUE(bitwise_equal(found[0], expected[0]));
      EXPECT_TRUE(bitwise_equal(found[1], expected[1]));
    }
  }
}

TEST(DeviceAutocastTest, C108b_StateIsForwardsInAReplayAndBackwardsAfterIt) {
  const AutocastState forward{true, at::kBFloat16, false};
  const AutocastState backward{false, at::kFloat, true};
  for (const bool throws : {false, true}) {
    const at::Tensor x = at::ones({8}).requires_grad_();  // replays on this thread
    std::vector<AutocastState> seen;
    at::Tensor y;
    {
      const Autocast around(forward);
      y = checkpoint(
          [&](const at::Tensor& t) {
            seen.push_back(AutocastState::now());
            if (is_recomputing() && throws) {
              throw std::runtime_error("the replay fails");
            }
            return t.sin().exp();
          },
          x);
    }
    const Autocast around(backward);
    if (throws) {
      EXPECT_THAT([&] { y.sum().backward(); }, ::testing::ThrowsMessage<std::runtime_error>(
                                                   ::testing::HasSubstr("the replay fails")));
    } else {
      y.sum().backward();
    }
    EXPECT_EQ(seen, std::vector<AutocastState>(2, forward));
    EXPECT_EQ(AutocastState::now(), backward);
  }
}

}  // namespace
}  // namespace reprise::region_autocast_test
