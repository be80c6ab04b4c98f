// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Conformance rows 33 to 42: a replay that differs from forward, and debug mode.
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>

#include "reprise/engine/debug_mode.h"
#include "tests/conformance/conformance_fixture.h"

namespace reprise::testing::determinism_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class CheckpointDeterminismTest : public ConformanceTest {
 protected:
  ~CheckpointDeterminismTest() override { set_checkpoint_debug_enabled(std::nullopt); }

  // The message of the DeterminismError that backward over `region` throws; empty if it throws
  // none.
  template <class Region>
  std::string message_of(const CheckpointOptions& options, Region region) {
    const at::Tensor x = leaf({2, 3});
    const at::Tensor y = checkpoint(options, region, x);
    const at::Tensor generator = cpu_generator_state();
    const std::int64_t bytes = live_cpu_bytes();
    std::string message;
    try {
      gradients(y, {x});
    } catch (const DeterminismError& error) {
      message = error.what_without_backtrace();
    }
    EXPECT_EQ(live_cpu_bytes(), bytes);
    EXPECT_TRUE(bitwise_equal(cpu_generator_state(), generator));
    return message;
  }
};

at::Tensor saves_three_then_two(const at::Tensor& x) {
  return is_recomputing() ? x.sin().sin() : x.sin().sin().sin();
}

at::Tensor saves_two_then_three(const at::Tensor& x) {
  return is_recomputing() ? x.sin().sin().sin() : x.sin().sin();
}

at::Tensor saves_another_shape(const at::Tensor& x) {
  const at::Tensor y = x.sin();
  return (is_recomputing() ? y.repeat({2, 1}) : y).cos().sum();
}

at::Tensor runs_another_operator(const at::Tensor& x) {
  const at::Tensor y = is_recomputing() ? x.tan().repeat({2, 1}) : x.sin();
  return y.cos().sum();
}

TEST_F(CheckpointDeterminismTest, C033_FewerSavedTensorsAreAnError) {
  const std::string message = message_of({.name = "block3"}, saves_three_then_two);
  EXPECT_THAT(message, HasSubstr("A different number of tensors was saved during the original "
                                 "forward and recomputation: 3 in forward, 2 in the "
                                 "recomputation"));
  EXPECT_THAT(message, HasSubstr("region 'block3'"));
}

TEST_F(CheckpointDeterminismTest, C033b_NumberIsCheckedByEveryCheck) {
  for (const DeterminismCheck check : {DeterminismCheck::kNone, DeterminismCheck::kValues}) {
    EXPECT_THAT(message_of({.determinism_check = check}, saves_three_then_two),
                HasSubstr("3 in forward, 2 in the recomputation"));
  }
}

TEST_F(CheckpointDeterminismTest, C034_MoreSavedTensorsAreAnErrorWithoutEarlyStop) {
  EXPECT_THAT(message_of({.early_stop = false}, saves_two_then_three),
              AllOf(HasSubstr("2 in forward, 3 in the recomputation"),
                    HasSubstr("trying to save more tensors during recomputation")));
}

TEST_F(CheckpointDeterminismTest, C035_MoreSavedTensorsAreNoErrorWithEarlyStop) {
  EXPECT_EQ(message_of({}, saves_two_then_three), "");
  const at::Tensor x = leaf({3});
  const at::Tensor y = checkpoint(saves_two_then_three, x);
  EXPECT_TRUE(bitwise_equal(gradients(y, {x})[0], gradients(x.sin().sin(), {x})[0]));
}

TEST_F(CheckpointDeterminismTest, C036_AnotherShapeIsAnErrorThatListsBoth) {
  EXPECT_THAT(message_of({.name = "block3"}, saves_another_shape),
              AllOf(HasSubstr("tensors have different metadata"), HasSubstr("region 'block3'"),
                    HasSubstr("slot 1 (result of SinBackward0)"),
                    HasSubstr("saved metadata: Float [2, 3] strides [3, 1] Strided on cpu"),
                    HasSubstr("recomputed metadata: Float [4, 3] strides [3, 1] Strided on cpu"),
                    Not(HasSubstr("slot 0"))));
}

TEST_F(CheckpointDeterminismTest, C036b_AnotherDtypeStridesOrRequiresGradIsAnError) {
  const auto dtype = [](const at::Tensor& x) {
    return x.sin().to(is_recomputing() ? at::kDouble : at::kHalf).to(at::kFloat).sin() *
           x.to(is_recomputing() ? at::kDouble : at::kHalf).exp();
  };
  EXPECT_THAT(message_of({}, dtype), AllOf(HasSubstr("Half"), HasSubstr("Double")));
  const auto strides = [](const at::Tensor& x) {
    const at::Tensor y = x.mm(x.t());
    return (is_recomputing() ? y.t() : y).cos();
  };
  EXPECT_THAT(message_of({}, strides), AllOf(HasSubstr("strides [2, 1]"), HasSubstr("[1, 2]")));
  const auto requires_grad = [](const at::Tensor& x) {
    const at::Tensor y = x.sin();
    return x * (is_recomputing() ? y : y.detach());
  };
  EXPECT_THAT(message_of({}, requires_grad), HasSubstr("different metadata"));
}

TEST_F(CheckpointDeterminismTest, C036c_OtherOperatorsAreAnErrorAndOtherValuesOneOfTheValuesCheck) {
  const auto region = [](const at::Tensor& x) {
    const at::Tensor y = x.sin();
    return (is_recomputing() ? y.flip({0}) : y * 1).cos();
  };
  EXPECT_EQ(message_of({.determinism_check = DeterminismCheck::kNone}, region), "");
  EXPECT_THAT(message_of({}, region),
              AllOf(HasSubstr("slot 1"), HasSubstr("recomputed otherwise"),
                    HasSubstr("operator 1 of the recomputation, aten::flip")));
  EXPECT_THAT(
      message_of({.determinism_check = DeterminismCheck::kValues}, region),
      AllOf(HasSubstr("different contents"), HasSubstr("slot 1"), HasSubstr("other values")));
}

TEST_F(CheckpointDeterminismTest, C036d_CallbackDecidesWhatIsCompared) {
  const auto sum = [](const at::Tensor& t) {
    EXPECT_FALSE(t.requires_grad());
    EXPECT_FALSE(at::GradMode::is_enabled());
    return std::to_string(t.sum().item<double>());
  };
  const auto region = [](const at::Tensor& x) {
    return (x.detach() * 0 + (is_recomputing() ? 2 : 1)) * x;
  };
  EXPECT_THAT(
      message_of({.determinism_check = DeterminismCheck::kCallback, .determinism_fn = sum}, region),
      AllOf(HasSubstr("saved: 6.000000"), HasSubstr("recomputed: 12.000000")));
}

TEST_F(CheckpointDeterminismTest, C036e_NothingButTheNumberIsComparedWithoutACheck) {
  const auto other_values = [](const at::Tensor& x) {
    return (x.detach() * 0 + (is_recomputing() ? 2 : 1)) * x;
  };
  EXPECT_EQ(message_of({.determinism_check = DeterminismCheck::kNone}, other_values), "");
}

TEST_F(CheckpointDeterminismTest, C037_DebugModeListsTheOperatorsOfBothRuns) {
  EXPECT_THAT(message_of({.debug = true}, runs_another_operator),
              AllOf(HasSubstr("You are seeing this because debug mode is on"),
                    HasSubstr("tensors have different metadata"), HasSubstr("aten::sin"),
                    HasSubstr("aten::tan"), HasSubstr("aten::repeat"), HasSubstr("forward"),
                    HasSubstr("recompute"), HasSubstr("Stack of #")));
}

TEST_F(CheckpointDeterminismTest, C037b_DebugModeListsTheOperatorsWhenTheNumberDiffers) {
  EXPECT_THAT(message_of({.debug = true}, saves_three_then_two),
              AllOf(HasSubstr("debug mode is on"), HasSubstr("3 in forward, 2 in the recomp"),
                    HasSubstr("recompute ended first")));
}

TEST_F(CheckpointDeterminismTest, C038_GlobalSettingOnBeatsTheOptionOff) {
  set_checkpoint_debug_enabled(true);
  EXPECT_THAT(message_of({.debug = false}, saves_another_shape), HasSubstr("debug mode is on"));
  set_checkpoint_debug_enabled(std::nullopt);
  const DebugModeGuard guard(true);
  EXPECT_THAT(message_of({.debug = false}, saves_another_shape), HasSubstr("debug mode is on"));
}

TEST_F(CheckpointDeterminismTest, C039_GlobalSettingOffBeatsTheOptionOn) {
  const auto plain_text =
      AllOf(HasSubstr("Recomputed values for the following tensors have different"),
            Not(HasSubstr("debug mode is on")));
  set_checkpoint_debug_enabled(false);
  EXPECT_THAT(message_of({.debug = true}, saves_another_shape), plain_text);
  set_checkpoint_debug_enabled(true);
  const DebugModeGuard guard(false);
  EXPECT_THAT(message_of({.debug = true}, saves_another_shape), plain_text);
}

TEST_F(CheckpointDeterminismTest, C039b_DebugModeIsThatOfForward) {
  const at::Tensor x = leaf({2, 3});
  std::optional<at::Tensor> y;
  {
    const DebugModeGuard guard(true);
    y = checkpoint(saves_another_shape, x);
  }
  try {
    gradients(*y, {x});
    FAIL() << "no error";
  } catch (const DeterminismError& error) {
    EXPECT_THAT(error.what(), HasSubstr("debug mode is on"));
  }
}

TEST_F(CheckpointDeterminismTest, C041_ThrowsForAnUnknownCheck) {
  EXPECT_EQ(determinism_check_from_string("default"), DeterminismCheck::kMetadata);
  EXPECT_EQ(determinism_check_from_string("none"), DeterminismCheck::kNone);
  try {
    static_cast<void>(determinism_check_from_string("foo"));
    FAIL() << "no error";
  } catch (const std::invalid_argument& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("determinism_check should be one of ["),
                                    HasSubstr("but got 'foo'")));
  }
}

class CountingContext final : public RegionContext {
 public:
  void enter() override { ++entered; }
  void exit() noexcept override {}
  int entered = 0;
};

TEST_F(CheckpointDeterminismTest, C042_DebugModeWorksWithAContext) {
  const auto context = std::make_shared<CountingContext>();
  const CheckpointOptions options = {.debug = true, .context_fn = [&] {
                                       return RegionContexts{context, context};
                                     }};
  EXPECT_THAT(message_of(options, saves_another_shape), HasSubstr("debug mode is on"));
  EXPECT_EQ(context->entered, 2);
  EXPECT_EQ(message_of(options, [](const at::Tensor& x) { return x.exp(); }), "");
  EXPECT_EQ(context->entered, 4);
}

}  // namespace
}  // namespace reprise::testing::determinism_test
