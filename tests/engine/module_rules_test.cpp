// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// apply_checkpointing() with several rules, and what it says of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "reprise/engine/apply_checkpointing.h"
#include "reprise/engine/checkpointed.h"
#include "reprise/hooks/stores.h"
#include "reprise/policies/policies.h"
#include "tests/testing/modules.h"

namespace reprise::module_rules_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::expect_same_bits;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::outcome_of;
using ::testing::ThrowsMessage;
using torch::nn::Sequential;

struct HalfImpl : torch::nn::Cloneable<HalfImpl> {
  HalfImpl() { reset(); }
  void reset() override { fc = register_module("fc", torch::nn::Linear(4, 4)); }
  at::Tensor forward(const at::Tensor& x) { return fc(x).sin() + x; }
  torch::nn::Linear fc{nullptr};
};
TORCH_MODULE(Half);

struct OtherImpl : HalfImpl {};
TORCH_MODULE(Other);

Sequential make_model(int pairs) {
  Sequential model;
  for (int i = 0; i < pairs; ++i) {
    model->push_back(Half());
    model->push_back(Other());
  }
  return model;
}

std::vector<std::string> paths_of(const CheckpointedModules& applied) {
  std::vector<std::string> paths;
  for (const CheckpointedModules::Row& row : applied.rows) {
    paths.push_back(row.path);
  }
  return paths;
}

std::string name_at(Sequential& model, std::size_t index) {
  const CheckpointedModule* const element = checkpointed_element(*model, index);
  return element == nullptr ? "plain" : element->checkpoint_options()->name;
}

TEST(ModuleRulesTest, FirstRuleThatMatchesGivesTheOptions) {
  Sequential model = make_model(2);
  const auto expected = outcome_of(model);
  const CheckpointedModules applied =
      apply_checkpointing(*model, {{modules_named({"1"}), std::nullopt},
                                   {modules_matching("[12]"), CheckpointOptions{.name = "second"}},
                                   {modules_named({"Half", "Other"})}});
  EXPECT_THAT(paths_of(applied), ElementsAre("0", "2", "3"));
  EXPECT_EQ(name_at(model, 0), "0");
  EXPECT_EQ(name_at(model, 1), "plain");
  EXPECT_EQ(name_at(model, 2), "second");
  EXPECT_EQ(name_at(model, 3), "3");
  expect_same_bits(outcome_of(model), expected);
}

TEST(ModuleRulesTest, ModulesWithoutOptionsRunPlainlyAgain) {
  Sequential model = make_model(2);
  apply_checkpointing(*model, modules_named({"Half", "Other"}));
  const auto applied = apply_checkpointing(
      *model, {{modules_named({"Half"}), std::nullopt}, {modules_named({"3"})}});
  EXPECT_THAT(paths_of(applied), ElementsAre("3"));
  EXPECT_EQ(name_at(model, 0), "plain");
  EXPECT_EQ(name_at(model, 1), "1");  // no rule is about it
}

TEST(ModuleRulesTest, TakesEveryKthOfEachType) {
  Sequential model = make_model(5);
  const std::vector<ModuleRule> both = {{modules_named({"Half", "Other"})}};
  EXPECT_THAT(paths_of(apply_checkpointing(*model, both, {.every = 2})),
              ElementsAre("0", "1", "4", "5", "8", "9"));
  EXPECT_EQ(name_at(model, 2), "plain");
  EXPECT_THAT(paths_of(apply_checkpointing(*model, both, {.keep_last = 3, .every = 3})),
              ElementsAre("0", "1", "6"));
  EXPECT_EQ(name_at(model, 8), "plain");
  EXPECT_THAT(paths_of(apply_checkpointing(*model, both, {.keep_last = 20})), IsEmpty());
}

TEST(ModuleRulesTest, ModuleWithTwoPathsCountsOnce) {
  const Half shared;
  Sequential model(shared, Half(), shared, Half());
  const std::vector<ModuleRule> rules = {{modules_named({"Half"})}};
  EXPECT_THAT(paths_of(apply_checkpointing(*model, rules, {.every = 2})), ElementsAre("0", "3"));
  EXPECT_EQ(name_at(model, 1), "plain");
  EXPECT_EQ(name_at(model, 2), "0");
}

TEST(ModuleRulesTest, LaterPredicatesAreNotAsked) {
  Sequential model(Half{}, Other{});
  std::vector<std::string> asked;
  apply_checkpointing(*model, {{modules_named({"0"})}, {[&](const std::string& path, const auto&) {
                                 asked.push_back(path);
                                 return false;
                               }}});
  EXPECT_THAT(asked, ElementsAre("", "0.fc", "1", "1.fc"));
}

TEST(ModuleRulesTest, SaysWhatItHasDone) {
  Sequential model(Half{}, torch::nn::Tanh{}, Other{});
  const auto applied = apply_checkpointing(
      *model,
      {{modules_named({"Half"}), CheckpointOptions{.name = "mine",
                                                   .policy = policies::save_matmuls(),
                                                   .replay = ReplayMode::kTape,
                                                   .early_stop = false,
                                                   .determinism_check = DeterminismCheck::kValues,
                                                   .input_store = stores::packed(),
                                                   .prefetch_depth = 3}},
       {modules_named({"Other"})}});
  EXPECT_EQ(applied.to_string(),
            "module  type       options\n"
            "0       HalfImpl   policy, input_store, replay=tape, early_stop=false, "
            "determinism_check=values, prefetch_depth=3\n"
            "2       OtherImpl  defaults\n");
}

TEST(ModuleRulesTest, ThrowsForAPatternThatMatchesNothingAndNothingChanges) {
  Sequential model = make_model(1);
  const auto apply = [&](ModulePredicate second) {
    return [&model, second] {
      apply_checkpointing(*model, {{modules_named({"Half"})}, {second, std::nullopt}});
    };
  };
  EXPECT_THAT(apply(modules_named({"Othr"})),
              ThrowsMessage<std::invalid_argument>(
                  AllOf(HasSubstr("[engine.modules_named] no module has this path, name or type"),
                        HasSubstr("received 'Othr'; the closest are Other,"))));
  EXPECT_THAT(apply(modules_matching("1\\.fx")),
              ThrowsMessage<std::invalid_argument>(
                  AllOf(HasSubstr("[engine.modules_matching] no module's path is of this form"),
                        HasSubstr("received '1\\.fx'; the closest are 1.fc,"),
                        HasSubstr("(nothing has been changed)"))));
  EXPECT_EQ(name_at(model, 0), "plain");
  EXPECT_THAT([] { static_cast<void>(modules_matching("(")); },
              ThrowsMessage<std::invalid_argument>(
                  AllOf(HasSubstr("[engine.modules_matching] this is no regular expression"),
                        HasSubstr("received '('"))));
  EXPECT_THAT([&] { apply_checkpointing(*model, {{modules_named({"Half"})}}, {.every = 0}); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("every is not positive: 0")));
}

TEST(ModuleRulesTest, ModuleThatCannotBeARegionMayBeExcluded) {
  Sequential model(Half{});
  const auto all = modules_matching(".*");
  EXPECT_THAT([&] { apply_checkpointing(*model, std::vector<ModuleRule>{{all}}); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("this module cannot be wrapped")));
  const auto applied =
      apply_checkpointing(*model, {{modules_matching("|.*fc"), std::nullopt}, {all}});
  EXPECT_THAT(paths_of(applied), ElementsAre("0"));
}

}  // namespace
}  // namespace reprise::module_rules_test
