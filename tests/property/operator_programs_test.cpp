// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Programs of operators of most kinds, and of code that keeps things, fills memory again and so on
// (kinds.h), in regions of random forms, options, policies and stores, with backwards of all kinds,
// compute the same bits as plain ones and leave no memory behind. REPRISE_OPERATOR_PROGRAMS and
// REPRISE_FIRST_SEED set how many and from which seed on; REPRISE_GO_ON has it go on after a
// failure; REPRISE_PROGRAM_DEVICE=cuda runs them on a GPU.
#include <cstdlib>
#include <iostream>
#include <random>

#include "reprise/engine/checkpoint.h"
#include "reprise/hooks/saved_tensor_hooks.h"
#include "tests/property/operator_program.h"
#include "tests/property/program_device.h"
#include "tests/property/random_program.h"
#include "tests/property/random_setting.h"
#include "tests/testing/sanitized.h"

namespace reprise::testing::operator_programs_test {
namespace {

constexpr auto kPrograms = cases<std::uint64_t>(1000, 60);

// Of the programs with pieces, one in so many may end in an error, where plain bits cannot be had.
constexpr std::uint64_t kProgramsToAnError = 10;

class OperatorProgramsTest : public OnProgramDevice {};

void expect_same(const Found& got, const Found& expected) {
  ASSERT_EQ(got.error, "");
  ASSERT_EQ(got.tensors.size(), expected.tensors.size());
  for (std::size_t i = 0; i < got.tensors.size(); ++i) {
    EXPECT_TRUE(bitwise_equal(got.tensors[i], expected.tensors[i])) << "tensor " << i;
  }
}

// A region with stored tensors prefetches for the one before it, whose graph may have leaked: then
// the tensors would count as left by a later program.
void end_prefetching() {
  const CheckpointOptions stored{.input_store = stores::packed({})};
  const at::Tensor x = at::ones({2}).requires_grad_();
  checkpoint(
      stored, [](const at::Tensor& t) { return t.sin(); }, x);
}

// Returns whether it ends in an error that the program may end in.
bool compare(std::uint64_t seed, const OperatorProgram& program) {
  std::mt19937_64 random(seed ^ 0x5bd1e995U);
  const Backward kind = program.random_backward(random);
  const Found expected = outcome(seed, program, kind, nullptr);
  EXPECT_EQ(expected.error, "") << "plain, seed " << seed << ": " << program.words();
  const std::int64_t bytes = live_cpu_bytes();
  const std::int64_t frames = live_frames();
  std::string words;
  bool is_error = false;
  {
    Setting setting = random_setting(random);
    program.restrict_checks(setting.options);
    program.restrict_checks(setting.inner_options);
    words = c10::str("seed ", seed, ": ", program.words(), " ", setting.words, ", backward ",
                     static_cast<int>(kind));
    SCOPED_TRACE(words);
    const Found got = outcome(seed, program, kind, &setting);
    is_error = got.is_checkpoint_error && program.may_end_in_error(&setting);
    if (!is_error) {
      expect_same(got, expected);
    }
  }
  if (is_error && program.must_be_freed()) {
    end_prefetching();
    return true;  // no backward has freed it
  }
  EXPECT_EQ(live_frames(), frames) << words;
  EXPECT_TRUE(cpu_bytes_come_to(bytes)) << settled_cpu_bytes() - bytes << " bytes left, " << words;
  return is_error;
}

TEST_F(OperatorProgramsTest, GiveTheSameBitsAndLeaveNoMemory) {
  const std::uint64_t first = number_from("REPRISE_FIRST_SEED", 0);
  const std::uint64_t count = number_from("REPRISE_OPERATOR_PROGRAMS", kPrograms);
  std::uint64_t errors = 0;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    const bool has_pieces = are_kinds_named() || seed % 2 == 1;
    const OperatorProgram program(seed, has_pieces ? chosen_kinds() : std::vector<Kind>());
    errors += compare(seed, program) ? 1 : 0;
    if (program.must_be_freed()) {
      accept_leaks();  // see compare()
    }
    ASSERT_FALSE(HasFailure() && std::getenv("REPRISE_GO_ON") == nullptr) << "seed " << seed;
  }
  std::cout << errors << " of " << count << " programs ended in a documented error\n";
  if (!are_kinds_named()) {
    EXPECT_LE(errors, 1 + count / kProgramsToAnError);
  }
}

}  // namespace
}  // namespace reprise::testing::operator_programs_test
