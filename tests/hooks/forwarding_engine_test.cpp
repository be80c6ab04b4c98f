// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The library's engine beside engines of other libraries. Each case needs to see a certain order of
// installations, and sets the default engine itself.
#include "reprise/hooks/seam/forwarding_engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/torch.h>

#include <atomic>
#include <memory>
#include <stdexcept>
#include <utility>

#include "reprise/hooks/saved_tensor_hooks.h"
#include "reprise/hooks/seam/torch_version.h"
#include "tests/hooks/counting_hooks.h"
#include "tests/testing/bitwise.h"

namespace reprise::forwarding_engine_test {
namespace {

using hooks_internal::ensure_engine_installed;
using hooks_internal::SavedVariableHooks;
using testing::are_active;
using testing::bitwise_equal;
using testing::CountingHooks;
using torch::autograd::Engine;

// Another library's engine: passes backwards on to `next`, and saved tensors too if `asks_next`.
class OtherEngine : public Engine {
 public:
  OtherEngine(Engine& next, bool asks_next) : next_(next), asks_next_(asks_next) {}

  torch::autograd::variable_list execute(const torch::autograd::edge_list& roots,
                                         const torch::autograd::variable_list& inputs,
                                         bool keep_graph, bool create_graph, bool accumulate_grad,
                                         const torch::autograd::edge_list& outputs) override {
    ++backwards;
    return next_.execute(roots, inputs, keep_graph, create_graph, accumulate_grad, outputs);
  }
  c10::intrusive_ptr<at::ivalue::Future> execute_with_graph_task(
      const std::shared_ptr<torch::autograd::GraphTask>& graph_task,
      hooks_internal::NodePtr graph_root, torch::autograd::InputBuffer&& input_buffer) override {
    return next_.execute_with_graph_task(graph_task, std::move(graph_root),
                                         std::move(input_buffer));
  }
  std::unique_ptr<torch::autograd::AnomalyMetadata> make_anomaly_metadata() override {
    return next_.make_anomaly_metadata();
  }
  std::unique_ptr<SavedVariableHooks> get_default_saved_variable_hooks() override {
    ++questions;
    return asks_next_ ? next_.get_default_saved_variable_hooks() : own_hooks();
  }

  std::atomic<int> backwards{0};
  std::atomic<int> questions{0};
  std::atomic<int> own_packs{0};
  std::atomic<bool> has_hooks{false};

 private:
  class OwnHooks final : public SavedVariableHooks {
   public:
    explicit OwnHooks(std::atomic<int>& packs) : packs_(packs) {}
    void call_pack_hook(const at::Tensor& tensor) override {
      ++packs_;
      packed_ = tensor.detach();
    }
    at::Tensor call_unpack_hook() override { return packed_; }

   private:
    std::atomic<int>& packs_;
    at::Tensor packed_;
  };

  std::unique_ptr<SavedVariableHooks> own_hooks() {
    return has_hooks ? std::make_unique<OwnHooks>(own_packs) : nullptr;
  }

  Engine& next_;
  const bool asks_next_;
};

// A stub is a plain function pointer, so the engine that it gives stands in a global.
template <int kNumber>
struct Installed {
  static inline std::atomic<OtherEngine*> engine = nullptr;

  // Engines are never freed: ours goes on forwarding to the one that it found.
  static OtherEngine& install(Engine& next, bool asks_next) {
    engine = new OtherEngine(next, asks_next);
    torch::autograd::set_default_engine_stub([]() -> Engine& { return *engine; });
    return *engine;
  }
};

void use_base_engine() { torch::autograd::set_default_engine_stub(&Engine::get_base_engine); }

void expect_right_gradient() {
  const at::Tensor x = at::arange(1.0, 6.0, at::kDouble).requires_grad_();
  x.exp().sum().backward();
  EXPECT_TRUE(bitwise_equal(x.grad(), x.detach().exp()));
}

void expect_hooks_work() {
  const auto hooks = std::make_shared<CountingHooks>();
  const SavedTensorHooksGuard guard(hooks);
  EXPECT_TRUE(are_active(hooks));
  expect_right_gradient();
  EXPECT_EQ(hooks->packs, 2);
  EXPECT_EQ(hooks->unpacks, 1);
}

TEST(ForwardingEngineTest, WorksAfterTheBaseEngineRanABackward) {
  use_base_engine();
  expect_right_gradient();
  EXPECT_EQ(&Engine::get_default_engine(), &Engine::get_base_engine());
  expect_hooks_work();
  EXPECT_NE(&Engine::get_default_engine(), &Engine::get_base_engine());
}

TEST(ForwardingEngineTest, IsInstalledAgainAfterAnotherEngineReplacedIt) {
  use_base_engine();
  ensure_engine_installed();
  Engine& ours = Engine::get_default_engine();
  OtherEngine& other = Installed<0>::install(Engine::get_base_engine(), /*asks_next=*/false);
  EXPECT_EQ(&Engine::get_default_engine(), &other);

  expect_hooks_work();
  EXPECT_EQ(&Engine::get_default_engine(), &ours);
  EXPECT_EQ(other.backwards, 1);  // ours passes backwards on to the engine that it found
  expect_right_gradient();
  EXPECT_EQ(other.backwards, 2);
}

TEST(ForwardingEngineTest, AppliesTheOtherEnginesHooksOutsideOfScopes) {
  use_base_engine();
  ensure_engine_installed();
  OtherEngine& other = Installed<1>::install(Engine::get_base_engine(), /*asks_next=*/false);
  other.has_hooks = true;
  expect_hooks_work();
  EXPECT_EQ(other.own_packs, 0);
  expect_right_gradient();
  EXPECT_EQ(other.own_packs, 1);
  EXPECT_NE(hooks_internal::make_ambient_hooks(), nullptr);
}

TEST(ForwardingEngineTest, EngineThatWrapsOursStaysInFront) {
  use_base_engine();
  ensure_engine_installed();
  Engine& ours = Engine::get_default_engine();
  OtherEngine& wrapper = Installed<2>::install(ours, /*asks_next=*/true);

  for (int i = 0; i < 3; ++i) {
    expect_hooks_work();
    EXPECT_EQ(&Engine::get_default_engine(), &wrapper);
  }
  EXPECT_EQ(wrapper.backwards, 3);
  const int questions = wrapper.questions;
  ensure_engine_installed();
  EXPECT_EQ(wrapper.questions, questions);  // it is known by now
  expect_right_gradient();
}

TEST(ForwardingEngineTest, WrapperInstalledInsideAScopeIsRecognised) {
  use_base_engine();
  ensure_engine_installed();
  Engine& ours = Engine::get_default_engine();
  const auto hooks = std::make_shared<CountingHooks>();
  const SavedTensorHooksGuard guard(hooks);
  OtherEngine& wrapper = Installed<3>::install(ours, /*asks_next=*/true);
  expect_hooks_work();
  EXPECT_EQ(hooks->packs, 0);
  EXPECT_TRUE(are_active(hooks));
  EXPECT_EQ(&Engine::get_default_engine(), &wrapper);
}

TEST(ForwardingEngineTest, WrapperOfAWrapperIsRecognised) {
  use_base_engine();
  ensure_engine_installed();
  OtherEngine& inner = Installed<4>::install(Engine::get_default_engine(), /*asks_next=*/true);
  expect_hooks_work();
  OtherEngine& outer = Installed<5>::install(inner, /*asks_next=*/true);
  expect_hooks_work();
  EXPECT_EQ(&Engine::get_default_engine(), &outer);
  EXPECT_EQ(outer.backwards, 1);
  EXPECT_EQ(inner.backwards, 2);
}

TEST(ForwardingEngineTest, TakesOverAWrapperThatStopsAsking) {
  // It passes backwards on to ours, but not questions: putting ours in front of it would make a
  // ring of backwards.
  use_base_engine();
  ensure_engine_installed();
  Engine& ours = Engine::get_default_engine();
  OtherEngine& half = Installed<6>::install(ours, /*asks_next=*/false);
  use_base_engine();
  expect_right_gradient();
  EXPECT_EQ(half.backwards, 0);
  expect_hooks_work();
}

TEST(ForwardingEngineTest, BackwardInfoNamesTheBackwardAndItsNode) {
  EXPECT_EQ(hooks_internal::backward_info().id, -1);
  EXPECT_EQ(hooks_internal::backward_info().node, nullptr);
  at::Tensor y;
  hooks_internal::BackwardInfo info;
  {
    const SavedTensorHooksGuard guard([](const at::Tensor& tensor) { return tensor; },
                                      [&info](const at::Tensor& packed) {
                                        info = hooks_internal::backward_info();
                                        return packed;
                                      });
    y = testing::save_one();
  }
  y.sum().backward({}, /*retain_graph=*/true);
  EXPECT_EQ(info.node, y.grad_fn().get());
  EXPECT_TRUE(info.node_reads_once);
  const int first = info.id;
  EXPECT_GE(first, 0);
  y.sum().backward();
  EXPECT_NE(info.id, first);
  EXPECT_EQ(hooks_internal::backward_info().id, -1);
}

TEST(ForwardingEngineTest, CallbackRunsOnceAtTheEndOfABackwardThatSucceeds) {
  int runs = 0;
  at::Tensor y;
  {
    const SavedTensorHooksGuard guard([](const at::Tensor& tensor) { return tensor; },
                                      [&runs](const at::Tensor& packed) {
                                        hooks_internal::at_backward_end([&runs] { ++runs; });
                                        EXPECT_EQ(runs, 0);
                                        return packed;
                                      });
    y = testing::save_one();
  }
  y.sum().backward();
  EXPECT_EQ(runs, 1);
}

TEST(ForwardingEngineTest, CallbackIsDestroyedButNotRunWhenABackwardFails) {
  bool ran = false;
  auto owned = std::make_shared<int>(1);
  const std::weak_ptr<int> watched = owned;
  at::Tensor y;
  {
    const SavedTensorHooksGuard guard(
        [](const at::Tensor& tensor) { return tensor; },
        [&](const at::Tensor& /*packed*/) -> at::Tensor {
          hooks_internal::at_backward_end([&ran, owned] { ran = *owned == 1; });
          throw std::runtime_error("fails");
        });
    y = testing::save_one();
  }
  EXPECT_THAT([&] { y.sum().backward(); },
              ::testing::ThrowsMessage<std::runtime_error>(::testing::HasSubstr("fails")));
  owned.reset();
  y = at::Tensor();
  EXPECT_FALSE(ran);
}

}  // namespace
}  // namespace reprise::forwarding_engine_test
