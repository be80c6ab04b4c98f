// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Regions that wrap memory of others in their code: see Note [Wrapped memory].
#include <numeric>
#include <vector>

#include "tests/conformance/conformance_fixture.h"

namespace reprise::wrapped_memory_test {
namespace {

using ::testing::AllOf;
using testing::bitwise_equal;
using ::testing::HasSubstr;
using testing::leaf;
using ::testing::ThrowsMessage;

class WrappedMemoryTest : public testing::ConformanceTest {
 protected:
  WrappedMemoryTest() { std::iota(memory_.begin(), memory_.end(), 0.5F); }

  at::Tensor wrap() { return at::from_blob(memory_.data(), {4, 8}); }
  at::Tensor wrap_with_deleter() {
    return at::from_blob(memory_.data(), {4, 8}, [](void*) {});
  }

  template <class Code>
  void expect_as_plain(CheckpointOptions options, Code code) {
    const at::Tensor x = leaf({4, 8});
    const std::vector<float> start = memory_;
    const at::Tensor expected = gradients(code(x), {x})[0];
    memory_ = start;
    EXPECT_TRUE(bitwise_equal(gradients(checkpoint(options, code, x), {x})[0], expected));
  }

  std::vector<float> memory_ = std::vector<float>(32);
};

TEST_F(WrappedMemoryTest, ThrowsForReadsOfWrappedMemoryWrittenAfterwards) {
  const auto code = [this](const at::Tensor& t) {
    const at::Tensor wrapped = wrap_with_deleter();
    const at::Tensor y = (t + wrapped).sin();
    wrapped.add_(1);
    return y;
  };
  const at::Tensor x = leaf({4, 8});
  // Without copies.
  const at::Tensor y = checkpoint({.name = "block", .copied_state_limit_bytes = 0}, code, x);
  EXPECT_THAT([&] { y.sum().backward(); },
              ThrowsMessage<MutationError>(AllOf(HasSubstr("region 'block'"),
                                                 HasSubstr("aten::add"), HasSubstr("from_blob"))));
}

TEST_F(WrappedMemoryTest, ThrowsForWritesToWrappedMemory) {
  const std::vector<std::function<void(const at::Tensor&)>> writes = {
      [](const at::Tensor& wrapped) { wrapped.add_(1); },
      [](const at::Tensor& wrapped) { wrapped.select(0, 3).mul_(2); },
      [](const at::Tensor& wrapped) { wrapped.t().cumsum_(0); },
  };
  for (const auto& write : writes) {
    for (const bool has_deleter : {false, true}) {
      const auto code = [&](const at::Tensor& t) {
        const at::Tensor wrapped = has_deleter ? wrap_with_deleter() : wrap();
        write(wrapped);
        return (t * wrapped.clone()).exp();
      };
      const at::Tensor y = checkpoint({.name = "block"}, code, leaf({4, 8}));
      EXPECT_THAT([&] { y.sum().backward(); },
                  ThrowsMessage<DeterminismError>(
                      AllOf(HasSubstr("region 'block'"), HasSubstr("from_blob"))));
    }
  }
}

TEST_F(WrappedMemoryTest, ReplaysWrappedMemoryOnATape) {
  expect_as_plain({.replay = ReplayMode::kTape}, [this](const at::Tensor& t) {
    const at::Tensor wrapped = wrap();
    const at::Tensor y = (t + wrapped).sin();
    wrapped.add_(1);
    return (y + wrapped).exp();
  });
}

TEST_F(WrappedMemoryTest, WritesTheRegionsOwnMemoryAgain) {
  expect_as_plain({}, [](const at::Tensor& t) {
    std::vector<float> own(32);
    const at::Tensor wrapped = at::from_blob(own.data(), {4, 8});
    const at::Tensor y = (t * wrapped.clone()).sin();
    wrapped.add_(1);
    wrapped.select(1, 2).copy_(t.detach().select(1, 3));
    return (y + t * wrapped.clone()).exp();
  });
}

// Forward's sum is there already, and no saved tensor depends on it.
TEST_F(WrappedMemoryTest, AllowsACounterToChange) {
  expect_as_plain({}, [this](const at::Tensor& t) {
    wrap().add_(t.detach());
    return (t.sin() * t).exp();
  });
}

TEST_F(WrappedMemoryTest, WriteToACapturedTensorOnce) {
  const at::Tensor captured = wrap();
  const at::Tensor x = leaf({4, 8});
  const auto code = [&](const at::Tensor& t) {
    captured.add_(1);
    captured.mul_(2);
    return (t.sin() * t).exp();
  };
  const at::Tensor y = checkpoint(code, x);
  const at::Tensor after = captured.clone();
  EXPECT_TRUE(bitwise_equal(gradients(y, {x})[0], gradients((x.sin() * x).exp(), {x})[0]));
  EXPECT_TRUE(bitwise_equal(captured, after));
}

// A buffer that the next batch is loaded into before backward.
TEST_F(WrappedMemoryTest, ThrowsIfItsOwnerChangesIt) {
  const at::Tensor captured = wrap();
  const at::Tensor y =
      checkpoint([&](const at::Tensor& t) { return (t + captured).exp(); }, leaf({4, 8}));
  memory_.assign(memory_.size(), 7);
  EXPECT_THAT([&] { y.sum().backward(); }, ThrowsMessage<MutationError>(HasSubstr("from_blob")));
}

TEST_F(WrappedMemoryTest, SamplesMemoryOfAnyKind) {
  std::vector<std::uint8_t> none;
  std::vector<double> wide(100, 1);
  expect_as_plain({}, [&](const at::Tensor& t) {
    const at::Tensor strided = at::from_blob(wide.data(), {3, 4}, {20, 5}, at::kDouble);
    const at::Tensor empty = at::from_blob(none.data(), {0}, at::kByte);
    const at::Tensor number = at::from_blob(wide.data(), {}, at::kDouble);
    const at::Tensor complex = at::from_blob(wide.data(), {20}, at::kComplexDouble);
    return t * strided.sum() * number.sin() * at::real(complex.sum()) * (1 + empty.sum());
  });
}

}  // namespace
}  // namespace reprise::wrapped_memory_test
