// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Programs made up from seeds give the same bits plainly, as function regions, as tapes and as
// scopes, under policies made up as well. REPRISE_PROGRAMS and REPRISE_FIRST_SEED set how many and
// from which seed on; REPRISE_PROGRAM_DEVICE=cuda runs them on a GPU.
#include <random>

#include "reprise/engine/tape_replay/tape_replay.h"
#include "tests/property/program_device.h"
#include "tests/property/random_program.h"
#include "tests/testing/sanitized.h"

namespace reprise::testing::random_programs_test {
namespace {

constexpr auto kPrograms = cases<std::uint64_t>(500, 60);

class RandomProgramsTest : public OnProgramDevice {
 protected:
  ~RandomProgramsTest() override {
    engine_internal::smallest_deferred_bytes = smallest_deferred_bytes_;
  }

  struct Outcome {
    Tensors tensors;  // the result, the gradients, the written outside tensors
    at::Tensor generator;
  };

  Outcome outcome(const RandomProgram& program, Form form, const CheckpointOptions& options,
                  bool twice) {
    torch::manual_seed(11);
    const Tensors leaves = {leaf({4, 4}), leaf({4, 4})};
    const at::Tensor outside = torch::randn({4});
    const auto code = [&program, form, outside](const Tensors& in) {
      return program.run(form, in, outside);
    };
    const Tensors results = run_as(form, options, code, leaves);
    const at::Tensor root = watch(results[0].sum());
    if (twice) {
      torch::autograd::grad({root}, leaves, {}, /*retain_graph=*/true);
    }
    Outcome found;
    found.tensors = torch::autograd::grad({root}, leaves);
    found.tensors.push_back(results[0].detach());
    found.tensors.push_back(outside);
    found.generator = cpu_generator_state();
    return found;
  }

  const std::size_t smallest_deferred_bytes_ = engine_internal::smallest_deferred_bytes;
};

TEST_F(RandomProgramsTest, GiveTheSameBitsInEveryForm) {
  const std::uint64_t first = number_from("REPRISE_FIRST_SEED", 0);
  const std::uint64_t count = number_from("REPRISE_PROGRAMS", kPrograms);
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    std::mt19937_64 random(seed);
    engine_internal::smallest_deferred_bytes = seed % 4 < 2 ? 0 : smallest_deferred_bytes_;
    const RandomProgram program(seed, 5 + static_cast<int>(seed % 20));
    const Outcome expected = outcome(program, Form::kPlain, {}, false);
    for (const Form form : {Form::kFunction, Form::kTape, Form::kScope}) {
      for (const bool has_policy : {false, true}) {
        SCOPED_TRACE(c10::str("seed ", seed, ", form ", static_cast<int>(form),
                              has_policy ? ", policy" : ""));
        CheckpointOptions options;
        if (has_policy) {
          options.policy = by_ordinal(random());
        }
        options.early_stop = form == Form::kFunction || seed % 3 != 0;
        try {
          const Outcome got = outcome(program, form, options, seed % 2 == 1);
          expect_same_bits(got.tensors, expected.tensors);
          EXPECT_TRUE(bitwise_equal(got.generator, expected.generator));
        } catch (const c10::Error& error) {
          ADD_FAILURE() << error.what_without_backtrace();
        }
        ASSERT_EQ(live_frames(), 0);
      }
    }
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace reprise::testing::random_programs_test
