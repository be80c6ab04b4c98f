// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Memory that its owner frees and fills again, such as the parameters that FSDP2 gathers: a tape
// reads it where it is, and asks the owner for it.
#include <ATen/native/Resize.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <string>
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

using ::testing::ElementsAre;
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

// The next one's while operators read this one's.
TEST_P(RefillableMemoryTest, IsBegunToBeFilledAhead) {
  make_units(/*are_trained=*/true);
  std::vector<std::string> log;
  for (int i = 0; i < kUnits; ++i) {
    const auto fill = [&log, i, unit = units_[i].get()] {
      log.push_back("fill " + std::to_string(i));
      unit->gather();
    };
    const auto start = [&log, i] { log.push_back("start " + std::to_string(i)); };
    engine_internal::set_refillable({units_[i]->whole}, fill, start);
  }
  const at::Tensor x = leaf({4, 512});
  const at::Tensor y = checkpoint(
      GetParam(), [this](const at::Tensor& t) { return run(t); }, x);
  expect_same_bits(gradients(y, inputs(x)), expected(x));
  EXPECT_THAT(log, ElementsAre("fill 0", "start 1", "fill 1", "start 2", "fill 2"));
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

// Steps over units whose owners, as FSDP2, fill memory before forward and before backward of a
// unit.
class RefillableMemoryInABudgetTest : public BudgetedSteps {
 protected:
  using Units = std::vector<std::shared_ptr<Unit>>;
  static constexpr int kUnits = 3;

  // Weights of more than 1 MiB: more than a budget copies.
  static Units make_units() {
    Units units;
    for (int i = 0; i < kUnits; ++i) {
      units.push_back(std::make_shared<Unit>(at::randn({256, 1040}) / 32, /*requires_grad=*/true));
      engine_internal::set_refillable({units.back()->whole},
                                      [] { FAIL() << "gathered by a plan"; });
    }
    return units;
  }

  // Runs `code` as the forward of a unit that returns tensors.
  template <typename Code>
  static Tensors in_unit(const std::shared_ptr<Unit>& unit, const Code& code) {
    unit->gather();
    engine_internal::set_in_use(unit->whole, true);
    Tensors results = code();
    unit->free();
    engine_internal::set_in_use(unit->whole, false);
    for (const at::Tensor& result : results) {
      result.register_hook([unit](const at::Tensor& gradient) {
        unit->gather();
        return gradient;
      });
    }
    return results;
  }

  static at::Tensor loss(const Units& units, const at::Tensor& x) {
    at::Tensor h = x;
    for (const auto& unit : units) {
      h = in_unit(unit,
                  [&] {
                    h = h.mm(unit->whole).tanh().mm(unit->whole.t());
                    return Tensors{h.sin().mm(unit->whole).tanh().mm(unit->whole.t()).exp()};
                  })[0]
              .sin();
    }
    return h.sum();
  }

  // Returns the gradients, and the bytes at the peak beyond those before the step.
  template <typename Forward>
  static std::pair<Tensors, std::int64_t> step(const Units& units, const at::Tensor& x,
                                               const Forward& forward) {
    const std::int64_t before = cpu_memory().current_bytes;
    reset_peak_cpu_memory();
    Tensors inputs{x};
    for (const auto& unit : units) {
      inputs.push_back(unit->whole);
    }
    Tensors gradients = torch::autograd::grad({forward()}, inputs);
    const std::int64_t bytes = cpu_memory().peak_bytes - before;
    for (const auto& unit : units) {
      unit->free();
      EXPECT_EQ(std::exchange(unit->gathers, 0), 2);
    }
    return {gradients, bytes};
  }

  // Expects the gradients of `forward` in four steps within this share of its peak.
  template <typename Forward>
  static void expect_as_plain(const Units& units, const at::Tensor& x, double share,
                              const Forward& forward) {
    SCOPED_TRACE(share);
    const auto [expected, peak] = step(units, x, forward);
    const auto limit = static_cast<std::int64_t>(share * static_cast<double>(peak));
    MemoryBudget budget({.peak_bytes = cpu_memory().current_bytes + limit});
    for (int i = 0; i < 4; ++i) {
      const auto [gradients, bytes] = step(units, x, [&] {
        const BudgetScope scope(budget);
        return forward();
      });
      expect_same_bits(gradients, expected);
      EXPECT_LE(bytes, limit);
    }
  }
};

// A plan of its own that a rank follows must not decide whether it takes part in gathering.
TEST_F(RefillableMemoryInABudgetTest, IsFilledByItsOwnerOnly) {
  const Units units = make_units();
  const at::Tensor x = leaf({512, 256});
  for (const double share : {1.0, 0.7}) {
    expect_as_plain(units, x, share, [&] { return loss(units, x); });
  }
}

// Outside of the unit, its memory may have been freed by the time backward comes to the use.
TEST_F(RefillableMemoryInABudgetTest, ResultsUsedOutsideOfTheUnitAreRetained) {
  const Units units = make_units();
  const at::Tensor x = leaf({512, 256});
  MemoryBudget budget({.peak_bytes = 1LL << 30});
  for (int i = 0; i < 3; ++i) {
    step(units, x, [&] {
      const BudgetScope scope(budget);
      return loss(units, x);
    });
  }
  EXPECT_THAT(
      budget.report(),
      HasSubstr("cannot be computed again: 1.50 MiB, of which 1.50 MiB of aten::exp (needed "
                "outside of the unit whose gathered parameters it reads)"));
}

// Random units, whose results are read within and outside, written in place, and returned.
at::Tensor random_loss(const std::vector<std::shared_ptr<Unit>>& units, const at::Tensor& x,
                       std::uint64_t seed, const auto& in_unit) {
  std::mt19937_64 random(seed);
  const auto draw = [&](std::size_t end) { return static_cast<std::size_t>(random() % end); };
  Tensors outside{x};
  for (const auto& unit : units) {
    const Tensors results = in_unit(unit, [&] {
      Tensors inside{outside.back().mm(unit->whole).mm(unit->whole.t())};
      for (std::size_t i = 2 + draw(4); i > 0; --i) {
        const at::Tensor& one = inside[draw(inside.size())];
        const std::size_t kind = draw(5);
        inside.push_back(kind == 0   ? one.tanh().mm(unit->whole).sin().mm(unit->whole.t())
                         : kind == 1 ? one.sin()
                         : kind == 2 ? one * outside[draw(outside.size())]
                         : kind == 3 ? (one + 1).mul_(one.detach())
                                     : at::dropout(one, 0.3, true));
      }
      return Tensors{inside[draw(inside.size())], inside.back()};
    });
    for (const at::Tensor& result : results) {
      outside.push_back(draw(2) == 0 ? result : (result.tanh() * outside[draw(outside.size())]));
    }
  }
  return std::accumulate(outside.begin(), outside.end(), at::zeros({}),
                         [](const at::Tensor& sum, const at::Tensor& t) { return sum + t.sum(); });
}

TEST_F(RefillableMemoryInABudgetTest, RandomUnitsAreAsPlain) {
  const Units units = make_units();
  const at::Tensor x = leaf({512, 256});
  int small = 0;
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    SCOPED_TRACE(seed);
    try {
      expect_as_plain(units, x, seed % 2 == 0 ? 1.0 : 0.9, [&] {
        torch::manual_seed(7);
        return random_loss(units, x, seed,
                           [](const auto& unit, const auto& code) { return in_unit(unit, code); });
      });
    } catch (const BudgetExceededError&) {  // as far as a plan can tell, too
      ++small;
      for (const auto& unit : units) {
        unit->free();
        unit->gathers = 0;
      }
    }
  }
  EXPECT_LE(small, 2);
}

}  // namespace
}  // namespace reprise::testing::refillable_memory_test
