// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/activation_checkpointing_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <limits>
#include <memory>
#include <string>
#include <thread>

#include "reprise/engine/checkpoint.h"
#include "reprise/engine/checkpoint_scope.h"
#include "reprise/engine/memory_report.h"
#include "reprise/hooks/host_store.h"
#include "reprise/hooks/slab_store.h"
#include "reprise/hooks/stores.h"
#include "tests/hooks/diary_store.h"
#include "tests/testing/bitwise.h"

namespace reprise::activation_checkpointing_config_test {
namespace {

using Config = ActivationCheckpointingConfig;
using testing::bitwise_equal;
using ::testing::HasSubstr;

MATCHER_P(Refuses, text, "") {
  try {
    arg();
  } catch (const std::invalid_argument& error) {
    *result_listener << error.what();
    return std::string(error.what()).find(text) != std::string::npos;
  }
  *result_listener << "nothing was thrown";
  return false;
}

TEST(ConfigFromJsonTest, EachKeyOfTheSection) {
  const Config found = Config::from_json(R"({"train_batch_size": 8, "activation_checkpointing": {
      "partition_activations": true, "cpu_checkpointing": true,
      "contiguous_memory_optimization": true, "number_checkpoints": 24,
      "synchronize_checkpoint_boundary": true, "profile": true}})");
  EXPECT_EQ(found, (Config{.partition_activations = true,
                           .cpu_checkpointing = true,
                           .contiguous_memory_optimization = true,
                           .number_checkpoints = 24,
                           .synchronize_checkpoint_boundary = true,
                           .profile = true}));
}

TEST(ConfigFromJsonTest, DefaultsAndTheSectionAlone) {
  EXPECT_EQ(Config::from_json("{}"), Config{});
  EXPECT_EQ(Config::from_json(R"({"activation_checkpointing": {"number_checkpoints": null}})"),
            Config{});
  EXPECT_EQ(Config::from_json(R"({"profile": true})"), Config{.profile = true});
}

TEST(ConfigFromJsonTest, NamesTheInvalidEntry) {
  const auto from = [](const char* json) { return [=] { (void)Config::from_json(json); }; };
  EXPECT_THAT(from(R"({"partition_activation": true})"),
              Refuses("there is no key 'partition_activation' in activation_checkpointing; there "
                      "are contiguous_memory_optimization, cpu_checkpointing, number_checkpoints"));
  EXPECT_THAT(from(R"({"profile": "yes"})"),
              Refuses("profile is \"yes\"; it must be true or false"));
  EXPECT_THAT(from(R"({"number_checkpoints": 1.5})"), Refuses("number_checkpoints is 1.5"));
  EXPECT_THAT(from(R"({"activation_checkpointing": 3})"), Refuses("must be an object"));
  EXPECT_THAT(from("[1, 2"), Refuses("this is no JSON"));
}

TEST(ConfigFromJsonTest, RefusesNumbersOutOfRange) {
  const auto from = [](const char* json) { return [=] { (void)Config::from_json(json); }; };
  EXPECT_THAT(from(R"({"optimizer": {"lr": 1e999}})"), Refuses("this is no JSON"));
  EXPECT_THAT(from(R"({"number_checkpoints": 9223372036854775808})"),
              Refuses("number_checkpoints is 9223372036854775808; it must be at most "
                      "9223372036854775807"));
  EXPECT_EQ(Config::from_json(R"({"number_checkpoints": 9223372036854775807})"),
            Config{.number_checkpoints = std::numeric_limits<std::int64_t>::max()});
}

TEST(ConfigFromJsonTest, RefusesDeepNesting) {
  constexpr std::size_t kDepth = 1 << 20;
  const std::string deep = std::string(kDepth, '[') + std::string(kDepth, ']');
  const auto from = [](const std::string& json) { return [=] { (void)Config::from_json(json); }; };
  EXPECT_THAT(from(deep), Refuses("activation_checkpointing is an array; it must be an object"));
  EXPECT_THAT(from("{\"profile\":" + deep + '}'), Refuses("profile is an array"));
  EXPECT_THAT(from("{\"number_checkpoints\":" + deep + '}'),
              Refuses("number_checkpoints is an array"));
}

TEST(ConfigFromJsonTest, ReadsAFile) {
  const std::string path = ::testing::TempDir() + "/ds_config.json";
  std::ofstream(path) << R"({"activation_checkpointing": {"cpu_checkpointing": true}})";
  EXPECT_EQ(Config::from_json_file(path), Config{.cpu_checkpointing = true});
  std::remove(path.c_str());
  EXPECT_THAT([&] { (void)Config::from_json_file(path); }, Refuses(path + "' cannot be read"));
}

TEST(ConfigOverridesTest, PrefersOverridesToTheFile) {
  const Config file{.cpu_checkpointing = true, .profile = true};
  EXPECT_EQ(with_overrides(file, {}), file);
  EXPECT_EQ(with_overrides(file, {.contiguous_memory_optimization = true,
                                  .number_checkpoints = 3,
                                  .profile = false}),
            (Config{.cpu_checkpointing = true,
                    .contiguous_memory_optimization = true,
                    .number_checkpoints = 3}));
}

TEST(ConfigureTest, ContradictionsNameTheKey) {
  const auto with = [](Config config, std::shared_ptr<ActivationStore> store = nullptr) {
    return [=] { configure_checkpointing(config, store); };
  };
  EXPECT_THAT(with({.partition_activations = true}), Refuses("partition_activations is true"));
  EXPECT_THAT(with({}, stores::device()), Refuses("partition_activations is false"));
  EXPECT_THAT(with({.number_checkpoints = 3}),
              Refuses("number_checkpoints is 3, but contiguous_memory_optimization is false"));
  EXPECT_THAT(with({.contiguous_memory_optimization = true, .number_checkpoints = 0}),
              Refuses("number_checkpoints is 0; it must be 1 or more"));
  EXPECT_FALSE(is_configured());
}

class ConfiguredRegionsTest : public ::testing::Test {
 protected:
  ~ConfiguredRegionsTest() override { reset_configuration(); }

  std::vector<at::Tensor> gradients(const CheckpointOptions& options = {}) const {
    at::Tensor h = x_;
    for (int i = 0; i < 3; ++i) {
      h = checkpoint(
          options, [this](const at::Tensor& t) { return t.matmul(w_).tanh(); }, h);
    }
    {
      const CheckpointScope scope(options);
      h = h.matmul(w_).sin();
    }
    return torch::autograd::grad({h.sum()}, {x_, w_});
  }

  void expect_equal() const {
    const auto found = gradients();
    EXPECT_TRUE(bitwise_equal(found[0], expected_[0]));
    EXPECT_TRUE(bitwise_equal(found[1], expected_[1]));
  }

  const at::Tensor x_ = at::randn({64, 64}).requires_grad_();
  const at::Tensor w_ = at::randn({64, 64}).requires_grad_();
  const std::vector<at::Tensor> expected_ = gradients();
  const std::shared_ptr<SlabStore> store_ = stores::slab();
};

TEST_F(ConfiguredRegionsTest, PutTheirInputsInTheStoreFromConfigureToReset) {
  EXPECT_FALSE(is_configured());
  configure_checkpointing({.partition_activations = true}, store_);
  EXPECT_TRUE(is_configured());
  expect_equal();
  // x is a parameter here; the inputs of the other regions are not.
  const std::int64_t peak = store_->counters().peak_used_bytes;
  EXPECT_EQ(peak, 3U * 64 * 64 * 4);
  std::thread([&] { expect_equal(); }).join();
  reset_configuration();
  EXPECT_FALSE(is_configured());
  const std::int64_t slabs = store_->counters().slabs;
  expect_equal();
  EXPECT_EQ(store_->counters().slabs, slabs);
  EXPECT_EQ(store_->counters().used_bytes, 0U);
}

TEST_F(ConfiguredRegionsTest, GuardWinsOnItsThread) {
  const auto inner = stores::slab();
  configure_checkpointing({.partition_activations = true}, store_);
  {
    const ConfigurationGuard guard({.partition_activations = true}, inner);
    expect_equal();
    EXPECT_EQ(store_->counters().peak_used_bytes, 0U);
    EXPECT_GT(inner->counters().peak_used_bytes, 0U);
    std::thread([&] { expect_equal(); }).join();
    EXPECT_GT(store_->counters().peak_used_bytes, 0U);
  }
  EXPECT_TRUE(is_configured());
}

TEST_F(ConfiguredRegionsTest, StoreOfTheRegionsOwnComesFirst) {
  const auto own = stores::slab();
  configure_checkpointing({.partition_activations = true}, store_);
  gradients({.input_store = own});
  EXPECT_EQ(store_->counters().peak_used_bytes, 0U);
  EXPECT_GT(own->counters().peak_used_bytes, 0U);
}

TEST_F(ConfiguredRegionsTest, EveryCombinationGivesTheSameGradients) {
  for (int bits = 0; bits < 32; ++bits) {
    const Config config{.partition_activations = (bits & 1) != 0,
                        .cpu_checkpointing = (bits & 2) != 0,
                        .contiguous_memory_optimization = (bits & 4) != 0,
                        .synchronize_checkpoint_boundary = (bits & 8) != 0,
                        .profile = (bits & 16) != 0};
    const ConfigurationGuard guard(config,
                                   config.partition_activations ? stores::packed() : nullptr);
    expect_equal();
  }
}

TEST_F(ConfiguredRegionsTest, MoreForwardsThanNumberCheckpointsAndTheirBackwards) {
  const auto forward = [this] {
    return checkpoint([this](const at::Tensor& t) { return t.matmul(w_).tanh(); }, x_ * 1).sum();
  };
  const at::Tensor expected = torch::autograd::grad({forward()}, {w_})[0];
  configure_checkpointing({.contiguous_memory_optimization = true, .number_checkpoints = 2});
  for (int step = 0; step < 2; ++step) {
    std::vector<at::Tensor> losses;
    for (int i = 0; i < 3; ++i) {
      losses.push_back(forward());
    }
    for (const at::Tensor& loss : losses) {
      EXPECT_TRUE(bitwise_equal(torch::autograd::grad({loss}, {w_})[0], expected));
    }
  }
}

TEST_F(ConfiguredRegionsTest, RegionIsConfiguredWhenItsForwardBegins) {
  configure_checkpointing({.partition_activations = true}, store_);
  const at::Tensor loss =
      checkpoint([this](const at::Tensor& t) { return t.matmul(w_).tanh(); }, x_ * 1).sum();
  const at::Tensor expected = torch::autograd::grad({(x_ * 1).matmul(w_).tanh().sum()}, {w_})[0];
  EXPECT_EQ(store_->counters().used_bytes, 64U * 64 * 4);
  configure_checkpointing({.contiguous_memory_optimization = true, .profile = true});
  EXPECT_TRUE(bitwise_equal(torch::autograd::grad({loss}, {w_})[0], expected));
  EXPECT_EQ(store_->counters().used_bytes, 0U);
}

TEST_F(ConfiguredRegionsTest, ProfileCountsRegionsAndTheirTimes) {
  configure_checkpointing({.profile = true});
  gradients({.name = "block"});
  const MemoryReport report = memory_report();
  ASSERT_EQ(report.regions.size(), 1U);
  EXPECT_EQ(report.regions[0].runs, 4);
  EXPECT_EQ(report.regions[0].replays, 6);  // three, and one for each slot of the scope
  EXPECT_GT(report.regions[0].forward_time.count(), 0);
  EXPECT_GT(report.regions[0].replay_time.count(), 0);
  ::testing::internal::CaptureStderr();
  see_memory_usage("after a step");
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              ::testing::AllOf(::testing::StartsWith("after a step\n"), HasSubstr("block")));
  reset_configuration();
  ::testing::internal::CaptureStderr();
  see_memory_usage("not asked for");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace reprise::activation_checkpointing_config_test
