// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Programs of operators of most kinds, in regions of random forms, options, policies and stores,
// with backwards of all kinds, compute the same bits as plain ones and leave no memory behind.
// REPRISE_OPERATOR_PROGRAMS and REPRISE_FIRST_SEED set how many and from which seed on;
// REPRISE_GO_ON has it go on after a failure.
#include <cstdlib>
#include <random>
#include <thread>

#include "reprise/engine/graph_exec_group.h"
#include "reprise/hooks/store_guard.h"
#include "tests/engine/under_policies.h"
#include "tests/property/late_write.h"
#include "tests/property/operator_families.h"
#include "tests/property/random_program.h"
#include "tests/property/random_setting.h"

namespace reprise::testing::operator_programs_test {
namespace {

// Under sanitizers each takes several times longer.
#if defined(__SANITIZE_ADDRESS__)
constexpr std::uint64_t kPrograms = 60;
#else
constexpr std::uint64_t kPrograms = 1000;
#endif

using Random = std::mt19937_64;

enum class Backward : std::uint8_t {
  kOnce,
  kTwice,
  kCreateGraph,
  kOnAnotherThread,
  kOneLeafAtATime,
  kInAGroup,
  kAfterTwoForwards,
  kNever,
};
constexpr std::size_t kBackwards = 8;

// A float tensor [4, 6] of the elements.
at::Tensor fit(at::Tensor y) {
  y = y.is_sparse() ? y.to_dense() : y;
  y = (y.is_complex() ? at::view_as_real(y.resolve_conj()) : y).to(at::kFloat).flatten();
  const std::int64_t times = (23 + y.numel()) / std::max<std::int64_t>(y.numel(), 1);
  return y.numel() == 0 ? at::zeros({4, 6}) : y.repeat({times}).narrow(0, 0, 24).view({4, 6});
}

class OperatorProgram {
 public:
  explicit OperatorProgram(std::uint64_t seed) {
    Random random(seed);
    const std::size_t count = 3 + pick(random, 6);
    for (std::size_t i = 0; i < count; ++i) {
      steps_.push_back(pick(random, families().size()));
    }
    inner_ = pick(random, 2) == 0 ? 1 + pick(random, count - 1) : count;
    if (pick(random, 2) == 0) {
      late_write_.emplace(random, count);
    }
  }

  // Regions inside are of the inner form.
  at::Tensor run(Surroundings& around, const at::Tensor& x, const Setting* setting) const {
    at::Tensor y = run_steps(around, x.sin(), 0, inner_);
    if (inner_ == steps_.size()) {
      return y;
    }
    // A copy, as the region is run again after this call.
    const auto rest = [program = *this, &around](const Tensors& in) -> Tensors {
      return {program.run_steps(around, in[0], program.inner_, program.steps_.size())};
    };
    if (setting == nullptr) {
      return rest({y})[0];
    }
    return run_as(setting->inner_form, with_generator(setting->inner_options, around), rest,
                  {y})[0];
  }

  // Without a watch, a region does not find by itself which generators are drawn from.
  static CheckpointOptions with_generator(CheckpointOptions options, const Surroundings& around) {
    if (options.determinism_check == DeterminismCheck::kNone) {
      options.generators = {around.generator};
    }
    return options;
  }

  bool has(bool Family::*property, bool value = true) const {
    return std::any_of(steps_.begin(), steps_.end(), [property, value](std::size_t step) {
      return families()[step].*property == value;
    });
  }

  // One that the program can have.
  Backward random_backward(Random& random) const {
    const auto kind = static_cast<Backward>(pick(random, kBackwards));
    const bool creates = kind == Backward::kCreateGraph;
    const bool frees = !creates && kind != Backward::kOneLeafAtATime && kind != Backward::kNever;
    const bool cannot_create = creates && has(&Family::has_double_backward, false);
    return cannot_create || (!frees && has(&Family::must_be_freed)) ? Backward::kTwice : kind;
  }

  std::string words() const {
    std::string all;
    for (const std::size_t step : steps_) {
      all += c10::str(all.empty() ? "" : ", ", families()[step].name);
    }
    return all;
  }

 private:
  at::Tensor run_steps(Surroundings& around, at::Tensor x, std::size_t from, std::size_t to) const {
    at::Tensor made;
    for (std::size_t i = from; i < to; ++i) {
      x = (x * 0.5 + fit(families()[steps_[i]].run(around, x))).tanh();
      x = late_write_ ? late_write_->after(i, x, made) : x;
    }
    return x;
  }

  std::vector<std::size_t> steps_;
  std::size_t inner_;
  std::optional<LateWrite> late_write_;
};

struct Found {
  Tensors tensors;
  std::string error;
};

class OperatorProgramsTest : public UnderPolicies {
 protected:
  static at::Tensor forward(const OperatorProgram& program, Surroundings& around,
                            const at::Tensor& x, const Setting* setting) {
    if (setting == nullptr) {
      return program.run(around, x, nullptr);
    }
    std::optional<StoreGuard> guard;
    if (setting->guard_store) {
      guard.emplace(setting->guard_store);
    }
    const Code code = [&program, &around, setting](const Tensors& in) -> Tensors {
      return {program.run(around, in[0], setting)};
    };
    const CheckpointOptions options = OperatorProgram::with_generator(setting->options, around);
    return run_as(setting->form, options, code, {x})[0];
  }

  static void append(Tensors& to, const Tensors& tensors) {
    for (const at::Tensor& tensor : tensors) {
      to.push_back(tensor.defined() ? tensor.detach().clone() : at::Tensor());
    }
  }

  static Tensors gradients_of(const at::Tensor& y, const Tensors& leaves, bool keep,
                              bool create = false) {
    return torch::autograd::grad({y.sum()}, leaves, {}, keep, create, /*allow_unused=*/true);
  }

  static void run_backward(Backward kind, const at::Tensor& y, const Tensors& leaves,
                           Tensors& found) {
    switch (kind) {
      case Backward::kCreateGraph: {
        const Tensors first = gradients_of(y, leaves, true, true);
        append(found, first);
        at::Tensor sum = at::zeros({});
        for (const at::Tensor& each : first) {
          sum = each.defined() && each.requires_grad() ? sum + each.tanh().sum() : sum;
        }
        if (sum.requires_grad()) {
          append(found, torch::autograd::grad({sum}, leaves, {}, false, false, true));
        }
        return;
      }
      case Backward::kOnAnotherThread: {
        std::exception_ptr thrown;
        std::thread([&] {
          try {
            append(found, gradients_of(y, leaves, false));
          } catch (...) {
            thrown = std::current_exception();
          }
        }).join();
        if (thrown) {
          std::rethrow_exception(thrown);
        }
        return;
      }
      case Backward::kOneLeafAtATime:
        for (std::size_t i = 0; i < leaves.size(); i += 5) {
          append(found, gradients_of(y, {leaves[i]}, true));
        }
        return;
      case Backward::kInAGroup: {
        GraphExecGroup group;
        const GraphExecGroupGuard entered(group);
        append(found, gradients_of(y, leaves, true));
        append(found, gradients_of(y, leaves, false));
        return;
      }
      case Backward::kTwice:
        append(found, gradients_of(y, leaves, true));
        append(found, gradients_of(y, leaves, false));
        return;
      default:
        append(found, gradients_of(y, leaves, false));
    }
  }

  static Found outcome(std::uint64_t seed, const OperatorProgram& program, Backward kind,
                       const Setting* setting) {
    Found found;
    Surroundings around(seed);
    at::Tensor x = at::randn({4, 6}).requires_grad_();
    Tensors leaves = around.parameters();
    leaves.push_back(x);
    try {
      const at::Tensor y = forward(program, around, x, setting);
      append(found.tensors, {y});
      if (kind == Backward::kAfterTwoForwards) {
        const at::Tensor other = forward(program, around, x, setting);
        append(found.tensors, gradients_of(other, leaves, false));
      }
      if (kind != Backward::kNever) {
        run_backward(kind, y, leaves, found.tensors);
      }
    } catch (const std::exception& error) {
      found.error = error.what();
    }
    append(found.tensors, around.buffers());
    found.tensors.push_back(cpu_generator_state());
    found.tensors.push_back(around.generator.get_state().clone());
    return found;
  }
};

void expect_same(const Found& got, const Found& expected) {
  ASSERT_EQ(got.error, "");
  ASSERT_EQ(got.tensors.size(), expected.tensors.size());
  for (std::size_t i = 0; i < got.tensors.size(); ++i) {
    EXPECT_TRUE(bitwise_equal(got.tensors[i], expected.tensors[i])) << "tensor " << i;
  }
}

TEST_F(OperatorProgramsTest, GiveTheSameBitsAndLeaveNoMemory) {
  const std::uint64_t first = number_from("REPRISE_FIRST_SEED", 0);
  const std::uint64_t count = number_from("REPRISE_OPERATOR_PROGRAMS", kPrograms);
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    const OperatorProgram program(seed);
    Random random(seed ^ 0x5bd1e995U);
    const Backward kind = program.random_backward(random);
    const Found expected = outcome(seed, program, kind, nullptr);
    ASSERT_EQ(expected.error, "") << "plain, seed " << seed << ": " << program.words();
    const std::int64_t bytes = live_cpu_bytes();
    std::string words;
    {
      Setting setting = random_setting(random);
      for (CheckpointOptions* options : {&setting.options, &setting.inner_options}) {
        if (program.has(&Family::reads_what_changes)) {
          options->determinism_check = DeterminismCheck::kMetadata;
        }
      }
      words = c10::str("seed ", seed, ": ", program.words(), "; ", setting.words, ", backward ",
                       static_cast<int>(kind));
      SCOPED_TRACE(words);
      expect_same(outcome(seed, program, kind, &setting), expected);
    }
    EXPECT_EQ(live_frames(), 0) << words;
    EXPECT_TRUE(cpu_bytes_come_to(bytes))
        << settled_cpu_bytes() - bytes << " bytes left, " << words;
    ASSERT_FALSE(HasFailure() && std::getenv("REPRISE_GO_ON") == nullptr) << "seed " << seed;
  }
}

}  // namespace
}  // namespace reprise::testing::operator_programs_test
