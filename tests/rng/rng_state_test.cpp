// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/rng/rng_state.h"

#include <ATen/CPUGeneratorImpl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <memory>
#include <stdexcept>
#include <thread>
#include <type_traits>

#include "tests/rng/fake_generators.h"

namespace reprise::rng_state_test {
namespace {

using ::reprise::testing::draw;
using ::reprise::testing::FakePhilox;
using ::reprise::testing::FakeTensorGenerator;
using ::testing::HasSubstr;

static_assert(std::is_copy_constructible_v<RngState> && std::is_copy_assignable_v<RngState>);
static_assert(sizeof(RngState) <= 32, "the engine's 2.5 KB stand elsewhere");

// Draws a normal sample as an operator does; an odd number of them leaves one kept back.
double draw_normal(at::Generator& generator) {
  return at::randn({1}, generator, at::kDouble).item<double>();
}

TEST(RngStateTest, RestoresAnyPositionWithinTheEngineBlock) {
  at::Generator generator = at::detail::createCPUGenerator(17);
  for (int position = 1; position <= 1300; ++position) {
    const RngState start = RngState::capture(generator);
    const std::vector<uint32_t> expected = draw(generator, 700);
    start.restore();
    ASSERT_EQ(draw(generator, 700), expected) << "after " << position - 1 << " draws";
    start.restore();
    draw(generator, 1);
  }
}

TEST(RngStateTest, RestoresAcrossAnyNumberOfDraws) {
  at::Generator generator = at::detail::createCPUGenerator(3);
  const RngState start = RngState::capture(generator);
  const std::vector<uint32_t> expected = draw(generator, 1300);
  for (int drawn = 1; drawn <= 1300; ++drawn) {
    start.restore();
    draw(generator, drawn);
    EXPECT_FALSE(start.is_current()) << drawn;
    start.restore();
    ASSERT_TRUE(start.is_current()) << drawn;
  }
  EXPECT_EQ(draw(generator, 1300), expected);
}

TEST(RngStateTest, RestoresTheNormalSampleKeptBack) {
  at::Generator generator = at::detail::createCPUGenerator(5);
  draw_normal(generator);
  auto* impl = generator.get<at::CPUGeneratorImpl>();
  ASSERT_TRUE(impl->next_double_normal_sample().has_value());

  const RngState start = RngState::capture(generator);
  const double kept_back = draw_normal(generator);
  const double next = draw_normal(generator);
  start.restore();

  EXPECT_TRUE(impl->next_double_normal_sample().has_value());
  EXPECT_EQ(draw_normal(generator), kept_back);
  EXPECT_EQ(draw_normal(generator), next);
}

TEST(RngStateTest, RestoresThatNoNormalSampleWasKeptBack) {
  at::Generator generator = at::detail::createCPUGenerator(5);
  const RngState start = RngState::capture(generator);
  const at::Tensor expected = at::randn({5}, generator, at::kDouble);
  start.restore();
  EXPECT_TRUE(at::equal(at::randn({5}, generator, at::kDouble), expected));
}

TEST(RngStateTest, RestoresTheSinglePrecisionNormalSample) {
  at::Generator generator = at::detail::createCPUGenerator();
  auto* impl = generator.get<at::CPUGeneratorImpl>();
  impl->set_next_float_normal_sample(0.25F);
  const RngState start = RngState::capture(generator);
  impl->set_next_float_normal_sample(std::nullopt);
  EXPECT_FALSE(start.is_current());
  start.restore();
  EXPECT_EQ(impl->next_float_normal_sample(), std::optional<float>(0.25F));
}

TEST(RngStateTest, IsNotCurrentOnceTheKeptBackSampleIsUsed) {
  at::Generator generator = at::detail::createCPUGenerator(5);
  draw_normal(generator);
  const RngState start = RngState::capture(generator);
  EXPECT_TRUE(start.is_current());
  draw_normal(generator);  // leaves the engine where it was
  EXPECT_FALSE(start.is_current());
}

TEST(RngStateTest, IsNotCurrentUnderAnotherSeedAtTheSamePosition) {
  at::Generator generator = at::detail::createCPUGenerator(1);
  const RngState start = RngState::capture(generator);
  generator.set_current_seed(2);
  EXPECT_FALSE(start.is_current());
  generator.set_current_seed(1);
  EXPECT_TRUE(start.is_current());
}

TEST(RngStateTest, RestoresDropoutOfTheDefaultGenerator) {
  const RngState start = RngState::capture(at::detail::getDefaultCPUGenerator());
  const at::Tensor expected = at::dropout(at::ones({1000}), 0.5, true);
  start.restore();
  EXPECT_TRUE(at::equal(at::dropout(at::ones({1000}), 0.5, true), expected));
}

TEST(RngStateTest, KeepsItsGeneratorAliveAndNamesIt) {
  at::Generator generator = at::detail::createCPUGenerator();
  c10::GeneratorImpl* impl = generator.unsafeGetGeneratorImpl();
  const auto state = std::make_unique<RngState>(RngState::capture(generator));
  EXPECT_EQ(state->generator(), generator);
  EXPECT_EQ(state->device(), at::Device(at::kCPU));
  generator = at::Generator();
  EXPECT_EQ(state->generator().unsafeGetGeneratorImpl(), impl);
  state->restore();
}

TEST(RngStateTest, CopiesOutliveTheOriginal) {
  at::Generator generator = at::detail::createCPUGenerator(9);
  auto original = std::make_unique<RngState>(RngState::capture(generator));
  const RngState copy = *original;
  original.reset();
  const std::vector<uint32_t> expected = draw(generator, 10);
  copy.restore();
  EXPECT_EQ(draw(generator, 10), expected);
}

// A CPU generator with more state than the engine's.
class CountingCpuGenerator : public at::CPUGeneratorImpl {
 public:
  void set_state(const c10::TensorImpl& new_state) override {
    ++restored;
    at::CPUGeneratorImpl::set_state(new_state);
  }
  int restored = 0;
};

TEST(RngStateTest, FreesStatesInTheDestructorsOfAThread) {
  at::Generator generator = at::detail::createCPUGenerator(11);
  const std::vector<uint32_t> expected = draw(generator, 3);
  std::thread([&] {
    // Destroyed after whatever the first capture makes for the thread.
    thread_local std::vector<RngState> t_states;
    t_states.reserve(2);
    generator.set_current_seed(11);
    t_states.push_back(RngState::capture(generator));
    t_states.push_back(t_states.front());
    { const RngState freed = RngState::capture(generator); }
    draw(generator, 100);
    t_states.back().restore();
  }).join();
  EXPECT_EQ(draw(generator, 3), expected);
}

TEST(RngStateTest, LeavesTheStateOfASubclassOfTheCpuGeneratorToIt) {
  at::Generator generator = at::make_generator<CountingCpuGenerator>();
  const RngState start = RngState::capture(generator);
  const std::vector<uint32_t> expected = draw(generator, 10);
  EXPECT_FALSE(start.is_current());
  start.restore();
  EXPECT_TRUE(start.is_current());
  EXPECT_EQ(draw(generator, 10), expected);
  EXPECT_EQ(generator.get<CountingCpuGenerator>()->restored, 1);
}

TEST(RngStateTest, ReadsPhiloxWithoutATensor) {
  at::Generator generator = at::make_generator<FakePhilox>();
  auto& philox = *generator.get<FakePhilox>();
  philox.draw();
  const RngState start = RngState::capture(generator);
  EXPECT_TRUE(start.is_current());
  philox.draw();
  EXPECT_FALSE(start.is_current());
  start.restore();
  EXPECT_EQ(philox.get_offset(), 4U);
  EXPECT_EQ(philox.calls.get_state, 0);
  EXPECT_EQ(philox.calls.set_state, 0);
}

TEST(RngStateTest, SetsThePhiloxSeedOnlyIfItDiffers) {
  at::Generator generator = at::make_generator<FakePhilox>();
  auto& philox = *generator.get<FakePhilox>();
  philox.draw();
  const RngState start = RngState::capture(generator);
  philox.draw();
  start.restore();
  EXPECT_EQ(philox.calls.set_seed, 0);

  philox.set_current_seed(99);
  EXPECT_FALSE(start.is_current());
  start.restore();
  EXPECT_EQ(philox.calls.set_seed, 2);  // the test's and the restore's
  EXPECT_EQ(philox.current_seed(), 7U);
  EXPECT_EQ(philox.get_offset(), 4U);
}

// As CUDA's generator does during stream capture.
TEST(RngStateTest, TakesTheStateTensorWhereTheOffsetIsRefused) {
  at::Generator generator = at::make_generator<FakePhilox>();
  auto& philox = *generator.get<FakePhilox>();
  philox.draw();
  const auto refuse = [] { TORCH_CHECK(false, "capturing"); };
  philox.on_get_offset = refuse;
  philox.on_set_offset = refuse;
  const RngState start = RngState::capture(generator);
  philox.draw();
  EXPECT_FALSE(start.is_current());
  start.restore();
  EXPECT_TRUE(start.is_current());
  philox.on_get_offset = nullptr;
  EXPECT_EQ(philox.get_offset(), 4U);
  EXPECT_EQ(philox.calls.set_seed, 0);
}

TEST(RngStateTest, CopiesAStateTensorThatTheGeneratorGoesOnChanging) {
  at::Generator generator = at::make_generator<FakeTensorGenerator>();
  auto& fake = *generator.get<FakeTensorGenerator>();
  const at::Tensor expected = fake.state().clone();
  const RngState start = RngState::capture(generator);
  EXPECT_TRUE(start.is_current());
  fake.draw();
  EXPECT_FALSE(start.is_current());
  start.restore();
  EXPECT_TRUE(start.is_current());
  EXPECT_TRUE(at::equal(fake.state(), expected));
}

TEST(RngStateTest, RefusesAStateTensorThatIsNotContiguous) {
  at::Generator generator = at::make_generator<FakeTensorGenerator>();
  generator.get<FakeTensorGenerator>()->set_state_tensor(torch::zeros({4, 4}, at::kByte).t()[0]);
  try {
    (void)RngState::capture(generator);
    FAIL() << "captured";
  } catch (const c10::NotImplementedError& error) {
    EXPECT_THAT(error.what_without_backtrace(), HasSubstr("not a contiguous CPU tensor"));
  }
}

TEST(RngStateTest, RefusesAnUndefinedGenerator) {
  try {
    (void)RngState::capture(at::Generator());
    FAIL() << "captured";
  } catch (const std::invalid_argument& error) {
    EXPECT_THAT(error.what(), HasSubstr("[rng.capture] an undefined generator has no state"));
  }
}

TEST(RngStateTest, HoldsTheGeneratorsMutexWhileItAsksAndSets) {
  at::Generator generator = at::make_generator<FakePhilox>();
  auto& philox = *generator.get<FakePhilox>();
  int locked = 0;
  const auto look = [&] {
    // From another thread, since a mutex may not be tried by its owner.
    std::thread([&] {
      if (philox.mutex_.try_lock()) {
        philox.mutex_.unlock();
      } else {
        ++locked;
      }
    }).join();
  };
  philox.on_get_offset = look;
  philox.on_set_offset = look;
  const RngState start = RngState::capture(generator);
  EXPECT_EQ(locked, 1);
  EXPECT_TRUE(start.is_current());
  EXPECT_EQ(locked, 2);
  start.restore();
  EXPECT_EQ(locked, 3);
}

TEST(RngStateTest, LetsGoOfTheMutexWhenTheGeneratorThrows) {
  at::Generator generator = at::make_generator<FakePhilox>();
  auto& philox = *generator.get<FakePhilox>();
  const RngState start = RngState::capture(generator);
  philox.on_set_offset = [] { throw std::runtime_error("no"); };
  EXPECT_THAT([&] { start.restore(); },
              ::testing::ThrowsMessage<std::runtime_error>(HasSubstr("no")));
  EXPECT_TRUE(philox.mutex_.try_lock());
  philox.mutex_.unlock();
}

TEST(RngStateTest, RestoresDropoutOnCuda) {
  if (!at::hasCUDA()) GTEST_SKIP() << "no CUDA device";
  const at::Tensor ones = at::ones({1000}, at::TensorOptions().device(at::kCUDA));
  const at::Generator& generator = at::globalContext().defaultGenerator(ones.device());
  const RngState start = RngState::capture(generator);
  EXPECT_TRUE(start.is_current());
  const at::Tensor expected = at::dropout(ones, 0.5, true);
  EXPECT_FALSE(start.is_current());
  start.restore();
  EXPECT_TRUE(at::equal(at::dropout(ones, 0.5, true), expected));
}

TEST(RngStateTest, RestoresTheSeedOnCuda) {
  if (!at::hasCUDA()) GTEST_SKIP() << "no CUDA device";
  const auto options = at::TensorOptions().device(at::kCUDA);
  const at::Generator& generator =
      at::globalContext().defaultGenerator(at::empty({1}, options).device());
  const RngState start = RngState::capture(generator);
  const at::Tensor expected = at::rand({100}, options);
  torch::manual_seed(start.generator().current_seed() + 1);
  EXPECT_FALSE(start.is_current());
  start.restore();
  EXPECT_TRUE(at::equal(at::rand({100}, options), expected));
}

}  // namespace
}  // namespace reprise::rng_state_test
