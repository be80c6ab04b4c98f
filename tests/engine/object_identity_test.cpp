// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// A saved tensor that needs no gradient comes back as the object that was saved, as without a
// region, as long as somebody else has it.
#include <utility>

#include "reprise/engine/checkpoint_scope.h"
#include "tests/conformance/conformance_fixture.h"
#include "tests/testing/replay_names.h"

namespace reprise::object_identity_test {
namespace {

using testing::bitwise_equal;
using testing::expect_as_plain;
using testing::leaf;
using testing::Tensors;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Saves its second argument, and exposes the tensor that comes back.
struct Saves : torch::autograd::Function<Saves> {
  static at::Tensor& received() {
    static at::Tensor tensor;
    return tensor;
  }
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& y) {
    context->save_for_backward({y});
    return x.clone();
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    received() = context->get_saved_variables()[0];
    return {gradients[0], at::Tensor()};
  }
};

// The same, of each that comes back.
struct SavesInList : torch::autograd::Function<SavesInList> {
  static Tensors& received() {
    static Tensors tensors;
    return tensors;
  }
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& y) {
    context->save_for_backward({y});
    return x.clone();
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    received().push_back(context->get_saved_variables()[0]);
    return {gradients[0], at::Tensor()};
  }
};

class ObjectIdentityTest : public testing::ConformanceTest,
                           public ::testing::WithParamInterface<ReplayMode> {
 protected:
  void TearDown() override {
    Saves::received().reset();
    ConformanceTest::TearDown();
  }

  template <class Code, class... Args>
  auto run(Code&& code, Args&&... args) {
    return checkpoint({.replay = GetParam()}, std::forward<Code>(code),
                      std::forward<Args>(args)...);
  }

  // Returns the tensor that Saves received in the backward from `y`.
  at::Tensor received(const at::Tensor& y) {
    watch(y).sum().backward();
    return std::exchange(Saves::received(), at::Tensor());
  }
};

INSTANTIATE_TEST_SUITE_P(Forms, ObjectIdentityTest,
                         ::testing::Values(ReplayMode::kFunction, ReplayMode::kTape),
                         testing::replay_name);

TEST_P(ObjectIdentityTest, WriteToAnArgument) {
  const at::Tensor a = leaf({3});
  const at::Tensor b = at::ones({3});
  const auto code = [](const at::Tensor& x, const at::Tensor& y) { return Saves::apply(x, y); };
  EXPECT_TRUE(received(code(a, b)).is_same(b));
  EXPECT_TRUE(received(run(code, a, b)).is_same(b));
}

TEST_P(ObjectIdentityTest, WriteToACapturedTensor) {
  const at::Tensor a = leaf({3});
  const at::Tensor b = at::ones({3});
  EXPECT_TRUE(received(run([&](const at::Tensor& x) { return Saves::apply(x, b); }, a)).is_same(b));
  at::Tensor y;
  {
    const CheckpointScope scope({.replay = ReplayMode::kTape});
    y = Saves::apply(a, b);
  }
  EXPECT_TRUE(received(y).is_same(b));
}

TEST_P(ObjectIdentityTest, WriteToATensorThatTheRegionReturned) {
  const at::Tensor a = leaf({3});
  const auto [y, mask] = run(
      [](const at::Tensor& x) {
        const at::Tensor positive = x.detach() > 0;
        return std::pair{Saves::apply(x, positive), positive};
      },
      a);
  EXPECT_TRUE(received(y).is_same(mask));
}

TEST_P(ObjectIdentityTest, RunsInEachBackwardAndInNestedRegions) {
  const at::Tensor a = leaf({3});
  const at::Tensor b = at::ones({3});
  const auto code = [&](const at::Tensor& x) { return Saves::apply(x.sin(), b).cos(); };
  const at::Tensor y = run([&](const at::Tensor& x) { return run(code, x.exp()); }, a);
  for (const bool keeps : {true, false}) {
    watch(y).sum().backward({}, keeps);
    EXPECT_TRUE(Saves::received().is_same(b));
  }
}

TEST_P(ObjectIdentityTest, IsNotKeptAliveForIt) {
  const at::Tensor a = leaf({3});
  at::Tensor b = at::full({3}, 2.0);
  const c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl> weak(
      b.getIntrusivePtr());
  const at::Tensor y =
      run([](const at::Tensor& x, const at::Tensor& z) { return Saves::apply(x, z); }, a, b);
  b.reset();
  EXPECT_TRUE(weak.expired());
  EXPECT_TRUE(bitwise_equal(received(y), at::full({3}, 2.0)));
}

// With the tensor itself, the region would be in a cycle.
TEST_P(ObjectIdentityTest, GraphThatTheTensorGetsLaterIsNotHeld) {
  const at::Tensor a = leaf({3});
  at::Tensor b = at::ones({3});
  const at::Tensor y =
      watch(run([](const at::Tensor& x, const at::Tensor& z) { return Saves::apply(x, z); }, a, b));
  b.copy_(y);
  watch(b);
}

TEST_P(ObjectIdentityTest, NotOfATensorThatHasChanged) {
  const at::Tensor a = leaf({3});
  at::Tensor b = at::ones({3});
  const auto code = [](const at::Tensor& x, const at::Tensor& z) { return Saves::apply(x, z); };
  const at::Tensor of_one_that_needs_grad_now = run(code, a, b);
  b.requires_grad_();
  const at::Tensor found = received(of_one_that_needs_grad_now);
  EXPECT_FALSE(found.is_same(b));
  EXPECT_FALSE(found.requires_grad());

  b = at::ones({3});
  const CheckpointOptions accepting{.replay = GetParam(), .allow_external_mutation = true};
  const at::Tensor of_one_that_is_changed = checkpoint(accepting, code, a, b);
  b.add_(1);
  EXPECT_TRUE(bitwise_equal(received(of_one_that_is_changed), at::full({3}, 2.0)));
}

using ObjectIdentityInReplayTest = testing::ConformanceTest;

// Two nodes save one mask, which nobody has any more when backward asks.
TEST_F(ObjectIdentityInReplayTest, NodesReceiveTheObjectThatTheReplayHasMade) {
  const auto code = [](const at::Tensor& x) {
    const at::Tensor mask = x.detach() > 0;
    return SavesInList::apply(SavesInList::apply(x, mask), mask);
  };
  const auto run = [&](auto region) {
    const at::Tensor x = leaf({3});
    gradients(region(code, x), {x});
    return std::exchange(SavesInList::received(), Tensors());
  };
  for (const Tensors& received : {run(testing::Plain{}), run(testing::InRegion{})}) {
    ASSERT_EQ(received.size(), 2U);
    EXPECT_TRUE(received[0].is_same(received[1]));
  }
}

TEST_F(ObjectIdentityInReplayTest, BackwardInsideTheRegionReceivesTheObject) {
  const at::Tensor b = at::ones({3});
  const auto code = [&b](const at::Tensor& x) {
    const at::Tensor y = SavesInList::apply(x.sin(), b);
    const at::Tensor factor = torch::autograd::grad({y.sum()}, {x})[0];
    return (x * factor).sin().exp();
  };
  const at::Tensor x = leaf({3});
  gradients(checkpoint(code, x), {x});
  const Tensors received = std::exchange(SavesInList::received(), Tensors());
  EXPECT_GE(received.size(), 2U);
  for (const at::Tensor& tensor : received) {
    EXPECT_TRUE(tensor.is_same(b));
  }
}

// The replay's graph would be kept for a view of a tensor that is a part of it.
TEST_F(ObjectIdentityInReplayTest, NotOfAViewOfATensorWithAGraph) {
  expect_as_plain([&](auto run) -> Tensors {
    const at::Tensor x = leaf({3});
    const at::Tensor y = run(
        [](const at::Tensor& t) {
          const at::Tensor h = t.exp();
          at::Tensor view;
          {
            const torch::NoGradGuard no_grad;
            view = h.view({3, 1});
          }
          return SavesInList::apply(h, view).sin();
        },
        x);
    const Tensors found = gradients(y, {x});
    return {found[0], std::exchange(SavesInList::received(), Tensors())[0]};
  });
}

TEST_F(ObjectIdentityInReplayTest, TensorThatGetsAGraphLaterDoesNotKeepIt) {
  const CheckpointOptions accepting{.allow_external_mutation = true};
  const at::Tensor x = leaf({3});
  const at::Tensor y = checkpoint(
      accepting,
      [](const at::Tensor& t) {
        at::Tensor b = at::ones({3});
        const at::Tensor saved = SavesInList::apply(t, b);
        b.copy_(saved);
        return b.sin() + saved;
      },
      x);
  gradients(y, {x});
  const Tensors received = std::exchange(SavesInList::received(), Tensors());
  ASSERT_EQ(received.size(), 1U);
  EXPECT_FALSE(received[0].requires_grad());
}

}  // namespace
}  // namespace reprise::object_identity_test
