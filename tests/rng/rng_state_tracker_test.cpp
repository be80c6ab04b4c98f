// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/rng/rng_state_tracker.h"

#include <ATen/CPUGeneratorImpl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "reprise/rng/rng_fork_guard.h"
#include "tests/rng/fake_generators.h"
#include "tests/testing/warning_log.h"

namespace reprise::rng_state_tracker_test {
namespace {

using ::reprise::testing::draw;
using ::reprise::testing::FakeAccelerator;
using ::reprise::testing::FakePhilox;
using ::reprise::testing::FakeTensorGenerator;
using ::reprise::testing::WarningLog;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Draws = std::vector<std::uint32_t>;

static_assert(!std::is_default_constructible_v<RngTrackerForkGuard>);
static_assert(!std::is_copy_constructible_v<RngTrackerForkGuard>);
static_assert(!std::is_move_constructible_v<RngTrackerForkGuard>);
static_assert(!std::is_copy_assignable_v<RngTrackerForkGuard>);
static_assert(!std::is_move_assignable_v<RngTrackerForkGuard>);
static_assert(std::is_nothrow_destructible_v<RngTrackerForkGuard>);
static_assert(!std::is_copy_constructible_v<RngStateTracker>);
static_assert(!std::is_move_constructible_v<RngStateTracker>);

at::Generator cpu() { return at::detail::getDefaultCPUGenerator(); }

Draws draw_here(int count) {
  at::Generator generator = cpu();
  return draw(generator, count);
}

void append(Draws& to, const Draws& more) { to.insert(to.end(), more.begin(), more.end()); }

// The first draws of a generator with that seed.
Draws stream(std::uint64_t seed, int count) {
  at::Generator generator = at::detail::createCPUGenerator(seed);
  return draw(generator, count);
}

template <class Error, class F>
std::string message_of(F&& fails) {
  try {
    fails();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

class RngStateTrackerTest : public ::testing::Test {
 protected:
  RngStateTrackerTest() {
    torch::manual_seed(1);
    tracker_.add("a", 10);
    tracker_.add("b", 20);
  }

  RngStateTracker tracker_;
};

TEST_F(RngStateTrackerTest, ForkDrawsFromItsStreamAndPutsTheOuterStateBack) {
  draw_here(3);
  const RngState outer = RngState::capture(cpu());
  {
    const auto fork = tracker_.fork("a");
    EXPECT_EQ(draw_here(5), stream(10, 5));
  }
  EXPECT_TRUE(outer.is_current());
}

TEST_F(RngStateTrackerTest, ContinuesWhereTheLastForkStopped) {
  Draws a;
  Draws b;
  for (int round = 0; round < 3; ++round) {
    {
      const auto fork = tracker_.fork("a");
      append(a, draw_here(400));
    }
    {
      const auto fork = tracker_.fork("b");
      append(b, draw_here(300));
    }
  }
  EXPECT_EQ(a, stream(10, 1200));
  EXPECT_EQ(b, stream(20, 900));
  EXPECT_EQ(draw_here(5), stream(1, 5));
}

TEST_F(RngStateTrackerTest, KeepsTheNormalSampleThatIsHeldBack) {
  at::Tensor whole;
  {
    at::Generator generator = at::detail::createCPUGenerator(10);
    whole = at::stack({at::randn({}, generator), at::randn({}, generator)});
  }
  at::Tensor first;
  at::Tensor second;
  {
    const auto fork = tracker_.fork("a");
    first = at::randn({});
  }
  {
    const auto fork = tracker_.fork("a");
    second = at::randn({});
  }
  EXPECT_TRUE(at::equal(at::stack({first, second}), whole));
}

TEST_F(RngStateTrackerTest, PutsTheOuterStateBackWhenTheBodyThrows) {
  const RngState outer = RngState::capture(cpu());
  try {
    const auto fork = tracker_.fork("a");
    draw_here(5);
    throw std::runtime_error("body");
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "body");
  }
  EXPECT_TRUE(outer.is_current());
  const auto fork = tracker_.fork("a");
  Draws drawn = stream(10, 5);
  append(drawn, draw_here(2));
  EXPECT_EQ(drawn, stream(10, 7));
}

TEST_F(RngStateTrackerTest, ForksOfOtherNamesNest) {
  Draws a;
  {
    const auto outer = tracker_.fork("a");
    append(a, draw_here(2));
    {
      const auto inner = tracker_.fork("b");
      EXPECT_EQ(draw_here(4), stream(20, 4));
    }
    append(a, draw_here(2));
  }
  EXPECT_EQ(a, stream(10, 4));
  EXPECT_EQ(draw_here(3), stream(1, 3));
}

TEST_F(RngStateTrackerTest, ContinuesStreamWhenNameIsReentered) {
  Draws a;
  {
    const auto outer = tracker_.fork("a");
    append(a, draw_here(2));
    for (int round = 0; round < 2; ++round) {
      const auto inner = tracker_.fork("a");
      append(a, draw_here(3));
      const auto innermost = tracker_.fork("a");
      append(a, draw_here(1));
    }
    append(a, draw_here(2));
  }
  {
    const auto later = tracker_.fork("a");
    append(a, draw_here(2));
  }
  EXPECT_EQ(a, stream(10, 14));
  EXPECT_EQ(draw_here(3), stream(1, 3));
}

TEST_F(RngStateTrackerTest, ContinuesStreamWhenNameIsReenteredFurtherIn) {
  tracker_.add("c", 30);
  Draws a;
  Draws b;
  Draws c;
  {
    const auto first = tracker_.fork("a");
    append(a, draw_here(2));
    {
      const auto second = tracker_.fork("b");
      append(b, draw_here(3));
      {
        const auto third = tracker_.fork("c");
        append(c, draw_here(1));
        {
          const auto again = tracker_.fork("a");
          append(a, draw_here(4));
          const auto b_again = tracker_.fork("b");
          append(b, draw_here(2));
          const auto a_once_more = tracker_.fork("a");
          append(a, draw_here(2));
        }
        append(c, draw_here(2));
      }
      append(b, draw_here(3));
    }
    append(a, draw_here(2));
  }
  EXPECT_EQ(a, stream(10, 10));
  EXPECT_EQ(b, stream(20, 8));
  EXPECT_EQ(c, stream(30, 3));
  EXPECT_EQ(draw_here(3), stream(1, 3));
  const auto fork = tracker_.fork("b");
  append(b, draw_here(2));
  EXPECT_EQ(b, stream(20, 10));
}

TEST_F(RngStateTrackerTest, ForksOfTwoTrackersNest) {
  RngStateTracker other;
  other.add("a", 40);
  Draws a;
  {
    const auto outer = tracker_.fork("a");
    append(a, draw_here(1));
    {
      const auto inner = other.fork("a");
      EXPECT_EQ(draw_here(2), stream(40, 2));
      const auto again = tracker_.fork("a");
      append(a, draw_here(2));
    }
    append(a, draw_here(1));
  }
  EXPECT_EQ(a, stream(10, 4));
  EXPECT_EQ(draw_here(1), stream(1, 1));
}

TEST_F(RngStateTrackerTest, ForksMayEndInAnyOrder) {
  const RngState outer = RngState::capture(cpu());
  struct Holder {
    RngTrackerForkGuard fork;
  };
  auto a = std::unique_ptr<Holder>(new Holder{tracker_.fork("a")});
  draw_here(2);
  auto b = std::unique_ptr<Holder>(new Holder{tracker_.fork("b")});
  draw_here(3);
  a.reset();
  EXPECT_EQ(draw_here(1).at(0), stream(20, 4).at(3));
  b.reset();
  EXPECT_TRUE(outer.is_current());
  {
    const auto fork = tracker_.fork("a");
    EXPECT_EQ(draw_here(1).at(0), stream(10, 3).at(2));
  }
  const auto fork = tracker_.fork("b");
  EXPECT_EQ(draw_here(1).at(0), stream(20, 5).at(4));
}

// As threads of a backward do that replay regions on devices of their own.
TEST_F(RngStateTrackerTest, ForksOfTwoThreadsMayEndInAnyOrder) {
  draw_here(1);
  const RngState outer = RngState::capture(cpu());
  std::promise<void> forked_there;
  std::promise<void> ended_here;
  {
    std::thread other;
    {
      const auto fork = tracker_.fork("a");
      other = std::thread([&] {
        const auto fork_there = tracker_.fork("b");
        forked_there.set_value();
        ended_here.get_future().wait();
      });
      forked_there.get_future().wait();
    }
    EXPECT_FALSE(outer.is_current());
    ended_here.set_value();
    other.join();
  }
  EXPECT_TRUE(outer.is_current());
  EXPECT_THAT(tracker_.states().at("a").generators, IsEmpty());
  EXPECT_THAT(tracker_.states().at("b").generators, IsEmpty());
}

TEST_F(RngStateTrackerTest, DefaultNameIsThatOfModelParallelism) {
  tracker_.add("model-parallel-rng", 5);
  const auto fork = tracker_.fork();
  EXPECT_EQ(draw_here(2), stream(5, 2));
}

TEST_F(RngStateTrackerTest, RefusesANameThatIsTaken) {
  EXPECT_EQ(
      message_of<std::invalid_argument>([&] { tracker_.add("a", 30); }),
      "[rng.add] the name is taken; received 'a' with the seed 30, and it has been added with "
      "the seed 10; choose another name, or reset() the tracker first");
  EXPECT_EQ(tracker_.states().at("a").seed, 10U);
}

TEST_F(RngStateTrackerTest, RefusesASeedThatIsTaken) {
  EXPECT_EQ(message_of<std::invalid_argument>([&] { tracker_.add("c", 20); }),
            "[rng.add] the seed is taken, and two names with one seed would draw the same numbers; "
            "received the seed 20 for 'c', and 'b' has it; give each name a seed of its own");
  EXPECT_EQ(tracker_.states().count("c"), 0U);
}

TEST_F(RngStateTrackerTest, RefusesToForkAnUnknownName) {
  const RngState before = RngState::capture(cpu());
  EXPECT_EQ(message_of<std::invalid_argument>([&] { static_cast<void>(tracker_.fork("c")); }),
            "[rng.fork] no generator state has this name; received 'c', and the tracker has 'a', "
            "'b'; add() it first, or call model_parallel_manual_seed()");
  RngStateTracker empty;
  EXPECT_EQ(message_of<std::invalid_argument>([&] { static_cast<void>(empty.fork()); }),
            "[rng.fork] no generator state has this name; received 'model-parallel-rng', and the "
            "tracker has none; add() it first, or call model_parallel_manual_seed()");
  EXPECT_TRUE(before.is_current());
}

TEST_F(RngStateTrackerTest, AddingTouchesNoGenerator) {
  const RngState before = RngState::capture(cpu());
  tracker_.add("c", 30);
  EXPECT_TRUE(before.is_current());
  EXPECT_THAT(tracker_.states().at("c").generators, IsEmpty());
}

TEST_F(RngStateTrackerTest, StatesCanBeSetBack) {
  {
    const auto fork = tracker_.fork("a");
    draw_here(2);
  }
  const RngStateTracker::States states = tracker_.states();
  ASSERT_EQ(states.at("a").generators.size(), 1U);
  EXPECT_EQ(states.at("a").generators[0].generator(), cpu());
  Draws first;
  {
    const auto fork = tracker_.fork("a");
    first = draw_here(7);
    const auto other = tracker_.fork("b");
    draw_here(7);
  }
  EXPECT_FALSE(tracker_.states() == states);
  tracker_.set_states(states);
  EXPECT_TRUE(tracker_.states() == states);
  {
    const auto fork = tracker_.fork("a");
    EXPECT_EQ(draw_here(7), first);
  }
  const auto fork = tracker_.fork("b");
  EXPECT_EQ(draw_here(2), stream(20, 2));
}

TEST_F(RngStateTrackerTest, RefusesStatesWithOneSeedForTwoNames) {
  RngStateTracker::States states = tracker_.states();
  states["c"] = {.seed = 10, .generators = {}};
  EXPECT_EQ(
      message_of<std::invalid_argument>([&] { tracker_.set_states(states); }),
      "[rng.set_states] two names have one seed and would draw the same numbers; received the "
      "seed 10 for 'a' and for 'c'; give each name a seed of its own");
  EXPECT_EQ(tracker_.states().size(), 2U);
}

TEST_F(RngStateTrackerTest, ResetFreesNamesAndSeeds) {
  tracker_.reset();
  EXPECT_THAT(tracker_.states(), IsEmpty());
  tracker_.add("a", 20);
  const auto fork = tracker_.fork("a");
  EXPECT_EQ(draw_here(2), stream(20, 2));
}

TEST_F(RngStateTrackerTest, DropsStateOfAForkWhoseNameIsGone) {
  const RngState outer = RngState::capture(cpu());
  for (const bool added_anew : {false, true}) {
    {
      const auto fork = tracker_.fork("a");
      draw_here(2);
      tracker_.reset();
      if (added_anew) tracker_.add("a", 11);
    }
    EXPECT_TRUE(outer.is_current());
    if (!added_anew) {
      EXPECT_THAT(tracker_.states(), IsEmpty());
      tracker_.add("a", 10);
    }
  }
  const auto fork = tracker_.fork("a");
  EXPECT_EQ(draw_here(2), stream(11, 2));
}

TEST_F(RngStateTrackerTest, AllowsForkToOutliveItsTracker) {
  const RngState outer = RngState::capture(cpu());
  {
    auto tracker = std::make_unique<RngStateTracker>();
    tracker->add("a", 10);
    const auto fork = tracker->fork("a");
    draw_here(1);
    tracker.reset();
  }
  EXPECT_TRUE(outer.is_current());
}

TEST_F(RngStateTrackerTest, SnapshotHasWhatTheThreadSaw) {
  Draws first;
  const RngStateTracker::States before = tracker_.states();
  const RngState cpu_before = RngState::capture(cpu());
  RngSnapshot start = RngSnapshot::capture({});
  const auto body = [&] {
    Draws drawn = draw_here(1);
    const auto fork = tracker_.fork("a");
    append(drawn, draw_here(2));
    tracker_.add("c", 30);
    const auto other = tracker_.fork("c");
    append(drawn, draw_here(2));
    return drawn;
  };
  first = body();
  start.complete();
  EXPECT_TRUE(start.drew_random_numbers());
  {
    const auto fork = tracker_.fork("b");
    draw_here(9);
  }
  const RngStateTracker::States after = tracker_.states();
  for (int replay = 0; replay < 2; ++replay) {
    const RngState found = RngState::capture(cpu());
    {
      const RngForkGuard replaying(start);
      EXPECT_TRUE(tracker_.states() == before);
      EXPECT_EQ(body(), first);
      std::thread([&] { EXPECT_TRUE(tracker_.states() == after); }).join();
    }
    EXPECT_TRUE(tracker_.states() == after);
    EXPECT_TRUE(found.is_current());
  }
  EXPECT_FALSE(cpu_before.is_current());
}

TEST_F(RngStateTrackerTest, SnapshotRecordsTheForksThatItWasTakenIn) {
  Draws first;
  std::optional<RngSnapshot> start;
  const auto body = [&] {
    Draws drawn = draw_here(1);
    const auto other = tracker_.fork("b");
    append(drawn, draw_here(1));
    {
      const auto again = tracker_.fork("a");
      append(drawn, draw_here(2));
    }
    append(drawn, draw_here(1));
    return drawn;
  };
  {
    const auto fork = tracker_.fork("a");
    draw_here(5);
    start = RngSnapshot::capture({});
    first = body();
    append(first, draw_here(1));
    start->complete();
    draw_here(3);
  }
  EXPECT_EQ(first.at(4), stream(20, 2).at(1));
  const RngStateTracker::States after = tracker_.states();
  const RngState found = RngState::capture(cpu());
  {
    const RngForkGuard replaying(*start);
    Draws again = body();
    append(again, draw_here(1));
    EXPECT_EQ(again, first);
  }
  EXPECT_TRUE(tracker_.states() == after);
  EXPECT_TRUE(found.is_current());
}

TEST_F(RngStateTrackerTest, SnapshotForgetsWhatHasNotBeenUsed) {
  RngSnapshot start = RngSnapshot::capture({});
  start.complete();
  EXPECT_FALSE(start.drew_random_numbers());
  {
    const auto fork = tracker_.fork("a");
    draw_here(1);
  }
  const RngStateTracker::States now = tracker_.states();
  const RngForkGuard replaying(start);
  EXPECT_TRUE(tracker_.states() == now);
}

TEST_F(RngStateTrackerTest, ForkIsNoDrawFromTheOuterState) {
  RngSnapshot start = RngSnapshot::capture({});
  { const auto fork = tracker_.fork("a"); }
  start.complete();
  EXPECT_FALSE(start.drew_random_numbers());
  RngSnapshot drawing = RngSnapshot::capture({});
  {
    const auto fork = tracker_.fork("a");
    draw_here(1);
  }
  drawing.complete();
  EXPECT_TRUE(drawing.drew_random_numbers());
  EXPECT_THAT(drawing.states(), IsEmpty());
}

TEST_F(RngStateTrackerTest, TrackerThatIsMadeAfterTheSnapshotWasEmptyThen) {
  RngSnapshot start = RngSnapshot::capture({});
  RngStateTracker later;
  const auto body = [&] {
    later.add("x", 50);
    const auto fork = later.fork("x");
    return draw_here(2);
  };
  const Draws first = body();
  start.complete();
  const RngForkGuard replaying(start);
  EXPECT_EQ(body(), first);
}

TEST_F(RngStateTrackerTest, DefaultTrackerIsOne) {
  EXPECT_EQ(&default_rng_state_tracker(), &default_rng_state_tracker());
  std::thread([here = &default_rng_state_tracker()] {
    EXPECT_EQ(&default_rng_state_tracker(), here);
  }).join();
}

TEST(ModelParallelManualSeedTest, SeedsTheDefaultAndTheNamedState) {
  for (const std::int64_t rank : {0, 1, 7}) {
    model_parallel_manual_seed(1234, rank);
    const auto states = default_rng_state_tracker().states();
    ASSERT_EQ(states.size(), 1U);
    EXPECT_EQ(states.begin()->first, "model-parallel-rng");
    EXPECT_EQ(states.begin()->second.seed, 1234U + 2718U + static_cast<std::uint64_t>(rank));
    {
      const auto fork = default_rng_state_tracker().fork();
      EXPECT_EQ(draw_here(3), stream(1234 + 2718 + static_cast<std::uint64_t>(rank), 3));
    }
    EXPECT_EQ(draw_here(3), stream(1234, 3));
  }
}

TEST(ModelParallelManualSeedTest, TakesATrackerOfTheCallers) {
  RngStateTracker tracker;
  tracker.add("other", 5);
  model_parallel_manual_seed(5, 2, tracker);
  EXPECT_EQ(tracker.states().size(), 1U);
  EXPECT_EQ(tracker.states().at("model-parallel-rng").seed, 2725U);
}

TEST(ModelParallelManualSeedTest, RefusesANegativeRank) {
  torch::manual_seed(3);
  const RngState before = RngState::capture(cpu());
  EXPECT_EQ(message_of<std::invalid_argument>([] { model_parallel_manual_seed(5, -1); }),
            "[rng.model_parallel_manual_seed] a rank counts from 0; received -1; pass this "
            "process's rank in its tensor-parallel group");
  EXPECT_TRUE(before.is_current());
}

TEST(RngStateSeededTest, IsWhereAGeneratorStandsOnceItIsSeeded) {
  at::Generator generator = at::detail::createCPUGenerator(1);
  at::randn({1}, generator);  // keeps a sample back
  const RngState before = RngState::capture(generator);
  const RngState seeded = RngState::seeded(generator, 10);
  EXPECT_TRUE(before.is_current());
  seeded.restore();
  EXPECT_EQ(draw(generator, 3), stream(10, 3));
  EXPECT_TRUE(seeded == RngState::seeded(generator, 10));
  EXPECT_FALSE(seeded == before);
  EXPECT_FALSE(seeded == RngState::seeded(at::detail::createCPUGenerator(1), 10));
  EXPECT_EQ(message_of<std::invalid_argument>(
                [] { static_cast<void>(RngState::seeded(at::Generator(), 1)); }),
            "[rng.seeded] an undefined generator has no state; received at::Generator(); pass a "
            "generator such as at::detail::getDefaultCPUGenerator()");
}

class RngStateTrackerOnAnAcceleratorTest : public ::testing::Test {
 protected:
  RngStateTrackerOnAnAcceleratorTest() {
    accelerator_.reset();
    tracker_.add("a", 10);
    tracker_.add("b", 20);
  }

  FakePhilox& philox() { return accelerator_.philox(0); }

  FakeAccelerator& accelerator_ = FakeAccelerator::instance();
  RngStateTracker tracker_;
};

TEST_F(RngStateTrackerOnAnAcceleratorTest, ForkDrawsFromItsStream) {
  accelerator_.bring_into_use(0);
  philox().draw();
  for (int round = 0; round < 3; ++round) {
    const auto fork = tracker_.fork("a");
    EXPECT_EQ(philox().current_seed(), 10U);
    EXPECT_EQ(philox().get_offset(), 4U * static_cast<unsigned>(round));
    philox().draw();
  }
  EXPECT_EQ(philox().current_seed(), 7U);
  EXPECT_EQ(philox().get_offset(), 4U);
  EXPECT_EQ(philox().calls.get_state, 0);
  const auto states = tracker_.states();
  ASSERT_EQ(states.at("a").generators.size(), 1U);  // the CPU's has not been drawn from
  EXPECT_EQ(states.at("a").generators[0].device(), at::Device(at::kPrivateUse1, 0));
}

TEST_F(RngStateTrackerOnAnAcceleratorTest, InitialisesNoIdleDevice) {
  {
    const auto fork = tracker_.fork("a");
    EXPECT_FALSE(accelerator_.is_in_use(0));
    RngSnapshot region = RngSnapshot::capture({});
    {
      const auto inner = tracker_.fork("b");
      accelerator_.bring_into_use(0);
      EXPECT_EQ(philox().current_seed(), 20U);
      philox().draw();
    }
    EXPECT_EQ(philox().current_seed(), 10U);
    region.complete();
    EXPECT_TRUE(region.drew_random_numbers());
    EXPECT_THAT(region.states(), IsEmpty());
  }
  EXPECT_FALSE(accelerator_.is_in_use(1));
  EXPECT_EQ(philox().current_seed(), 7U);
  EXPECT_EQ(philox().get_offset(), 0U);
}

TEST_F(RngStateTrackerOnAnAcceleratorTest, SetsNothingWhenNameIsReentered) {
  const auto fork = tracker_.fork("a");
  const int seeds = philox().calls.set_seed;
  const int offsets = philox().calls.set_offset;
  {
    const auto inner = tracker_.fork("a");
    philox().draw();
  }
  EXPECT_EQ(philox().calls.set_seed, seeds);
  EXPECT_EQ(philox().calls.set_offset, offsets);
  EXPECT_EQ(philox().get_offset(), 4U);
}

TEST_F(RngStateTrackerOnAnAcceleratorTest, GeneratorsWithoutOffsetTakePart) {
  accelerator_.set_default_generator(0, at::make_generator<FakeTensorGenerator>());
  auto& generator = *accelerator_.default_generator(0).get<FakeTensorGenerator>();
  for (int round = 0; round < 2; ++round) {
    const auto fork = tracker_.fork("a");
    EXPECT_EQ(generator.state()[0].item<int>(), 10 + round);
    generator.draw();
  }
  EXPECT_EQ(generator.state()[0].item<int>(), 0);
  accelerator_.reset();
}

TEST_F(RngStateTrackerOnAnAcceleratorTest, ChangesNothingWhenAGeneratorRefuses) {
  const RngState cpu_before = RngState::capture(cpu());
  int calls = 0;
  philox().on_set_offset = [&] {
    if (++calls == 1) throw std::runtime_error("the generator refused");
  };
  EXPECT_EQ(message_of<std::runtime_error>([&] { static_cast<void>(tracker_.fork("a")); }),
            "the generator refused");
  EXPECT_EQ(calls, 2);
  EXPECT_TRUE(cpu_before.is_current());
  EXPECT_EQ(philox().current_seed(), 7U);
  EXPECT_EQ(philox().get_offset(), 0U);
  philox().on_set_offset = {};
  const auto fork = tracker_.fork("a");
  EXPECT_EQ(philox().current_seed(), 10U);
}

TEST_F(RngStateTrackerOnAnAcceleratorTest, WarnsOfAGeneratorThatRefusesAndPutsTheOthersBack) {
  const RngState cpu_before = RngState::capture(cpu());
  const WarningLog warnings;
  {
    const auto fork = tracker_.fork("a");
    draw_here(1);
    philox().on_set_offset = [] { throw std::runtime_error("the generator refused"); };
  }
  EXPECT_TRUE(cpu_before.is_current());
  EXPECT_THAT(warnings.messages(),
              ElementsAre(HasSubstr("[rng.fork] a generator was not set back to where it stood "
                                    "before the fork; the one on fakeaccelerator:0 refused: the "
                                    "generator refused")));
}

TEST_F(RngStateTrackerOnAnAcceleratorTest, WarnsOfAStreamThatCannotBeKept) {
  const WarningLog warnings;
  {
    const auto fork = tracker_.fork("a");
    philox().draw();
    philox().on_get_offset = [] { throw std::runtime_error("the generator refused"); };
  }
  philox().on_get_offset = {};
  EXPECT_EQ(philox().current_seed(), 7U);
  EXPECT_THAT(warnings.messages(),
              ElementsAre(HasSubstr("[rng.fork] where the named state 'a' stands was not kept")));
}

TEST_F(RngStateTrackerOnAnAcceleratorTest, ModelParallelManualSeedSeedsAllDevicesAndWakesNone) {
  philox().draw();
  const std::int64_t rank = 3;
  model_parallel_manual_seed(100, rank, tracker_);
  EXPECT_EQ(philox().current_seed(), 100U);
  EXPECT_EQ(philox().get_offset(), 0U);
  EXPECT_EQ(accelerator_.philox(1).current_seed(), 100U);
  EXPECT_FALSE(accelerator_.is_in_use(0));
  EXPECT_FALSE(accelerator_.is_in_use(1));
  const auto fork = tracker_.fork();
  EXPECT_EQ(philox().current_seed(), 2821U);
}

}  // namespace
}  // namespace reprise::rng_state_tracker_test
