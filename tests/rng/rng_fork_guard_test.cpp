// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/rng/rng_fork_guard.h"

#include <ATen/CPUGeneratorImpl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "tests/rng/fake_generators.h"

namespace reprise::rng_fork_guard_test {
namespace {

using ::reprise::testing::draw;
using ::reprise::testing::FakePhilox;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Generators = std::vector<at::Generator>;

static_assert(!std::is_default_constructible_v<RngForkGuard>);
static_assert(!std::is_copy_constructible_v<RngForkGuard>);
static_assert(!std::is_move_constructible_v<RngForkGuard>);
static_assert(!std::is_copy_assignable_v<RngForkGuard>);
static_assert(!std::is_move_assignable_v<RngForkGuard>);
static_assert(std::is_nothrow_destructible_v<RngForkGuard>);

// Collects warnings instead of printing them, and can refuse them.
class WarningCollector : public c10::WarningHandler {
 public:
  void process(const c10::Warning& warning) override {
    messages.push_back(warning.msg());
    if (refuses) throw std::runtime_error("warnings are errors here");
  }
  std::vector<std::string> messages;
  bool refuses = false;
};

RngSnapshot capture_extra(const Generators& extra) { return RngSnapshot::capture({}, extra); }

void refuse() { throw std::runtime_error("the generator refused"); }

TEST(RngForkGuardTest, PutsItsGeneratorsBack) {
  at::Generator generator = at::detail::createCPUGenerator(1);
  const RngState before = RngState::capture(generator);
  {
    const RngForkGuard fork(Generators{generator});
    EXPECT_TRUE(before.is_current());
    draw(generator, 1000);
    generator.set_current_seed(2);
  }
  EXPECT_TRUE(before.is_current());
}

TEST(RngForkGuardTest, PutsItsGeneratorsBackWhenTheBodyThrows) {
  at::Generator generator = at::detail::createCPUGenerator(1);
  const RngState before = RngState::capture(generator);
  try {
    const RngForkGuard fork(Generators{generator});
    draw(generator, 5);
    throw std::runtime_error("body");
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "body");
  }
  EXPECT_TRUE(before.is_current());
}

TEST(RngForkGuardTest, LeavesOtherGeneratorsAlone) {
  at::Generator forked = at::detail::createCPUGenerator(1);
  at::Generator other = at::detail::createCPUGenerator(1);
  const RngState before = RngState::capture(other);
  {
    const RngForkGuard fork(Generators{forked});
    draw(other, 1);
  }
  EXPECT_FALSE(before.is_current());
}

TEST(RngForkGuardTest, PassesOverUndefinedAndRepeatedGenerators) {
  at::Generator generator = at::make_generator<FakePhilox>();
  { const RngForkGuard fork(Generators{generator, at::Generator(), generator}); }
  EXPECT_EQ(generator.get<FakePhilox>()->calls.set_offset, 1);
}

TEST(RngForkGuardTest, Nests) {
  at::Generator generator = at::detail::createCPUGenerator(1);
  const RngState outermost = RngState::capture(generator);
  {
    const RngForkGuard outer(Generators{generator});
    draw(generator, 1);
    const RngState between = RngState::capture(generator);
    {
      const RngForkGuard inner(Generators{generator});
      draw(generator, 1);
    }
    EXPECT_TRUE(between.is_current());
  }
  EXPECT_TRUE(outermost.is_current());
}

TEST(RngForkGuardTest, ReplaysFromASnapshotAndGoesOnFromWhereItWas) {
  at::Generator generator = at::detail::createCPUGenerator(1);
  RngSnapshot start = capture_extra({generator});
  const std::vector<uint32_t> forward = draw(generator, 10);
  start.complete();
  draw(generator, 100);
  const RngState in_backward = RngState::capture(generator);
  for (int replay = 0; replay < 2; ++replay) {
    {
      const RngForkGuard fork(start);
      EXPECT_EQ(draw(generator, 10), forward);
    }
    EXPECT_TRUE(in_backward.is_current());
  }
}

TEST(RngForkGuardTest, MovesNothingForACompletedSnapshotOfNoDraws) {
  at::Generator generator = at::make_generator<FakePhilox>();
  RngSnapshot start = capture_extra({generator});
  start.complete();
  generator.get<FakePhilox>()->draw();
  { const RngForkGuard fork(start); }
  EXPECT_EQ(generator.get<FakePhilox>()->calls.set_offset, 0);
  EXPECT_EQ(generator.get_offset(), 4U);
}

TEST(RngForkGuardTest, OutlivesItsSnapshot) {
  at::Generator generator = at::detail::createCPUGenerator(1);
  std::optional<RngSnapshot> start = capture_extra({generator});
  draw(generator, 3);
  const RngState before = RngState::capture(generator);
  {
    const RngForkGuard fork(*start);
    start.reset();
    draw(generator, 1);
  }
  EXPECT_TRUE(before.is_current());
}

TEST(RngForkGuardTest, PutsBackWhatItHadSetWhenItsConstructorThrows) {
  at::Generator first = at::detail::createCPUGenerator(1);
  at::Generator refusing = at::make_generator<FakePhilox>();
  at::Generator last = at::detail::createCPUGenerator(2);
  const RngSnapshot start = capture_extra({first, refusing, last});
  draw(first, 3);
  draw(last, 3);
  auto& philox = *refusing.get<FakePhilox>();
  philox.draw();
  const RngState first_before = RngState::capture(first);
  const RngState last_before = RngState::capture(last);
  int calls = 0;
  philox.on_set_offset = [&] {
    if (++calls == 1) refuse();
  };
  try {
    const RngForkGuard fork(start);
    FAIL() << "constructed";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "the generator refused");
  }
  EXPECT_EQ(calls, 2);  // the refused one and the put-back
  EXPECT_EQ(philox.get_offset(), 4U);
  EXPECT_TRUE(first_before.is_current());
  EXPECT_TRUE(last_before.is_current());
}

TEST(RngForkGuardTest, ChangesNothingWhenRememberingThrows) {
  at::Generator first = at::make_generator<FakePhilox>();
  at::Generator refusing = at::make_generator<FakePhilox>();
  const RngSnapshot start = capture_extra({first, refusing});
  refusing.get<FakePhilox>()->on_get_offset = refuse;
  EXPECT_THAT([&] { const RngForkGuard guard{start}; },
              ::testing::ThrowsMessage<std::runtime_error>(HasSubstr("the generator refused")));
  EXPECT_EQ(first.get<FakePhilox>()->calls.set_offset, 0);
}

TEST(RngForkGuardTest, WarnsOfAGeneratorThatRefusesAndPutsTheOthersBack) {
  at::Generator refusing = at::make_generator<FakePhilox>();
  at::Generator other = at::detail::createCPUGenerator(1);
  const RngState before = RngState::capture(other);
  WarningCollector warnings;
  {
    const c10::WarningUtils::WarningHandlerGuard collecting(&warnings);
    const RngForkGuard fork(Generators{refusing, other});
    draw(other, 1);
    refusing.get<FakePhilox>()->on_set_offset = refuse;
  }
  EXPECT_TRUE(before.is_current());
  EXPECT_THAT(warnings.messages,
              ElementsAre(HasSubstr("was not set back to where it stood before the fork")));
  EXPECT_THAT(warnings.messages.at(0), HasSubstr("the generator refused"));
}

TEST(RngForkGuardTest, DoesNotThrowEvenIfItsWarningIsAnError) {
  at::Generator refusing = at::make_generator<FakePhilox>();
  at::Generator other = at::detail::createCPUGenerator(1);
  const RngState before = RngState::capture(other);
  WarningCollector warnings;
  warnings.refuses = true;
  {
    const c10::WarningUtils::WarningHandlerGuard collecting(&warnings);
    const RngForkGuard fork(Generators{refusing, other});
    draw(other, 1);
    refusing.get<FakePhilox>()->on_set_offset = [] { throw 1; };
  }
  EXPECT_TRUE(before.is_current());
  EXPECT_THAT(warnings.messages, ElementsAre(HasSubstr("unknown exception")));
}

TEST(RngForkGuardTest, ReplaysDropoutOnCuda) {
  if (!at::hasCUDA()) GTEST_SKIP() << "no CUDA device";
  const at::Tensor x = at::ones({1000}, at::TensorOptions().device(at::kCUDA));
  const std::vector<at::Device> devices = {x.device()};
  RngSnapshot start = RngSnapshot::capture(devices);
  const at::Tensor forward = at::dropout(x, 0.5, true);
  start.complete();
  const RngState before = RngState::capture(at::globalContext().defaultGenerator(x.device()));
  {
    const RngForkGuard fork(start);
    EXPECT_TRUE(at::equal(at::dropout(x, 0.5, true), forward));
  }
  EXPECT_TRUE(before.is_current());
}

}  // namespace
}  // namespace reprise::rng_fork_guard_test
