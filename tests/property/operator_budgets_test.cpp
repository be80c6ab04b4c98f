// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The programs of operator_programs_test.cpp within budgets made up as well, with regions inside or
// without, the first step included: the bits are those of the plain program, no step needs more
// than its budget, and none leaves memory behind. REPRISE_OPERATOR_PROGRAMS and REPRISE_FIRST_SEED
// set how many and from which seed on; REPRISE_GO_ON has it go on after a failure.
#include <cstdlib>
#include <iostream>
#include <random>

#include "reprise/engine/cpu_memory.h"
#include "tests/engine/under_policies.h"
#include "tests/property/operator_program.h"
#include "tests/property/random_program.h"
#include "tests/property/random_setting.h"
#include "tests/testing/sanitized.h"

namespace reprise::testing::operator_budgets_test {
namespace {

constexpr auto kPrograms = cases<std::uint64_t>(60, 10);

constexpr int kSteps = 3;

class OperatorBudgetsTest : public UnderPolicies {};

struct Tally {
  int steps = 0;
  int refused = 0;
  int errors = 0;
};

// budget_bytes: of the whole process.
void compare_steps(std::uint64_t seed, const OperatorProgram& program, Backward kind,
                   const Setting* setting, std::int64_t budget_bytes, const Found& expected,
                   Tally& tally) {
  MemoryBudget budget({.peak_bytes = budget_bytes});
  for (int i = 0; i < kSteps; ++i) {
    SCOPED_TRACE(c10::str("step ", i));
    const Found got = outcome(seed, program, kind, setting, &budget);
    ++tally.steps;
    if (got.is_refused) {
      ++tally.refused;
    } else if (got.is_checkpoint_error && program.may_end_in_error(setting, /*has_budget=*/true)) {
      ++tally.errors;
    } else {
      ASSERT_EQ(got.error, "");
      ASSERT_EQ(got.tensors.size(), expected.tensors.size());
      for (std::size_t k = 0; k < got.tensors.size(); ++k) {
        EXPECT_TRUE(bitwise_equal(got.tensors[k], expected.tensors[k])) << "tensor " << k;
      }
    }
    EXPECT_LE(got.held_bytes, budget_bytes);
    ASSERT_EQ(live_frames(), 0);
  }
}

TEST_F(OperatorBudgetsTest, GiveTheSameBitsWithinAnyBudget) {
  const std::uint64_t first = number_from("REPRISE_FIRST_SEED", 0);
  const std::uint64_t count = number_from("REPRISE_OPERATOR_PROGRAMS", kPrograms);
  Tally tally;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    const bool has_pieces = are_kinds_named() || seed % 2 == 1;
    const OperatorProgram program(seed, has_pieces ? chosen_kinds() : std::vector<Kind>());
    if (program.must_be_freed()) {
      continue;
    }
    std::mt19937_64 random(seed ^ 0x2545f491U);
    const Backward kind = program.random_backward(random);
    const Found expected = outcome(seed, program, kind, nullptr);
    ASSERT_EQ(expected.error, "") << "plain, seed " << seed << ": " << program.words();
    const std::int64_t bytes = live_cpu_bytes();
    const double part = 0.3 + 0.1 * static_cast<double>(pick(random, 9));
    const auto room = static_cast<double>(expected.peak_bytes - expected.start_bytes) * part;
    const std::int64_t budget_bytes = cpu_memory().current_bytes + expected.start_bytes -
                                      expected.entry_bytes + static_cast<std::int64_t>(room);
    std::string words;
    {
      Setting setting = random_setting(random);
      program.restrict_checks(setting.options);
      program.restrict_checks(setting.inner_options);
      const bool has_regions = pick(random, 2) == 0;
      words = c10::str("seed ", seed, ": ", program.words(), " part ", part, ", backward ",
                       static_cast<int>(kind), ", ", has_regions ? setting.words : "no regions");
      SCOPED_TRACE(words);
      compare_steps(seed, program, kind, has_regions ? &setting : nullptr, budget_bytes, expected,
                    tally);
    }
    EXPECT_TRUE(cpu_bytes_come_to(bytes))
        << settled_cpu_bytes() - bytes << " bytes left, " << words;
    ASSERT_FALSE(HasFailure() && std::getenv("REPRISE_GO_ON") == nullptr) << "seed " << seed;
  }
  std::cout << tally.steps << " steps, " << tally.refused << " refused, " << tally.errors
            << " documented errors\n";
}

}  // namespace
}  // namespace reprise::testing::operator_budgets_test
