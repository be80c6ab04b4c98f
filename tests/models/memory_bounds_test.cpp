// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// On each model of the zoo, whatever the policy and the form: the gradients are those without
// checkpointing, and a step retains no more and peaks no higher than that.
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "bench/zoo/stepped_model.h"
#include "bench/zoo/zoo.h"
#include "reprise/policies/policies.h"
#include "tests/models/model_names.h"
#include "tests/testing/modules.h"

namespace reprise::testing::memory_bounds_test {
namespace {

struct NamedPolicy {
  std::string name;
  PolicyHolder policy;
};

std::vector<NamedPolicy> ready_policies() {
  namespace p = policies;
  const auto is_large = [](const at::Tensor& output) { return output.numel() > 4096; };
  return {
      {"none", {}},
      {"save_everything", p::save_everything()},
      {"save_nothing", p::save_nothing()},
      {"save_operators", p::save_operators({"aten::mm", "aten::addmm", "aten::relu"})},
      {"save_matmuls", p::save_matmuls()},
      {"save_attention", p::save_attention()},
      {"save_compute_intensive", p::save_compute_intensive()},
      {"every_nth_matmul", p::every_nth_matmul(2)},
      {"save_where", p::save_where(is_large)},
      {"save_tagged(pointwise)", p::save_tagged(at::Tag::pointwise)},
      {"save_tagged(core)", p::save_tagged(at::Tag::core)},
      {"save_named", p::save_named({"block"})},
      {"offload", p::offload(p::save_compute_intensive())},
      {"first_match", p::first_match({p::save_attention(), p::every_nth_matmul(3)})},
      {"override_with", p::override_with(p::save_everything(), p::save_attention())},
  };
}

constexpr std::int64_t kScale = 2;  // of the batches

class MemoryBoundsTest : public ::testing::TestWithParam<std::tuple<std::string, zoo::Form>> {
 protected:
  static zoo::Form form() { return std::get<1>(GetParam()); }

  // The function form calls its code again, so it retains the arguments whether a gradient needs
  // them or not: here those of frozen layers, and the mean to which noise is added.
  static std::int64_t arguments_besides() {
    if (form() != zoo::Form::kFunction) {
      return 0;
    }
    constexpr std::int64_t kFloat = 4;
    const std::string& name = std::get<0>(GetParam());
    return name == "lora"  ? 5 * (16 * kScale * 64 * kFloat)
           : name == "vae" ? 16 * kScale * 8 * kFloat
                           : 0;
  }

  zoo::SteppedModel stepped_{std::get<0>(GetParam()), kScale};
};

TEST_P(MemoryBoundsTest, NoPolicyNeedsMoreThanPlainAutograd) {
  for (const NamedPolicy& each : ready_policies()) {
    SCOPED_TRACE(each.name);
    const zoo::RegionRunner regions{form(), {.policy = each.policy}};
    const zoo::Step step = stepped_.run([&] { return stepped_.model().loss(regions); });
    EXPECT_LE(step.kept, stepped_.plain().kept + arguments_besides());
    EXPECT_LE(step.peak, stepped_.plain().peak + arguments_besides());
    expect_same_bits(step.results, stepped_.plain().results);
  }
}

// With the whole model as one region, nothing but the policy's choice is retained.
TEST_P(MemoryBoundsTest, NoPolicyKeepsMoreThanPlainAutogradOfAWholeModel) {
  for (const NamedPolicy& each : ready_policies()) {
    SCOPED_TRACE(each.name);
    const zoo::RegionRunner region{form(), {.policy = each.policy}};
    const zoo::Step step =
        stepped_.run([&] { return region([this] { return stepped_.model().loss({}); }); });
    EXPECT_LE(step.kept, stepped_.plain().kept);
    expect_same_bits(step.results, stepped_.plain().results);
  }
}

INSTANTIATE_TEST_SUITE_P(Zoo, MemoryBoundsTest,
                         ::testing::Combine(::testing::ValuesIn(model_names()),
                                            ::testing::Values(zoo::Form::kFunction,
                                                              zoo::Form::kScope)),
                         [](const auto& info) {
                           return identifier_of(std::get<0>(info.param)) +
                                  (std::get<1>(info.param) == zoo::Form::kScope ? "_scope"
                                                                                : "_function");
                         });

}  // namespace
}  // namespace reprise::testing::memory_bounds_test
