// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Parameters that an outside manager frees after forward and gathers again in backward, as ZeRO-3
// and FSDP do: by taking the memory out of their storage, or by giving them another one.
#include <ATen/native/Resize.h>

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "tests/conformance/conformance_fixture.h"
#include "tests/testing/replay_names.h"

namespace reprise::freed_parameters_test {
namespace {

using ::testing::AllOf;
using testing::expect_same_bits;
using ::testing::HasSubstr;
using testing::leaf;
using testing::Tensors;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

enum class Form : std::uint8_t { kEmptyStorage, kOtherStorage };

// Of one parameter, that it has whole.
class Manager {
 public:
  Manager(at::Tensor parameter, Form form)
      : parameter_(std::move(parameter)), form_(form), whole_(parameter_.detach().clone()) {}

  void free() {
    if (form_ == Form::kEmptyStorage) {
      at::native::resize_bytes_nocuda(parameter_.storage(), 0);
    } else {
      parameter_.set_data(at::empty({0}));
    }
  }

  // By an operator on the parameter itself.
  void gather_in_place(bool counts_version) {
    allocate();
    const at::NoGradGuard no_grad;
    const std::int64_t version = parameter_._version();
    parameter_.copy_(whole_);
    if (!counts_version) {
      c10::VariableVersion counter = parameter_.unsafeGetTensorImpl()->version_counter();
      counter.set_version(version);
    }
  }

  void gather() {
    if (form_ == Form::kEmptyStorage) {
      allocate();
      std::memcpy(parameter_.data_ptr(), whole_.data_ptr(), whole_.nbytes());
    } else {
      parameter_.set_data(whole_.clone());
    }
  }

 private:
  // Its elements are not-a-numbers.
  void allocate() {
    at::native::resize_bytes_nocuda(parameter_.storage(),
                                    static_cast<std::int64_t>(whole_.nbytes()));
    std::memset(parameter_.data_ptr(), 0xff, whole_.nbytes());
  }

  at::Tensor parameter_;
  const Form form_;
  const at::Tensor whole_;
};

class FreedParametersTest : public testing::ConformanceTest,
                            public ::testing::WithParamInterface<std::tuple<ReplayMode, Form>> {
 protected:
  CheckpointOptions options(bool allows = true) const {
    return {.name = "block", .replay = std::get<0>(GetParam()), .allow_external_mutation = allows};
  }
  bool is_tape() const { return std::get<0>(GetParam()) == ReplayMode::kTape; }
  Form form() const { return std::get<1>(GetParam()); }

  void TearDown() override {
    manager_.reset();
    x_.reset();
    w_.reset();
    ConformanceTest::TearDown();
  }

  at::Tensor x_ = leaf({3, 4});
  at::Tensor w_ = leaf({5, 4});
  std::optional<Manager> manager_{std::in_place, w_, form()};
};

std::string form_name(const ::testing::TestParamInfo<std::tuple<ReplayMode, Form>>& info) {
  return std::string(std::get<0>(info.param) == ReplayMode::kTape ? "Tape" : "Function") +
         (std::get<1>(info.param) == Form::kEmptyStorage ? "EmptyStorage" : "OtherStorage");
}

INSTANTIATE_TEST_SUITE_P(
    Forms, FreedParametersTest,
    ::testing::Combine(::testing::Values(ReplayMode::kFunction, ReplayMode::kTape),
                       ::testing::Values(Form::kEmptyStorage, Form::kOtherStorage)),
    form_name);

TEST_P(FreedParametersTest, MayBeGatheredBeforeBackward) {
  const auto code = [this](const at::Tensor& x) { return at::linear(x.sin(), w_).exp().mm(w_); };
  const Tensors expected = gradients(code(x_), {x_, w_});
  const at::Tensor y = checkpoint(options(), code, x_);
  manager_->free();
  manager_->gather();
  expect_same_bits(gradients(y, {x_, w_}), expected);
}

TEST_P(FreedParametersTest, AreNotHeldMeanwhile) {
  const auto code = [this](const at::Tensor& x) { return at::linear(x, w_).mm(w_); };
  const at::Tensor y = checkpoint(options(), code, x_);
  const std::int64_t bytes = testing::live_cpu_bytes();
  const auto whole_bytes = static_cast<std::int64_t>(w_.nbytes());
  manager_->free();
  EXPECT_EQ(bytes - testing::live_cpu_bytes(), whole_bytes);
  manager_->gather();
  watch(y);
}

// As ZeRO-3's linear function: the parameter is there only while it is used.
struct ManagedLinear : torch::autograd::Function<ManagedLinear> {
  // Whether it is freed before it is saved, in forward and in a recomputation.
  struct Frees {
    bool in_forward;
    bool in_replay;
  };
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& w,
                            Manager* manager, Frees frees) {
    manager->gather();
    at::Tensor y = x.mm(w.t());
    if (is_recomputing() ? frees.in_replay : frees.in_forward) {
      manager->free();
    }
    context->save_for_backward({x, w});
    context->saved_data["manager"] = reinterpret_cast<std::int64_t>(manager);
    return y;
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    auto* const manager = reinterpret_cast<Manager*>(context->saved_data["manager"].toInt());
    manager->gather();
    const variable_list saved = context->get_saved_variables();
    return {gradients[0].mm(saved[1]), gradients[0].t().mm(saved[0]), at::Tensor(), at::Tensor()};
  }
};

TEST_P(FreedParametersTest, MayHaveElementsWhenSavedInOneRunAlone) {
  for (const DeterminismCheck check : {DeterminismCheck::kMetadata, DeterminismCheck::kValues}) {
    for (const auto& [in_forward, in_replay] : {std::pair{true, true}, std::pair{true, false},
                                                std::pair{false, true}, std::pair{false, false}}) {
      SCOPED_TRACE(::testing::Message() << in_forward << in_replay);
      const ManagedLinear::Frees frees{in_forward, in_replay};
      const auto code = [&](const at::Tensor& x) {
        const at::Tensor y = ManagedLinear::apply(x.sin(), w_, &*manager_, frees);
        return is_tape() ? y * 2 : y.exp();  // a tape does not run the code that gathers
      };
      manager_->gather();
      const Tensors expected = gradients(code(x_), {x_, w_});
      manager_->gather();
      CheckpointOptions accepting = options();
      accepting.determinism_check = check;
      const at::Tensor y = checkpoint(accepting, code, x_);
      manager_->free();
      expect_same_bits(gradients(y, {x_, w_}), expected);
    }
  }
  manager_->gather();
}

// See Note [Writes to freed storages].
TEST_P(FreedParametersTest, MayBeGatheredInPlaceByTheRegion) {
  if (form() != Form::kEmptyStorage) {
    GTEST_SKIP() << "set_data() is no operator";
  }
  const auto linear = [this](const at::Tensor& x) { return at::linear(x.sin(), w_).exp(); };
  const Tensors expected = gradients(linear(x_), {x_, w_});
  for (const auto& [allows, counts_version] : {std::pair{true, true}, std::pair{true, false},
                                               std::pair{false, true}, std::pair{false, false}}) {
    SCOPED_TRACE(::testing::Message() << allows << counts_version);
    manager_->free();
    const at::Tensor y = checkpoint(
        options(allows),
        [&, counts = counts_version](const at::Tensor& x) {
          manager_->gather_in_place(counts);
          return linear(x);
        },
        x_);
    watch(y);
    manager_->free();
    expect_same_bits(gradients(y, {x_, w_}), expected);
  }
  manager_->gather();
}

TEST_P(FreedParametersTest, ThrowOnATapeIfNotGathered) {
  if (!is_tape()) {
    GTEST_SKIP() << "the region's own code would use them";
  }
  for (const bool early_stop : {true, false}) {
    CheckpointOptions accepting = options();
    accepting.early_stop = early_stop;
    const at::Tensor y = checkpoint(
        accepting, [this](const at::Tensor& x) { return at::linear(x.sin(), w_).exp(); }, x_);
    watch(y);
    manager_->free();
    try {
      y.sum().backward();
      ADD_FAILURE() << "no error";
    } catch (const MutationError& error) {
      EXPECT_THAT(error.what_without_backtrace(),
                  AllOf(HasSubstr("region 'block'"), HasSubstr("reads a parameter"),
                        HasSubstr("Float [5, 4]"), HasSubstr("gather")));
    }
    manager_->gather();
  }
}

TEST_P(FreedParametersTest, WithoutTheOptionNothingIsReadOutOfBounds) {
  if (!is_tape() || form() != Form::kEmptyStorage) {
    GTEST_SKIP() << "the region holds the memory, or its own code would use it";
  }
  const at::Tensor y = checkpoint(
      options(/*allows=*/false),
      [this](const at::Tensor& x) { return at::linear(x.sin(), w_).exp(); }, x_);
  watch(y);
  manager_->free();
  EXPECT_THAT([&] { y.sum().backward(); },
              ::testing::ThrowsMessage<MutationError>(HasSubstr("resized")));
  manager_->gather();
}

TEST_P(FreedParametersTest, WithoutTheOptionAnotherShapeIsAnError) {
  if (is_tape() || form() != Form::kOtherStorage) {
    GTEST_SKIP() << "nothing is saved again, or the shape is the same";
  }
  const auto code = [&](const at::Tensor& x) {
    return ManagedLinear::apply(x.sin(), w_, &*manager_, ManagedLinear::Frees{true, false}).exp();
  };
  const at::Tensor y = checkpoint(options(/*allows=*/false), code, x_);
  watch(y);
  EXPECT_THAT([&] { y.sum().backward(); },
              ::testing::ThrowsMessage<CheckpointError>(HasSubstr("have different metadata")));
  manager_->gather();
}

}  // namespace
}  // namespace reprise::freed_parameters_test
