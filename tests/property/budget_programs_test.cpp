// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Programs made up from seeds, within budgets made up as well: the bits are those of the plain
// program, and no step needs more than its budget. REPRISE_PROGRAMS and REPRISE_FIRST_SEED set how
// many and from which seed on.
#include <random>

#include "reprise/engine/cpu_memory.h"
#include "reprise/engine/memory_budget.h"
#include "reprise/hooks/seam/forwarding_engine.h"
#include "tests/engine/under_policies.h"
#include "tests/property/random_program.h"
#include "tests/testing/within_budget.h"

namespace reprise::testing::budget_programs_test {
namespace {

// Under sanitizers each takes several times longer.
#if defined(__SANITIZE_ADDRESS__)
constexpr std::uint64_t kPrograms = 15;
#else
constexpr std::uint64_t kPrograms = 80;
#endif

class BudgetProgramsTest : public UnderPolicies {
 protected:
  struct Outcome {
    Tensors tensors;  // the result, the gradients, the written outside tensor
    at::Tensor generator;
    std::int64_t growth = 0;  // of the bytes in use, at the peak
  };

  // A step of the program with regions of that form inside, within the budget unless it is null.
  static Outcome step(const RandomProgram& program, Form form, MemoryBudget* budget, bool twice) {
    torch::manual_seed(11);
    const Tensors leaves = {leaf({4, 4}), leaf({4, 4})};
    const at::Tensor outside = torch::randn({4});
    const std::int64_t before = cpu_memory().current_bytes;
    reset_peak_cpu_memory();
    Outcome found;
    const at::Tensor root = within(budget, [&] {
      const Tensors results = program.run(form, leaves, outside);
      found.tensors.push_back(results[0].detach());
      return results[0].sum();
    });
    Tensors gradients;
    if (twice) {
      torch::autograd::grad({root}, leaves, {}, /*retain_graph=*/true);
    }
    gradients = torch::autograd::grad({root}, leaves);
    found.growth = cpu_memory().peak_bytes - before;
    found.tensors.insert(found.tensors.end(), gradients.begin(), gradients.end());
    found.tensors.push_back(outside);
    found.generator = cpu_generator_state();
    return found;
  }
};

TEST_F(BudgetProgramsTest, GiveTheSameBitsWithinAnyBudget) {
  install_cpu_memory_counter();
  const std::uint64_t first = number_from("REPRISE_FIRST_SEED", 0);
  const std::uint64_t count = number_from("REPRISE_PROGRAMS", kPrograms);
  int planned = 0;
  int refused = 0;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    constexpr Form kForms[] = {Form::kPlain, Form::kPlain, Form::kFunction, Form::kScope};
    std::mt19937_64 random(seed);
    const Form form = kForms[pick(random, 4)];
    const bool twice = pick(random, 4) == 0;
    const RandomProgram program(seed, 5 + static_cast<int>(seed % 40));
    const Outcome expected = step(program, form, nullptr, twice);
    const double part = 0.3 + 0.1 * static_cast<double>(pick(random, 9));
    // The step's inputs are made in it as well.
    constexpr std::int64_t kInputs = 144;
    const std::int64_t peak_bytes =
        cpu_memory().current_bytes + kInputs +
        static_cast<std::int64_t>(part * static_cast<double>(expected.growth));
    MemoryBudget budget({.peak_bytes = peak_bytes});
    for (int i = 0; i < 4; ++i) {
      SCOPED_TRACE(c10::str("seed ", seed, ", form ", static_cast<int>(form), ", part ", part,
                            ", step ", i));
      try {
        const Outcome got = step(program, form, &budget, twice);
        expect_same_bits(got.tensors, expected.tensors);
        EXPECT_TRUE(bitwise_equal(got.generator, expected.generator));
        planned += budget.last_step() && budget.last_step()->is_planned() ? 1 : 0;
        if (budget.last_step()) {
          EXPECT_LE(budget.last_step()->peak_bytes, peak_bytes);
        }
      } catch (const BudgetExceededError& error) {
        EXPECT_LT(part, 1.0) << error.what_without_backtrace();
        ++refused;
        hooks_internal::release_nodes_of_failed_backward();
      } catch (const c10::Error& error) {
        ADD_FAILURE() << error.what_without_backtrace();
      }
      ASSERT_EQ(live_frames(), 0);
    }
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
  std::cout << planned << " planned steps, " << refused << " refused\n";
  // Of four steps each; most of the smallest budgets are refused.
  EXPECT_GE(planned, static_cast<int>(count / 2));
}

}  // namespace
}  // namespace reprise::testing::budget_programs_test
