// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Conformance rows 124 to 128, 144 and 145: hooks for one saved tensor, and what LibTorch does by
// itself once the library is installed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/generated/Functions.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/torch.h>

#include <functional>

#include "reprise/engine/checkpoint.h"
#include "reprise/hooks/saved_tensor_hooks.h"
#include "tests/testing/bitwise.h"

namespace reprise::registered_hooks_test {
namespace {

using testing::bitwise_equal;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using torch::autograd::generated::ExpBackward0;
using torch::autograd::generated::MulBackward0;

at::Tensor identity(const at::Tensor& tensor) { return tensor; }

auto times(double factor) {
  return [factor](const at::Tensor& tensor) { return tensor * factor; };
}

at::Tensor leaf() { return at::tensor({1.0, 2.0, 3.0, 4.0, 5.0}, at::kDouble).requires_grad_(); }

// The node of an output; the output keeps it alive.
template <class Node>
Node& node_of(const at::Tensor& output) {
  auto* const node = dynamic_cast<Node*>(output.grad_fn().get());
  TORCH_CHECK(node != nullptr, "the output comes from ", output.grad_fn()->name());
  return *node;
}

// In every test the library is installed, because a region ran.
class RegisteredHooksTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    checkpoint([](const at::Tensor& x) { return x.exp(); }, leaf()).sum().backward();
  }
};

template <class Pack, class Unpack>
at::Tensor gradient_of_square(const std::function<at::Tensor(const at::Tensor&)>& before, Pack pack,
                              Unpack unpack) {
  const at::Tensor a = leaf();
  const at::Tensor b = before(a);
  const at::Tensor y = b * b;
  register_saved_tensor_hooks(node_of<MulBackward0>(y).self_, pack, unpack);
  y.sum().backward();
  return a.grad();
}

TEST_F(RegisteredHooksTest, C124_BackwardUsesWhatUnpackReturns) {
  const auto a = leaf().detach();
  EXPECT_TRUE(bitwise_equal(gradient_of_square(identity, identity, identity), 2 * a));
  EXPECT_TRUE(bitwise_equal(gradient_of_square(identity, times(2), times(0.5)), 2 * a));
  EXPECT_TRUE(bitwise_equal(gradient_of_square(identity, times(2), identity), 3 * a));
  const auto doubled = [](const at::Tensor& leaf) { return leaf * 2; };
  EXPECT_TRUE(bitwise_equal(gradient_of_square(doubled, identity, identity), 8 * a));
  EXPECT_TRUE(bitwise_equal(gradient_of_square(doubled, times(2), identity), 12 * a));
}

TEST_F(RegisteredHooksTest, C124_UnpackedTensorKeepsItsPlaceInTheGraph) {
  const at::Tensor a = leaf();
  const at::Tensor b = a * 2;
  const at::Tensor of_leaf = a * a;
  const at::Tensor of_other = b * b;
  auto& leaf_node = node_of<MulBackward0>(of_leaf);
  auto& other_node = node_of<MulBackward0>(of_other);
  register_saved_tensor_hooks(leaf_node.self_, times(2), times(0.5));
  register_saved_tensor_hooks(other_node.self_, times(2), times(0.5));

  const at::Tensor unpacked_leaf = leaf_node.self_.unpack();
  EXPECT_TRUE(unpacked_leaf.is_leaf());
  EXPECT_TRUE(unpacked_leaf.requires_grad());
  EXPECT_TRUE(bitwise_equal(unpacked_leaf.detach(), a.detach()));

  const at::Tensor unpacked = other_node.self_.unpack();
  EXPECT_EQ(unpacked.grad_fn().get(), b.grad_fn().get());
  EXPECT_TRUE(bitwise_equal(unpacked.detach(), b.detach()));
}

TEST_F(RegisteredHooksTest, C124_DoubleBackwardThroughIdentityHooksIsRight) {
  const at::Tensor a = leaf();
  const at::Tensor y = a * a;
  auto& node = node_of<MulBackward0>(y);
  register_saved_tensor_hooks(node.self_, identity, identity);
  register_saved_tensor_hooks(node.other_, identity, identity);
  const auto first = torch::autograd::grad({y.sum()}, {a}, {}, true, /*create_graph=*/true)[0];
  EXPECT_TRUE(bitwise_equal(first.detach(), 2 * a.detach()));
  const auto second = torch::autograd::grad({first.sum()}, {a})[0];
  EXPECT_TRUE(bitwise_equal(second, at::full_like(a.detach(), 2)));
}

struct ReturnsNoTensor {
  at::Tensor pack(const at::Tensor& tensor) { return tensor; }
  int unpack(const at::Tensor& /*packed*/) { return 1; }
};
struct WrongArity {
  at::Tensor pack(const at::Tensor& tensor) { return tensor; }
  at::Tensor unpack() { return {}; }
};
struct Fitting {
  at::Tensor pack(const at::Tensor& tensor) { return tensor; }
  at::Tensor unpack(const at::Tensor& packed) { return packed; }
};
static_assert(hooks_internal::PackUnpack<Fitting>);
static_assert(!hooks_internal::PackUnpack<ReturnsNoTensor>);
static_assert(!hooks_internal::PackUnpack<WrongArity>);

TEST_F(RegisteredHooksTest, C125_ThrowsForUnpackThatReturnsNoTensor) {
  const at::Tensor a = leaf();
  const at::Tensor square = a * a;
  register_saved_tensor_hooks(node_of<MulBackward0>(square).self_, identity,
                              [](const at::Tensor&) { return at::Tensor(); });
  EXPECT_THAT([&] { square.sum().backward(); },
              ThrowsMessage<SavedTensorHookError>(
                  HasSubstr("Output of saved tensor unpack_hook expected to be a Tensor")));
}

TEST_F(RegisteredHooksTest, C126_ThrowsForPackThatChangesItsInputInPlace) {
  const auto change = [](at::Tensor tensor) { return tensor.mul_(2); };
  const auto is_refused = ThrowsMessage<c10::Error>(
      HasSubstr("A saved tensor pack hook is modifying its input in place."));
  const at::Tensor a = leaf();
  const at::Tensor b = a * 2;
  const at::Tensor y = b * b;
  auto& node = node_of<MulBackward0>(y);
  EXPECT_THAT([&] { register_saved_tensor_hooks(node.self_, change, identity); }, is_refused);
  const SavedTensorHooksGuard hooks(change, identity);
  EXPECT_THAT([&] { b* b; }, is_refused);
}

TEST_F(RegisteredHooksTest, C128_SavedResultComesBackWithItsNode) {
  const at::Tensor a = leaf();
  const at::Tensor y = a.exp();
  auto& node = node_of<ExpBackward0>(y);
  register_saved_tensor_hooks(node.result_, times(2), times(0.5));
  const at::Tensor unpacked = node.result_.unpack(y.grad_fn());
  EXPECT_EQ(unpacked.grad_fn().get(), y.grad_fn().get());
  EXPECT_TRUE(bitwise_equal(unpacked.detach(), y.detach()));
  y.sum().backward();
  EXPECT_TRUE(bitwise_equal(a.grad(), a.detach().exp()));
}

TEST_F(RegisteredHooksTest, C144_WithoutHooksSavedInputsComeBackAsTheSameObject) {
  const at::Tensor a = leaf();
  const at::Tensor b = a * 2;
  const at::Tensor of_leaf = a * a;
  const at::Tensor of_other = b * b;
  EXPECT_TRUE(node_of<MulBackward0>(of_leaf).self_.unpack().is_same(a));
  EXPECT_TRUE(node_of<MulBackward0>(of_other).self_.unpack().is_same(b));
}

TEST_F(RegisteredHooksTest, C144_WithoutHooksASavedResultComesBackAsAnEqualObject) {
  const at::Tensor a = leaf();
  const at::Tensor y = a.exp();
  auto& node = node_of<ExpBackward0>(y);
  const at::Tensor unpacked = node.result_.unpack(y.grad_fn());
  EXPECT_FALSE(unpacked.is_same(y));
  EXPECT_TRUE(bitwise_equal(unpacked.detach(), y.detach()));
  y.sum().backward();
  EXPECT_THAT([&] { node.result_.unpack(y.grad_fn()); },
              ThrowsMessage<c10::Error>(HasSubstr("after they have already been freed")));
}

TEST_F(RegisteredHooksTest, C145_AbsentOrFreedSavedTensorTakesNoHooks) {
  const at::Tensor a = leaf();
  const at::Tensor constant = leaf().detach();
  const at::Tensor y = a * constant;  // `self` is not needed, so it is not saved
  auto& node = node_of<MulBackward0>(y);
  EXPECT_THAT([&] { register_saved_tensor_hooks(node.self_, identity, identity); },
              ThrowsMessage<c10::Error>(HasSubstr("None is forbidden")));
  y.sum().backward();
  EXPECT_THAT([&] { register_saved_tensor_hooks(node.other_, identity, identity); },
              ThrowsMessage<c10::Error>(HasSubstr("after it has been freed")));
  EXPECT_THAT([&] { node.other_.unpack(); },
              ThrowsMessage<c10::Error>(HasSubstr("after they have already been freed")));
}

}  // namespace
}  // namespace reprise::registered_hooks_test
