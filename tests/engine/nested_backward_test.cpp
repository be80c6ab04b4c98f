// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// A backward inside a region that lies in another region: its own replay runs within the replay of
// the outer one, which a policy may have leave out operators.
#include <array>
#include <span>

#include "tests/engine/under_policies.h"
#include "tests/testing/sanitized.h"

namespace reprise::testing::nested_backward_test {
namespace {

class NestedBackwardTest : public ConformanceTest {};

using Code = std::function<at::Tensor(const at::Tensor&)>;

// Of something that the region has made, of one of its inputs, and of a parameter.
at::Tensor by_gradient_of_a_copy(const at::Tensor& x) {
  const at::Tensor copy = x.detach().requires_grad_();
  return x * torch::autograd::grad({(copy.sin() * copy).sum()}, {copy})[0];
}
at::Tensor by_gradient_of_itself(const at::Tensor& x) {
  const at::Tensor y = x.sin() * x;
  return y * torch::autograd::grad({y.sum()}, {x}, {}, /*retain_graph=*/true,
                                   /*create_graph=*/true)[0];
}
at::Tensor behind_random_numbers(const at::Tensor& x) {
  const at::Tensor rows = x.index_select(0, at::randperm(x.size(0))) * x;
  return by_gradient_of_a_copy(at::bernoulli(x.detach().sigmoid()) * rows);
}

// Autograd counts a change of the shape in place as a write.
at::Tensor behind_a_reshaped_write(const at::Tensor& x) {
  at::Tensor y = x.detach() * 1;
  const at::Tensor before = y.sin();
  y.mul_(2);
  y.t_();
  return by_gradient_of_itself(x * y.t() * before);
}

// A replay that runs to the end of the code comes to the writes before forward does.
at::Tensor before_writes(const at::Tensor& x) {
  at::Tensor y = x.detach().sin();
  at::Tensor z = x.cos();
  const at::Tensor product = by_gradient_of_a_copy(x * 2);
  y.mul_(product.detach());
  z.narrow(0, 0, 3).add_(y.narrow(0, 3, 3));
  return product * y + z;
}

// In an inner and an outer region; first: applied by the inner one to its input.
Tensors run_nested(const CheckpointOptions* options, const PolicyHolder& outer_policy,
                   const Code& first, const Code& code) {
  torch::manual_seed(3);
  const auto run = [options](const CheckpointOptions& with, const Code& body,
                             const at::Tensor& input) {
    return options == nullptr ? body(input) : checkpoint(with, body, input);
  };
  CheckpointOptions inner = options == nullptr ? CheckpointOptions{} : *options;
  CheckpointOptions outer = inner;
  outer.replay = ReplayMode::kFunction;
  outer.policy = outer_policy;
  const Code outer_code = [&run, inner, first, code](const at::Tensor& t) {
    return run(
               inner, [first, code](const at::Tensor& u) { return code(first(u)).sin().sin(); },
               t.sin())
        .sin();
  };
  const at::Tensor x = leaf({6, 8});
  const at::Tensor y = run(outer, outer_code, x);
  Tensors seen = torch::autograd::grad({y.tanh().mean()}, {x}, {}, /*retain_graph=*/true);
  seen.push_back(torch::autograd::grad({y.tanh().mean()}, {x})[0]);
  seen.push_back(y.detach());
  seen.push_back(cpu_generator_state());
  return seen;
}

PolicyHolder keeping(std::uint64_t bits) {
  return bits == 0 ? PolicyHolder() : by_ordinal_in(nullptr, bits, false);
}

std::vector<CheckpointOptions> inner_options() {
  return {{},
          {.early_stop = false},
          {.determinism_check = DeterminismCheck::kValues},
          {.replay = ReplayMode::kTape},
          {.replay = ReplayMode::kTape, .early_stop = false},
          {.replay = ReplayMode::kTape, .determinism_check = DeterminismCheck::kValues}};
}

TEST_F(NestedBackwardTest, IsAsInPlainCode) {
  // The last one looks at a part of its input first, and at all of it where a policy may keep the
  // result.
  const std::vector<Code> firsts = {[](const at::Tensor& t) { return t; },
                                    [](const at::Tensor& t) { return t.sin(); },
                                    [](const at::Tensor& t) {
                                      return t.narrow(0, 0, 3).sin().repeat({2, 1}) + t * 0.5;
                                    }};
  const std::vector<Code> codes = {&by_gradient_of_a_copy, &by_gradient_of_itself,
                                   &behind_random_numbers, &behind_a_reshaped_write,
                                   &before_writes};
  static constexpr std::array<std::uint64_t, 4> kAllPolicies = {0, 0x5, 0x92, ~0U};
  constexpr auto kPolicies = std::span(kAllPolicies).first(cases<std::size_t>(4, 2));
  for (std::size_t code = 0; code < codes.size(); ++code) {
    for (std::size_t first = 0; first < firsts.size(); ++first) {
      const Tensors expected = run_nested(nullptr, {}, firsts[first], codes[code]);
      for (const std::uint64_t inner : kPolicies) {
        for (const std::uint64_t outer : kPolicies) {
          std::size_t number = 0;
          for (CheckpointOptions& options : inner_options()) {
            SCOPED_TRACE(c10::str("code ", code, ", first ", first, ", policies ", inner, ", ",
                                  outer, ", options ", number++));
            options.policy = keeping(inner);
            expect_same_bits(run_nested(&options, keeping(outer), firsts[first], codes[code]),
                             expected);
          }
        }
      }
    }
  }
}

// A generator that the region's code alone knows, drawn from before the backward inside and behind
// it: its replay, which with early stop off runs to the end of the code, leaves it where it was.
TEST_F(NestedBackwardTest, LeavesGeneratorsWhereTheyWere) {
  for (const bool draws_before : {true, false}) {
    for (CheckpointOptions& options : inner_options()) {
      for (const std::uint64_t bits : {0U, ~0U, 0x5U}) {
        const auto run = [draws_before](const CheckpointOptions* with) {
          torch::manual_seed(3);
          at::Generator generator = at::detail::createCPUGenerator(5);
          const Code code = [generator, draws_before](const at::Tensor& t) {
            const auto draw = [&] { return at::rand(t.sizes(), generator); };
            const at::Tensor before = draws_before ? t * draw() : t.sin();
            return by_gradient_of_a_copy(before) * draw();
          };
          const at::Tensor x = leaf({6, 8});
          const at::Tensor y = with == nullptr ? code(x) : checkpoint(*with, code, x);
          const at::Tensor gradient = torch::autograd::grad({y.sum()}, {x})[0];
          return Tensors{y.detach(), gradient, generator.get_state()};
        };
        options.policy = keeping(bits);
        SCOPED_TRACE(c10::str("draws before ", draws_before, ", bits ", bits));
        expect_same_bits(run(&options), run(nullptr));
      }
    }
  }
}

// Kept by the policy, and changed after it was saved: no one is given it any more, and a replay
// that supplies what is saved beside it has it as it is now.
at::Tensor beside_an_overwritten_tensor(const at::Tensor& x) {
  at::Tensor y = x.exp();  // saves its result
  y.mul_(2);
  return by_gradient_of_a_copy(y);
}

TEST_F(NestedBackwardTest, ValuesOfAnOverwrittenTensorAreNotCompared) {
  const at::Tensor x = leaf({6, 8});
  const at::Tensor expected = beside_an_overwritten_tensor(x);
  const CheckpointOptions options{.policy = policies::save_everything(),
                                  .determinism_check = DeterminismCheck::kValues};
  expect_same_bits({checkpoint(options, &beside_an_overwritten_tensor, x)}, {expected});
}

}  // namespace
}  // namespace reprise::testing::nested_backward_test
