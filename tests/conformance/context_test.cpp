// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Conformance rows 16, 17, 22 to 25: paired contexts, and saved-tensor hooks around and inside a
// region.
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "reprise/hooks/save_on_cpu.h"
#include "reprise/hooks/saved_tensor_hooks.h"
#include "tests/conformance/conformance_fixture.h"
#include "tests/testing/op_recorder.h"

namespace reprise::testing::context_test {
namespace {

using ::testing::ElementsAre;

class CheckpointContextTest : public ConformanceTest {};

// Notes the operators that run while it is entered.
class Recording final : public RegionContext {
 public:
  void enter() override { recorder_.emplace(); }
  void exit() noexcept override {
    names = recorder_->names();
    recorder_.reset();
  }
  std::vector<std::string> names;

 private:
  std::optional<OpRecorder> recorder_;
};

TEST_F(CheckpointContextTest, C016_ForwardContextSeesTheOperatorsOfForward) {
  const auto context = std::make_shared<Recording>();
  const at::Tensor x = leaf({3});
  const at::Tensor y = checkpoint(
      {.context_fn =
           [&] {
             return RegionContexts{context, nullptr};
           }},
      [](const at::Tensor& t) { return t.exp(); }, x);
  EXPECT_THAT(context->names, ElementsAre("aten::exp"));
  context->names.clear();
  gradients(y, {x});
  EXPECT_TRUE(context->names.empty());
}

TEST_F(CheckpointContextTest, C017_RecomputeContextSeesTheOperatorsOfTheReplay) {
  const auto context = std::make_shared<Recording>();
  const at::Tensor x = leaf({3});
  const at::Tensor y = checkpoint(
      {.context_fn =
           [&] {
             return RegionContexts{nullptr, context};
           }},
      [](const at::Tensor& t) { return t.exp(); }, x);
  EXPECT_TRUE(context->names.empty());
  gradients(y, {x});
  EXPECT_THAT(context->names, ElementsAre("aten::exp"));
}

TEST_F(CheckpointContextTest, C017b_IsRecomputingTellsTheReplayFromForward) {
  std::vector<bool> answers;
  bool other_thread = true;
  const at::Tensor x = leaf({3});
  const at::Tensor y = checkpoint(
      [&](const at::Tensor& t) {
        answers.push_back(is_recomputing());
        std::thread([&] { other_thread = is_recomputing(); }).join();
        return t.sin();
      },
      x);
  gradients(y, {x});
  EXPECT_THAT(answers, ElementsAre(false, true));
  EXPECT_FALSE(other_thread);
}

template <class Offload>
Tensors offloaded_around(const Offload& offload, const at::Tensor& x, auto run) {
  at::Tensor y;
  {
    const auto guard = offload();
    y = run([](const at::Tensor& t) { return t.pow(2).pow(3); }, x.pow(2)).pow(2);
  }
  return torch::autograd::grad({y.sum()}, {x});
}

template <class Offload>
Tensors offloaded_inside(const Offload& offload, const at::Tensor& x, auto run) {
  const at::Tensor y = run(
      [offload](const at::Tensor& t) {
        const auto guard = offload();
        return t.pow(2).pow(3);
      },
      x.pow(2));
  return torch::autograd::grad({y.pow(2).sum()}, {x});
}

auto save_on_cpu() {
  return [] { return std::make_unique<SaveOnCpuGuard>(); };
}

auto save_clones(std::atomic<int>& packed) {
  return [&packed] {
    return std::make_unique<SavedTensorHooksGuard>(
        [&packed](const at::Tensor& t) {
          ++packed;
          return t.clone();
        },
        [](const at::Tensor& t) { return t; });
  };
}

TEST_F(CheckpointContextTest, C022_RegionInsideSaveOnCpuHasThePlainGradients) {
  std::atomic<int> packed = 0;
  expect_as_plain([&](auto run) { return offloaded_around(save_on_cpu(), leaf({3}), run); });
  expect_as_plain([&](auto run) {
    packed = 0;
    return offloaded_around(save_clones(packed), leaf({3}), run);
  });
  EXPECT_EQ(packed, 3) << "two inputs of pow outside of the region, and the region's input";
}

TEST_F(CheckpointContextTest, C023_SaveOnCpuInsideARegionHasThePlainGradients) {
  std::atomic<int> packed = 0;
  expect_as_plain([&](auto run) { return offloaded_inside(save_on_cpu(), leaf({3}), run); });
  expect_as_plain([&](auto run) { return offloaded_inside(save_clones(packed), leaf({3}), run); });
}

struct Logging final : RegionContext {
  Logging(std::vector<std::string>& log, std::string name) : log(log), name(std::move(name)) {}
  void enter() override { log.push_back("enter " + name); }
  void exit() noexcept override { log.push_back("exit " + name); }
  std::vector<std::string>& log;
  std::string name;
};

TEST_F(CheckpointContextTest, C024e_PairedContextIsLeftWhenTheReplayThrows) {
  std::vector<std::string> log;
  bool fail = false;
  const auto contexts = [&log] {
    return RegionContexts{std::make_shared<Logging>(log, "forward"),
                          std::make_shared<Logging>(log, "recompute")};
  };
  const auto code = [&](const at::Tensor& t) {
    log.emplace_back("code");
    if (fail) {
      throw std::out_of_range("foo");
    }
    return t.sin().exp();
  };
  const at::Tensor x = leaf({4, 4});
  const at::Tensor y = checkpoint({.context_fn = contexts}, code, x);
  EXPECT_THAT(log, ElementsAre("enter forward", "code", "exit forward"));
  log.clear();
  fail = true;
  const at::Tensor loss = watch(y.sum());
  EXPECT_THAT([&] { loss.backward({}, /*retain_graph=*/true); },
              ::testing::ThrowsMessage<std::out_of_range>(::testing::HasSubstr("foo")));
  EXPECT_THAT(log, ElementsAre("enter recompute", "code", "exit recompute"));
  EXPECT_THAT([&] { checkpoint({.context_fn = contexts}, code, x); },
              ::testing::ThrowsMessage<std::out_of_range>(::testing::HasSubstr("foo")));
  log.clear();
  fail = false;
  loss.backward();
  EXPECT_THAT(log, ElementsAre("enter recompute", "code", "exit recompute"));
}

struct CannotBeEntered final : RegionContext {
  void enter() override { throw std::out_of_range("foo"); }
  void exit() noexcept override { ADD_FAILURE() << "was not entered"; }
};

TEST_F(CheckpointContextTest, C025c_ContextThatCannotBeEnteredEndsTheRegion) {
  const at::Tensor x = leaf({4, 4});
  const auto code = [](const at::Tensor& t) { return t.exp(); };
  const auto context = std::make_shared<CannotBeEntered>();
  const auto at_forward = [&] { return RegionContexts{context, nullptr}; };
  const auto at_replay = [&] { return RegionContexts{nullptr, context}; };
  const auto not_made = []() -> RegionContexts { throw std::out_of_range("bar"); };
  EXPECT_THAT([&] { checkpoint({.context_fn = at_forward}, code, x); },
              ::testing::ThrowsMessage<std::out_of_range>(::testing::HasSubstr("foo")));
  EXPECT_THAT([&] { checkpoint({.context_fn = not_made}, code, x); },
              ::testing::ThrowsMessage<std::out_of_range>(::testing::HasSubstr("bar")));
  EXPECT_EQ(live_frames(), 0);
  const at::Tensor y = checkpoint({.context_fn = at_replay}, code, x);
  const std::int64_t bytes = live_cpu_bytes();
  EXPECT_THAT([&] { gradients(y, {x}); },
              ::testing::ThrowsMessage<std::out_of_range>(::testing::HasSubstr("foo")));
  EXPECT_EQ(live_cpu_bytes(), bytes);
  EXPECT_FALSE(is_recomputing());
}

}  // namespace
}  // namespace reprise::testing::context_test
