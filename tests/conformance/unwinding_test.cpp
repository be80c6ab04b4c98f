// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Conformance row 21: the exception that ends a replay early passes through the code of the user
// and of LibTorch.
#include <c10/util/Exception.h>

#include <cstdint>
#include <exception>
#include <stdexcept>
#include <string>

#include "tests/conformance/conformance_fixture.h"

namespace reprise::testing::unwinding_test {
namespace {

// Actions that user code may take while the exception that ends the replay passes.
struct WorksInItsDestructor {
  const at::Tensor& x;
  int& destroyed;
  bool records_a_graph;
  ~WorksInItsDestructor() {
    ++destroyed;
    const at::Tensor scratch = at::empty({1000});
    const at::AutoGradMode grad_mode(records_a_graph);
    x.sin().exp();
    try {
      throw std::runtime_error("passes inside");
    } catch (const std::runtime_error&) {
    }
  }
};

class CheckpointUnwindingTest : public ConformanceTest {
 protected:
  void expect_right_gradient(bool records_a_graph) {
    int destroyed = 0;
    const at::Tensor x = leaf({3});
    const at::Tensor y = checkpoint(
        [&](const at::Tensor& t) {
          const WorksInItsDestructor outer{t, destroyed, records_a_graph};
          const at::Tensor z = t.sin();
          const WorksInItsDestructor inner{z, destroyed, records_a_graph};
          return z.exp();
        },
        x);
    EXPECT_EQ(destroyed, 2);
    EXPECT_TRUE(bitwise_equal(gradients(y, {x})[0], gradients(x.sin().exp(), {x})[0]));
    EXPECT_EQ(destroyed, 4);
  }
};

TEST_F(CheckpointUnwindingTest, C021_EndOfAReplayPassesThroughDestructorsThatWork) {
  expect_right_gradient(/*records_a_graph=*/false);
}

TEST_F(CheckpointUnwindingTest, C021a_EndOfAReplayPassesThroughDestructorsThatRecordAGraph) {
  expect_right_gradient(/*records_a_graph=*/true);
}

TEST_F(CheckpointUnwindingTest, C021b_CodeThatCatchesTheUsualExceptionsIsEndedAllTheSame) {
  int caught = 0;
  int behind = 0;
  const at::Tensor x = leaf({3});
  const at::Tensor y = checkpoint(
      [&](const at::Tensor& t) {
        at::Tensor z = t.sin();
        try {
          z = z.exp();
        } catch (const c10::Error&) {
          ++caught;
        } catch (const std::runtime_error&) {
          ++caught;
        }
        ++behind;
        return z;
      },
      x);
  EXPECT_TRUE(bitwise_equal(gradients(y, {x})[0], gradients(x.sin().exp(), {x})[0]));
  EXPECT_EQ(caught, 0);
  EXPECT_EQ(behind, 1);
}

TEST_F(CheckpointUnwindingTest, C021c_CodeThatCatchesEverythingGetsTheRightGradient) {
  for (const bool early_stop : {true, false}) {
    const auto code = [](const at::Tensor& t) {
      at::Tensor z = t.sin();
      for (int i = 0; i < 3; ++i) {
        try {
          z = z.exp().sin();
        } catch (...) {
          z = z.detach();
        }
      }
      return z;
    };
    const at::Tensor x = leaf({3});
    const at::Tensor y = checkpoint({.early_stop = early_stop}, code, x);
    EXPECT_TRUE(bitwise_equal(gradients(y, {x})[0], gradients(code(x), {x})[0]));
  }
}

TEST_F(CheckpointUnwindingTest, C021d_CodeThatTranslatesExceptionsGetsTheRightGradient) {
  const auto code = [](const at::Tensor& t) {
    const at::Tensor z = t.sin();
    try {
      return z.exp();
    } catch (const std::exception& error) {
      throw std::runtime_error(std::string("the layer failed: ") + error.what());
    }
  };
  const at::Tensor x = leaf({3});
  const at::Tensor y = checkpoint(code, x);
  EXPECT_TRUE(bitwise_equal(gradients(y, {x})[0], gradients(code(x), {x})[0]));
}

// Saves its result: while it does, LibTorch holds result and node in a cycle.
struct SavesItsResult : torch::autograd::Function<SavesItsResult> {
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& x) {
    const at::Tensor result = x.exp();
    ctx->save_for_backward({x, result});
    return result;
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* ctx,
                                               const torch::autograd::tensor_list& grads) {
    return {grads[0] * ctx->get_saved_variables()[1]};
  }
};

TEST_F(CheckpointUnwindingTest, C021e_FreesTensorsOfAScopeThatEndsInsideACustomFunction) {
  for (const bool early_stop : {false, true}) {
    SCOPED_TRACE(early_stop ? "early stop" : "no early stop");
    const at::Tensor x = leaf({3});
    const std::int64_t bytes = live_cpu_bytes();
    {
      const at::Tensor y = checkpoint(
          {.early_stop = early_stop},
          [](const at::Tensor& t) { return SavesItsResult::apply(t.sin()); }, x);
      EXPECT_TRUE(bitwise_equal(gradients(y, {x})[0], gradients(x.sin().exp(), {x})[0]));
    }
    EXPECT_EQ(live_cpu_bytes(), bytes);
  }
}

}  // namespace
}  // namespace reprise::testing::unwinding_test
