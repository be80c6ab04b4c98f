// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Memory that its owner frees and fills again, such as the parameters that FSDP2 gathers: a tape
// reads it where it is, and asks the owner for it.
#include <ATen/native/Resize.h>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "reprise/engine/errors.h"
#include "reprise/engine/memory_budget.h"
#include "reprise/engine/region/framework_code.h"
#include "reprise/hooks/stores.h"
#include "tests/conformance/conformance_fixture.h"
#include "tests/engine/budgeted_steps.h"

namespace reprise::testing::refillable_memory_test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// Gathers a weight before its layer runs, and frees it afterwards.
struct Unit {
  Unit(at::Tensor weights, bool requires_grad)
      : shard(std::move(weights)), whole(at::empty(shard.sizes())) {
    whole.set_requires_grad(requires_grad);
    free();
  }

  void gather() {
    if (whole.storage().nbytes() == 0) {
      const engine_internal::FrameworkCodeGuard code;
      const at::NoGradGuard no_grad;
      at::native::resize_bytes_nocuda(whole.storage(), static_cast<std::int64_t>(shard.nbytes()));
      const std::int64_t version = whole._version();
      whole.detach().copy_(shard.mul(2));
      c10::VariableVersion counter = whole.unsafeGetTensorImpl()->version_counter();
      counter.set_version(version);
      ++gathers;
    }
  }
  void free() const { at::native::resize_bytes_nocuda(whole.storage(), 0); }

  at::Tensor shard;
  at::Tensor whole;
  int gathers = 0;
};

class RefillableMemoryTest : public ConformanceTest,
                             public ::testing::WithParamInterface<CheckpointOptions> {
 protected:
  static constexpr int kUnits = 3;

  void TearDown() override {
    units_.clear();
    ConformanceTest::TearDown();
  }

  // All of `count` units in one region. Weights of 2 MiB: more than a region copies.
  void make_units(bool are_trained) {
    torch::manual_seed(3);
    for (int i = 0; i < kUnits; ++i) {
      auto unit = std::make_shared<Unit>(at::randn({512, 1024}) / 32, are_trained);
      engine_internal::set_refillable({unit->whole}, [unit = unit.get()] { unit->gather(); });
      units_.push_back(std::move(unit));
    }
  }

  at::Tensor run(const at::Tensor& x) const {
    at::Tensor h = x;
    for (const auto& unit : units_) {
      unit->gather();
      h = h.mm(unit->whole).tanh().mm(unit->whole.t());
      unit->free();
    }
    return h.sin();
  }

  Tensors inputs(const at::Tensor& x) const {
    Tensors all{x};
    for (const auto& unit : units_) {
      if (unit->whole.requires_grad()) {
        all.push_back(unit->whole);
      }
    }
    return all;
  }

  // As plain computes them: with weights that stay whole.
  Tensors expected(const at::Tensor& x) {
    at::Tensor h = x;
    Tensors weights{x};
    for (const auto& unit : units_) {
      const at::Tensor whole = unit->shard.mul(2).set_requires_grad(unit->whole.requires_grad());
      h = h.mm(whole).tanh().mm(whole.t());
      if (whole.requires_grad()) {
        weights.push_back(whole);
      }
    }
    return gradients(h.sin(), weights);
  }

  std::vector<std::shared_ptr<Unit>> units_;
};

TEST_P(RefillableMemoryTest, IsFilledByItsOwnerOnce) {
  for (const bool are_trained : {true, false}) {
    SCOPED_TRACE(are_trained);
    units_.clear();
    make_units(are_trained);
    const at::Tensor x = leaf({4, 512});
    const at::Tensor y = checkpoint(
        GetParam(), [this](const at::Tensor& t) { return run(t); }, x);
    expect_same_bits(gradients(y, inputs(x)), expected(x));
    for (const auto& unit : units_) {
      EXPECT_EQ(unit->gathers, 2);
    }
  }
}

TEST_P(RefillableMemoryTest, IsAnErrorIfItsOwnerHasOtherContentsSince) {
  make_units(/*are_trained=*/false);
  const at::Tensor x = leaf({4, 512});
  const at::Tensor y = checkpoint(
      GetParam(), [this](const at::Tensor& t) { return run(t); }, x);
  units_[1]->shard.data_ptr<float>()[12345] += 1;
  EXPECT_THAT([&] { gradients(y, inputs(x)); },
              ThrowsMessage<MutationError>(HasSubstr("Float [512, 1024]")));
}

TEST_P(RefillableMemoryTest, IsAnErrorIfItsOwnerDoesNotFillIt) {
  make_units(/*are_trained=*/true);
  engine_internal::set_refillable({units_[0]->whole}, [] {});
  const at::Tensor x = leaf({4, 512});
  const at::Tensor y = checkpoint(
      GetParam(), [this](const at::Tensor& t) { return run(t); }, x);
  EXPECT_THAT([&] { gradients(y, inputs(x)); },
              ThrowsMessage<MutationError>(HasSubstr("whose storage has been resized to 0 bytes")));
}

INSTANTIATE_TEST_SUITE_P(
    Tapes, RefillableMemoryTest,
    ::testing::Values(CheckpointOptions{.replay = ReplayMode::kTape},
                      CheckpointOptions{.replay = ReplayMode::kTape, .copied_state_limit_bytes = 0},
                      CheckpointOptions{.replay = ReplayMode::kTape,
                                        .input_store = stores::disk({.min_bytes = 0})}));

class RefillableMemoryInABudgetTest : public BudgetedSteps {
 protected:
  static constexpr int kUnits = 3;

  static at::Tensor loss(const std::vector<std::shared_ptr<Unit>>& units, const at::Tensor& x) {
    at::Tensor h = x;
    for (const auto& unit : units) {
      unit->gather();
      h = h.mm(unit->whole).tanh().sin().mm(unit->whole.t()).exp();
      unit->free();
      h.register_hook([unit](const at::Tensor& gradient) {
        unit->gather();  // as FSDP2 does, before backward comes to the unit
        return gradient;
      });
      h = h.sin();
    }
    return h.sum();
  }

  // Returns the gradient, and the bytes at the peak beyond those before the step.
  template <typename Forward>
  static std::pair<at::Tensor, std::int64_t> step(const std::vector<std::shared_ptr<Unit>>& units,
                                                  const at::Tensor& x, const Forward& forward) {
    const std::int64_t before = cpu_memory().current_bytes;
    reset_peak_cpu_memory();
    at::Tensor gradient = torch::autograd::grad({forward()}, {x})[0];
    const std::int64_t bytes = cpu_memory().peak_bytes - before;
    for (const auto& unit : units) {
      unit->free();
      EXPECT_EQ(std::exchange(unit->gathers, 0), 2);
    }
    return {gradient, bytes};
  }
};

// A plan of its own that a rank follows must not decide whether it takes part in gathering.
TEST_F(RefillableMemoryInABudgetTest, IsFilledByItsOwnerOnly) {
  std::vector<std::shared_ptr<Unit>> units;
  for (int i = 0; i < kUnits; ++i) {
    units.push_back(std::make_shared<Unit>(at::randn({512, 1024}) / 32, /*requires_grad=*/true));
    engine_internal::set_refillable({units.back()->whole}, [] { FAIL() << "gathered by a plan"; });
  }
  const at::Tensor x = leaf({512, 512});
  const auto [expected, peak] = step(units, x, [&] { return loss(units, x); });
  for (const double share : {1.0, 0.85}) {
    SCOPED_TRACE(share);
    MemoryBudget budget(
        {.peak_bytes = cpu_memory().current_bytes +
                       static_cast<std::int64_t>(share * static_cast<double>(peak))});
    for (int i = 0; i < 4; ++i) {
      const auto [gradient, bytes] = step(units, x, [&] {
        const BudgetScope scope(budget);
        return loss(units, x);
      });
      EXPECT_TRUE(bitwise_equal(gradient, expected));
      EXPECT_LE(bytes, share * static_cast<double>(peak));
    }
  }
}

}  // namespace
}  // namespace reprise::testing::refillable_memory_test
