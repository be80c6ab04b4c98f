// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Regions and forks of named generator states, inside each other in every order: with each form of
// region and under policies, gradients, generators and named states are those of a run without
// regions.
#include "reprise/rng/rng_state_tracker.h"

#include <array>
#include <memory>
#include <random>
#include <stdexcept>
#include <thread>

#include "reprise/engine/checkpoint_scope.h"
#include "reprise/engine/recomputing.h"
#include "reprise/policies/policies.h"
#include "reprise/rng/rng_state.h"
#include "tests/conformance/conformance_fixture.h"
#include "tests/testing/sanitized.h"
#include "tests/testing/warning_log.h"

namespace reprise::testing::rng_state_tracker_test {
namespace {

using Code = std::function<at::Tensor(const at::Tensor&)>;

enum class Form { kPlain, kFunction, kTape, kScope };
constexpr std::array kForms = {Form::kFunction, Form::kTape, Form::kScope};

// How a program makes its regions.
struct Regions {
  at::Tensor operator()(const Code& code, const at::Tensor& x) const {
    if (form == Form::kPlain) {
      return code(x);
    }
    if (form == Form::kScope) {
      const CheckpointScope scope(options);
      return code(x);
    }
    CheckpointOptions with_replay = options;
    with_replay.replay = form == Form::kTape ? ReplayMode::kTape : ReplayMode::kFunction;
    return checkpoint(with_replay, code, x);
  }

  Form form = Form::kPlain;
  CheckpointOptions options = {};
};

using Program = std::function<at::Tensor(const Regions& region, const at::Tensor& x)>;

RngStateTracker& tracker() { return default_rng_state_tracker(); }

at::Tensor drop(const at::Tensor& x) { return torch::dropout(x, 0.3, true); }

// Under a fork of `name`.
at::Tensor drop_in(std::string_view name, const at::Tensor& x) {
  const auto fork = tracker().fork(name);
  return drop(x.sin());
}

void seed(std::uint64_t rank = 0) {
  model_parallel_manual_seed(77, static_cast<std::int64_t>(rank));
  tracker().add("other", 5);
}

struct Outcome {
  Tensors tensors;  // results, gradients, and the CPU generator's states
  std::vector<RngStateTracker::States> states;

  void note_random() {
    tensors.push_back(cpu_generator_state());
    states.push_back(tracker().states());
  }
};

// A program, draws behind it from each state, and two backwards with draws in between.
Outcome train(const Program& program, const Regions& region, std::uint64_t rank = 0) {
  seed(rank);
  const at::Tensor x = torch::randn({6, 6}).requires_grad_();
  Outcome outcome;
  const at::Tensor y = program(region, x);
  outcome.tensors.push_back(y.detach());
  outcome.note_random();
  outcome.tensors.push_back(drop_in("other", drop_in(kModelParallelRng, at::ones({3}))));
  outcome.tensors.push_back(torch::autograd::grad({y.sum()}, {x}, {}, /*retain_graph=*/true)[0]);
  outcome.note_random();
  outcome.tensors.push_back(drop_in(kModelParallelRng, drop(at::ones({3}))));
  outcome.tensors.push_back(torch::autograd::grad({y.sum()}, {x})[0]);
  outcome.note_random();
  return outcome;
}

void expect_equal(const Outcome& got, const Outcome& expected) {
  expect_same_bits(got.tensors, expected.tensors);
  EXPECT_TRUE(got.states == expected.states);
}

std::vector<std::pair<std::string, CheckpointOptions>> many_options() {
  const auto even = [](const PolicyContext& context) { return context.ordinal() % 2 == 0; };
  const auto odd = [](const PolicyContext& context) { return context.ordinal() % 2 == 1; };
  return {{"no policy", {}},
          {"no early stop", {.early_stop = false}},
          {"nothing", {.policy = policies::save_nothing()}},
          {"matmuls", {.policy = policies::save_matmuls()}},
          {"everything", {.policy = policies::save_everything()}},
          {"random", {.policy = policies::save_operators({"aten::bernoulli_.float"})}},
          {"even", {.policy = PolicyHolder(even)}},
          {"odd", {.policy = PolicyHolder(odd)}}};
}

class RegionsAndForksTest : public ConformanceTest {
 protected:
  // The tracker of the process keeps states of 2.5 KB, but no tensors.
  ~RegionsAndForksTest() override { tracker().reset(); }

  static void expect_as_plain(const Program& program) {
    const Outcome expected = train(program, {});
    for (const Form form : kForms) {
      for (const auto& [name, options] : many_options()) {
        SCOPED_TRACE(c10::str("form ", static_cast<int>(form), ", ", name));
        expect_equal(train(program, {form, options}), expected);
      }
    }
  }
};

at::Tensor forks_inside(const at::Tensor& x) {
  at::Tensor h = drop(x.sin());
  {
    const auto fork = tracker().fork();
    h = drop(h.mm(x)).tanh();
  }
  h = drop(h).exp();
  h = drop_in("other", h) * drop_in(kModelParallelRng, h);
  return drop(h.cos()).sin();
}

TEST_F(RegionsAndForksTest, ForksInsideARegion) {
  expect_as_plain([](const Regions& region, const at::Tensor& x) {
    return region(forks_inside, region(forks_inside, x * 1));
  });
}

TEST_F(RegionsAndForksTest, RunsARegionThatDrawsInForksOnly) {
  expect_as_plain([](const Regions& region, const at::Tensor& x) {
    const auto code = [](const at::Tensor& t) { return drop_in(kModelParallelRng, t.exp()).sin(); };
    return region(code, region(code, x * 1));
  });
}

TEST_F(RegionsAndForksTest, RunsARegionInsideAFork) {
  expect_as_plain([](const Regions& region, const at::Tensor& x) {
    const at::Tensor h = drop(x);
    const auto fork = tracker().fork();
    const auto code = [](const at::Tensor& t) { return drop(t.sin().mm(t)).exp(); };
    return drop(region(code, drop(h))).sin();
  });
}

TEST_F(RegionsAndForksTest, ForksInARegionInAFork) {
  expect_as_plain([](const Regions& region, const at::Tensor& x) {
    const auto fork = tracker().fork();
    const auto code = [](const at::Tensor& t) {
      at::Tensor h = drop(t.sin());
      {
        const auto other = tracker().fork("other");
        h = drop(h.exp());
        h = drop_in(kModelParallelRng, h);  // of the name of the fork around the region
        h = drop(h.tanh());
      }
      h = drop_in(kModelParallelRng, h);
      return drop(h).sin();
    };
    return drop(region(code, drop(region(code, x * 1))));
  });
}

TEST_F(RegionsAndForksTest, NestedRegionsWithForks) {
  expect_as_plain([](const Regions& region, const at::Tensor& x) {
    const auto inner = [](const at::Tensor& t) { return forks_inside(drop(t)); };
    const auto outer = [&region, inner](const at::Tensor& t) {
      const at::Tensor h = drop_in("other", region(inner, drop(t).sin()));
      const auto fork = tracker().fork();
      return drop(region(inner, h.cos())).sin();
    };
    return region(outer, region(outer, x * 1));
  });
}

// The last needed tensor is made in the middle of a fork, which the replay leaves there.
TEST_F(RegionsAndForksTest, StopsEarlyInsideAFork) {
  expect_as_plain([](const Regions& region, const at::Tensor& x) {
    const auto code = [](const at::Tensor& t) {
      const auto fork = tracker().fork();
      const at::Tensor h = drop(t.exp()).sin();
      const auto other = tracker().fork("other");
      return h + at::rand_like(h) + drop(at::ones({2})).sum();
    };
    return region(code, drop(x));
  });
}

TEST_F(RegionsAndForksTest, BackwardInsideTheRegion) {
  expect_as_plain([](const Regions& region, const at::Tensor& x) {
    const auto inner = [](const at::Tensor& t) { return drop_in("other", drop(t.exp())).sin(); };
    const auto code = [&region, inner](const at::Tensor& t) {
      const auto fork = tracker().fork();
      const at::Tensor leaf = t.detach().requires_grad_();
      const at::Tensor y = region(inner, leaf);
      return drop(t.sin() * torch::autograd::grad({y.sum()}, {leaf})[0]).exp();
    };
    return region(code, x * 1);
  });
}

TEST_F(RegionsAndForksTest, BackwardInsideAFork) {
  const auto run = [](const Regions& region) {
    seed();
    const at::Tensor x = at::ones({6, 6}).requires_grad_();
    Outcome outcome;
    {
      const auto fork = tracker().fork();
      const at::Tensor y = region(forks_inside, drop(x));
      outcome.tensors = torch::autograd::grad({y.sum()}, {x});
      outcome.tensors.push_back(drop(at::ones({9})));
    }
    outcome.note_random();
    return outcome;
  };
  const Outcome expected = run({});
  for (const Form form : kForms) {
    for (const auto& [name, options] : many_options()) {
      SCOPED_TRACE(c10::str("form ", static_cast<int>(form), ", ", name));
      expect_equal(run({form, options}), expected);
    }
  }
}

TEST_F(RegionsAndForksTest, BackwardOnAnotherThread) {
  const auto run = [](const Regions& region) {
    seed();
    const at::Tensor x = at::ones({6, 6}).requires_grad_();
    const at::Tensor y = region(forks_inside, region(forks_inside, x * 1)).sum();
    Outcome outcome;
    outcome.note_random();
    std::thread([&] { outcome.tensors.push_back(torch::autograd::grad({y}, {x})[0]); }).join();
    outcome.note_random();
    return outcome;
  };
  const Outcome expected = run({});
  for (const Form form : kForms) {
    SCOPED_TRACE(static_cast<int>(form));
    expect_equal(run({form}), expected);
  }
}

// Dropout outside of forks is the same on all ranks, dropout inside is not; and so again in
// backward.
TEST_F(RegionsAndForksTest, RanksShareTheDefaultStateOnly) {
  const auto gradients_of = [](std::uint64_t rank, const Regions& region) {
    seed(rank);
    const at::Tensor x = at::zeros({400}).requires_grad_();
    const at::Tensor all = region([](const at::Tensor& t) { return drop(t.exp()); }, x);
    const at::Tensor own = region(
        [](const at::Tensor& t) {
          const auto fork = tracker().fork();
          return drop(t.exp());
        },
        x);
    return Tensors{torch::autograd::grad({own.sum()}, {x})[0],
                   torch::autograd::grad({all.sum()}, {x})[0]};
  };
  for (const Form form : kForms) {
    SCOPED_TRACE(static_cast<int>(form));
    std::vector<Tensors> of_ranks;
    for (const std::uint64_t rank : {0U, 1U, 2U}) {
      of_ranks.push_back(gradients_of(rank, {form}));
      expect_same_bits(of_ranks.back(), gradients_of(rank, {}));
    }
    EXPECT_TRUE(bitwise_equal(of_ranks[0][1], of_ranks[1][1]));
    EXPECT_TRUE(bitwise_equal(of_ranks[0][1], of_ranks[2][1]));
    EXPECT_FALSE(at::equal(of_ranks[0][0], of_ranks[1][0]));
    EXPECT_FALSE(at::equal(of_ranks[0][0], of_ranks[2][0]));
    EXPECT_FALSE(at::equal(of_ranks[1][0], of_ranks[2][0]));
  }
}

TEST_F(RegionsAndForksTest, ReplayThatThrowsInsideAForkLeavesNothingBehind) {
  for (const CheckpointOptions& options :
       {CheckpointOptions{}, CheckpointOptions{.policy = policies::save_nothing()}}) {
    seed();
    const at::Tensor x = at::ones({6, 6}).requires_grad_();
    bool throws = true;
    const auto code = [&throws](const at::Tensor& t) {
      const auto fork = tracker().fork();
      const at::Tensor h = drop(t.exp());
      const auto other = tracker().fork("other");
      if (is_recomputing() && throws) {
        throw std::runtime_error("inside the fork");
      }
      return drop(h.sin()).exp();
    };
    const at::Tensor plain = code(x);
    const Tensors expected = torch::autograd::grad({plain.sum()}, {x});
    seed();
    const at::Tensor y = checkpoint(options, code, x).sum();
    const at::Tensor generator = cpu_generator_state();
    const RngStateTracker::States states = tracker().states();
    try {
      torch::autograd::grad({y}, {x}, {}, /*retain_graph=*/true);
      FAIL() << "no error";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "inside the fork");
    }
    EXPECT_TRUE(bitwise_equal(cpu_generator_state(), generator));
    EXPECT_TRUE(tracker().states() == states);
    throws = false;
    expect_same_bits(torch::autograd::grad({y}, {x}), expected);
    EXPECT_TRUE(bitwise_equal(cpu_generator_state(), generator));
    EXPECT_TRUE(tracker().states() == states);
  }
}

// Code that seeds does so in each replay, for that replay.
TEST_F(RegionsAndForksTest, AllowsRegionToChangeItsTracker) {
  expect_as_plain([](const Regions& region, const at::Tensor& x) {
    const auto code = [](const at::Tensor& t) {
      const at::Tensor h = drop_in("other", t.exp());
      tracker().add("of the region", 1000);
      const at::Tensor g = drop_in("of the region", h.sin());
      tracker().reset();
      tracker().add("other", 6);
      tracker().add(std::string(kModelParallelRng), 5);
      return drop_in("other", g).exp();
    };
    return region(code, drop(x));
  });
}

TEST_F(RegionsAndForksTest, TrackerOfTheCallersIsRestoredToo) {
  const auto run = [](const Regions& region) {
    seed();
    RngStateTracker own;
    own.add("mine", 8);
    const at::Tensor x = at::ones({6, 6}).requires_grad_();
    const auto code = [&own](const at::Tensor& t) {
      const auto fork = own.fork("mine");
      return drop_in("other", drop(t.exp()));
    };
    const at::Tensor y = region(code, region(code, x * 1)).sum();
    Outcome outcome;
    outcome.states.push_back(own.states());
    outcome.tensors = torch::autograd::grad({y}, {x});
    outcome.states.push_back(own.states());
    outcome.note_random();
    return outcome;
  };
  const Outcome expected = run({});
  EXPECT_TRUE(expected.states[0] == expected.states[1]);
  for (const Form form : kForms) {
    expect_equal(run({form}), expected);
  }
}

// As with the default state: the replay draws on from where backward finds the named state.
TEST_F(RegionsAndForksTest, WithoutPreservedStateAReplayDrawsOn) {
  const WarningLog warnings;
  const auto code = [](const at::Tensor& t) { return drop_in(kModelParallelRng, t.exp()); };
  seed();
  const at::Tensor x = at::zeros({400}).requires_grad_();
  const at::Tensor y = checkpoint({.name = "draws", .preserve_rng_state = false}, code, x).sum();
  EXPECT_THAT(warnings.messages(),
              ::testing::ElementsAre(::testing::HasSubstr(
                  "reprise: region 'draws' drew random numbers, but preserve_rng_state is off")));
  const at::Tensor second = [&] {
    const RngStateTracker::States states = tracker().states();
    const at::Tensor drawn = torch::autograd::grad({code(x).sum()}, {x})[0];
    tracker().set_states(states);
    return drawn;
  }();
  const RngStateTracker::States before = tracker().states();
  torch::autograd::grad({y}, {x});
  EXPECT_FALSE(tracker().states() == before);
  const at::Tensor third = torch::autograd::grad({code(x).sum()}, {x})[0];
  EXPECT_FALSE(at::equal(third, second));
}

// A tree of forks, regions and dropouts, drawn from a seed.
at::Tensor random_program(std::mt19937& choose, const Regions& region, at::Tensor h, int depth) {
  const auto steps = 2 + choose() % 3;
  for (std::uint32_t step = 0; step < steps; ++step) {
    const auto kind = depth == 0 ? 0 : choose() % 6;
    const std::uint32_t inner = choose();
    const auto body = [&region, inner, depth](const at::Tensor& t) {
      std::mt19937 next(inner);
      return random_program(next, region, t, depth - 1);
    };
    if (kind <= 1) {
      h = drop(inner % 2 == 0 ? h.sin() : h.mm(h).tanh());
    } else if (kind == 2) {
      const auto fork = tracker().fork();
      h = body(h);
    } else if (kind == 3) {
      const auto fork = tracker().fork("other");
      h = body(h);
    } else {
      h = region(body, h);
    }
  }
  return h;
}

TEST_F(RegionsAndForksTest, ProgramsMadeUpAtRandom) {
  for (std::uint32_t number = 0; number < cases(25U, 5U); ++number) {
    SCOPED_TRACE(number);
    const Program program = [number](const Regions& region, const at::Tensor& x) {
      std::mt19937 choose(number);
      return random_program(choose, region, x * 1, 4);
    };
    const Outcome expected = train(program, {});
    for (const Form form : kForms) {
      for (const PolicyHolder& policy : {PolicyHolder(), policies::save_matmuls(),
                                         PolicyHolder([](const PolicyContext& context) {
                                           return context.ordinal() % 3 == 0;
                                         })}) {
        SCOPED_TRACE(static_cast<int>(form));
        expect_equal(train(program, {form, {.policy = policy}}), expected);
      }
    }
  }
}

// Here, as the programs of rng_test have an accelerator of their own.
TEST(RngStateTrackerOnCudaTest, ForkDrawsFromItsStream) {
  if (!torch::cuda::is_available()) {
    GTEST_SKIP() << "needs a GPU";
  }
  const at::Tensor x = at::ones({1000}, at::TensorOptions().device(at::kCUDA));
  torch::manual_seed(10);
  const at::Tensor first = at::dropout(x, 0.5, true);
  const at::Tensor second = at::dropout(x, 0.5, true);
  torch::manual_seed(1);
  const RngState outer = RngState::capture(at::globalContext().defaultGenerator(x.device()));
  RngStateTracker states;
  states.add("a", 10);
  for (const at::Tensor& expected : {first, second}) {
    const auto fork = states.fork("a");
    EXPECT_TRUE(at::equal(at::dropout(x, 0.5, true), expected));
  }
  EXPECT_TRUE(outer.is_current());
}

}  // namespace
}  // namespace reprise::testing::rng_state_tracker_test
