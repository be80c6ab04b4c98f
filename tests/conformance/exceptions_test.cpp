// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Conformance rows 20, 24, 25 and 26: errors reach the caller and leave nothing behind.
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/conformance/conformance_fixture.h"

namespace reprise::testing::exceptions_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

struct UserError : std::runtime_error {
  explicit UserError(int user_code) : std::runtime_error("foo"), code(user_code) {}
  int code;
};

struct UserTorchError : c10::Error {
  UserTorchError() : c10::Error("bar", c10::Backtrace()) {}
};

class CheckpointExceptionsTest : public ConformanceTest {
 protected:
  // The next step is as if nothing had been.
  void expect_clean_step() {
    expect_as_plain([&](auto run) -> Tensors {
      const at::Tensor x = leaf({4, 4});
      const at::Tensor y =
          run([](const at::Tensor& t) { return torch::dropout(t.exp(), 0.5, true).mm(t); }, x);
      return {y.detach(), gradients(y, {x})[0]};
    });
  }

  // Calls `backward`, which must throw an Error for which `check` holds, and leave bytes and
  // generators as they are.
  template <class Error>
  void expect_error(const std::function<void()>& backward,
                    const std::function<void(const Error&)>& check = {}) {
    const std::int64_t bytes = live_cpu_bytes();
    const at::Tensor generator = cpu_generator_state();
    const std::int64_t with_generator = live_cpu_bytes();
    bool thrown = false;
    try {
      backward();
    } catch (const Error& error) {
      thrown = true;
      if (check) {
        check(error);
      }
    }
    EXPECT_TRUE(thrown);
    EXPECT_EQ(live_cpu_bytes(), with_generator) << bytes;
    EXPECT_TRUE(bitwise_equal(cpu_generator_state(), generator));
    EXPECT_FALSE(is_recomputing());
  }
};

// Draws random numbers and saves tensors before and after `act`.
template <class Act>
auto code_around(Act act) {
  return [act](const at::Tensor& t) {
    const at::Tensor y = torch::dropout(t.exp(), 0.5, true).sin();
    act();
    return y.cos().exp();
  };
}

TEST_F(CheckpointExceptionsTest, C024_ExceptionInTheReplayReachesTheCallerOfBackward) {
  const at::Tensor x = leaf({4, 4});
  const at::Tensor y = checkpoint(code_around([] {
                                    if (is_recomputing()) {
                                      throw UserError(7);
                                    }
                                  }),
                                  x);
  expect_error<UserError>([&] { gradients(y, {x}); },
                          [](const UserError& error) {
                            EXPECT_EQ(error.code, 7);
                            EXPECT_STREQ(error.what(), "foo");
                          });
  expect_clean_step();
}

TEST_F(CheckpointExceptionsTest, C024b_TypeOfATorchErrorIsKept) {
  const at::Tensor x = leaf({4, 4});
  const at::Tensor y = checkpoint(code_around([] {
                                    if (is_recomputing()) {
                                      throw UserTorchError();
                                    }
                                  }),
                                  x);
  expect_error<UserTorchError>([&] { gradients(y, {x}); });
  expect_clean_step();
}

TEST_F(CheckpointExceptionsTest, C024c_TranslatesOtherExceptionsInTheReplay) {
  const at::Tensor x = leaf({4, 4});
  const at::Tensor y = checkpoint({.name = "block3"}, code_around([] {
                                    if (is_recomputing()) {
                                      throw 42;
                                    }
                                  }),
                                  x);
  expect_error<CheckpointError>(
      [&] { gradients(y, {x}); },
      [](const CheckpointError& error) {
        EXPECT_THAT(error.what(), AllOf(HasSubstr("region 'block3'"), HasSubstr("std::exception")));
      });
  expect_clean_step();
}

TEST_F(CheckpointExceptionsTest, C024d_ExceptionOfANestedReplayKeepsItsType) {
  for (const bool early_stop : {true, false}) {
    const CheckpointOptions options = {.early_stop = early_stop};
    const at::Tensor x = leaf({4, 4});
    int runs = 0;
    const auto inner = code_around([&runs] {
      if (++runs > 2) {
        throw UserError(7);
      }
    });
    const at::Tensor y = checkpoint(
        options,
        [&](const at::Tensor& t) {
          return checkpoint(options, inner, checkpoint(options, inner, t.sin())).exp();
        },
        x);
    expect_error<UserError>([&] { gradients(y, {x}); });
    expect_clean_step();
  }
}

TEST_F(CheckpointExceptionsTest, C025_ExceptionInForwardReachesTheCallerOfTheRegion) {
  const at::Tensor x = leaf({4, 4});
  EXPECT_THAT([&] { checkpoint(code_around([] { throw UserError(7); }), x); },
              ::testing::Throws<UserError>(::testing::Field(&UserError::code, 7)));
  EXPECT_THAT([&] { checkpoint(code_around([] { throw 42; }), x); }, ::testing::Throws<int>(42));
  EXPECT_EQ(live_frames(), 0);
  EXPECT_EQ(live_cpu_bytes(), static_cast<std::int64_t>(x.nbytes()));
  const at::Tensor y = x.sin();  // goes to no frame
  EXPECT_EQ(live_frames(), 0);
  EXPECT_TRUE(bitwise_equal(gradients(y, {x})[0], x.cos()));
  expect_clean_step();
}

TEST_F(CheckpointExceptionsTest, C025b_ExceptionInTheForwardOfANestedRegionEndsBoth) {
  const at::Tensor x = leaf({4, 4});
  const auto inner = code_around([] { throw UserError(7); });
  EXPECT_THAT(
      [&] { checkpoint([&](const at::Tensor& t) { return checkpoint(inner, t.sin()); }, x); },
      ::testing::Throws<UserError>(::testing::Field(&UserError::code, 7)));
  EXPECT_EQ(live_frames(), 0);
  const at::Tensor y = checkpoint(
      [&](const at::Tensor& t) {
        try {
          return checkpoint(inner, t.sin());
        } catch (const UserError&) {
          return t.sin().exp();
        }
      },
      x);
  EXPECT_TRUE(bitwise_equal(gradients(y, {x})[0], gradients(x.sin().exp(), {x})[0]));
  expect_clean_step();
}

struct ThrowsInBackward : torch::autograd::Function<ThrowsInBackward> {
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& x) {
    ctx->save_for_backward({x});
    return x.clone();
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* ctx,
                                               torch::autograd::tensor_list /*grads*/) {
    static_cast<void>(ctx->get_saved_variables());
    throw UserError(9);
  }
};

TEST_F(CheckpointExceptionsTest, C020_FreesReplayedTensorsAfterAnErrorInBackward) {
  const auto outside = [](const at::Tensor& x) {
    return checkpoint(code_around([] {}), ThrowsInBackward::apply(x.sin()));
  };
  const auto inside = [](const at::Tensor& x) {
    return checkpoint(
        [](const at::Tensor& t) { return ThrowsInBackward::apply(t.sin().exp()).cos().exp(); }, x);
  };
  const auto nested = [&](const at::Tensor& x) {
    return checkpoint([&](const at::Tensor& t) { return inside(t.sin()).exp().sin(); }, x);
  };
  const at::Tensor x = leaf({4, 4});
  for (const auto& forward :
       std::vector<std::function<at::Tensor(const at::Tensor&)>>{outside, inside, nested}) {
    const at::Tensor y = watch(forward(x));
    const at::Tensor loss = y.sum();
    for (int i = 0; i < 2; ++i) {
      expect_error<UserError>(
          [&] { torch::autograd::grad({loss}, {x}, {}, /*retain_graph=*/true); },
          [](const UserError& error) { EXPECT_EQ(error.code, 9); });
    }
    expect_clean_step();
  }
}

TEST_F(CheckpointExceptionsTest, C020b_AfterAnErrorTheSameGraphGivesTheRightGradient) {
  torch::manual_seed(3);
  const at::Tensor x = leaf({4, 4});
  bool fail = false;
  torch::manual_seed(5);
  const at::Tensor y = checkpoint(code_around([&fail] {
                                    if (fail) {
                                      throw UserError(7);
                                    }
                                  }),
                                  x);
  const at::Tensor loss = watch(y.sum());
  fail = true;
  for (int i = 0; i < 2; ++i) {
    expect_error<UserError>([&] { torch::autograd::grad({loss}, {x}, {}, /*retain_graph=*/true); });
  }
  fail = false;
  const at::Tensor got = torch::autograd::grad({loss}, {x})[0];
  torch::manual_seed(5);
  EXPECT_TRUE(bitwise_equal(got, gradients(code_around([] {})(x), {x})[0]));
}

TEST_F(CheckpointExceptionsTest, C026_OptionsThatContradictEachOtherAreAnInvalidArgument) {
  const at::Tensor x = leaf({4, 4});
  int runs = 0;
  const auto code = [&runs](const at::Tensor& t) {
    ++runs;
    return t.exp();
  };
  const auto describe = [](const at::Tensor&) { return std::string(); };
  EXPECT_THAT(
      [&] { checkpoint({.determinism_check = DeterminismCheck::kCallback}, code, x); },
      ::testing::ThrowsMessage<std::invalid_argument>(HasSubstr("determinism_fn is empty")));
  EXPECT_THAT([&] { checkpoint({.determinism_fn = describe}, code, x); },
              ::testing::ThrowsMessage<std::invalid_argument>(
                  HasSubstr("determinism_check is not kCallback")));
  {
    const torch::NoGradGuard no_grad;
    EXPECT_THAT([&] { checkpoint({.determinism_fn = describe}, code, x); },
                ::testing::ThrowsMessage<std::invalid_argument>(
                    HasSubstr("determinism_check is not kCallback")));
  }
  EXPECT_EQ(runs, 0);
}

}  // namespace
}  // namespace reprise::testing::exceptions_test
