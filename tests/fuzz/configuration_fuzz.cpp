// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Configurations in JSON: accepted with the values that the text has, or refused.
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "reprise/engine/activation_checkpointing_config.h"
#include "tests/fuzz/input.h"

namespace reprise::fuzz {
namespace {

using Config = ActivationCheckpointingConfig;
using Json = nlohmann::json;

constexpr const char* kSection = "activation_checkpointing";

Json to_json(const Config& config) {
  const auto& number = config.number_checkpoints;
  return {{"partition_activations", config.partition_activations},
          {"cpu_checkpointing", config.cpu_checkpointing},
          {"contiguous_memory_optimization", config.contiguous_memory_optimization},
          {"synchronize_checkpoint_boundary", config.synchronize_checkpoint_boundary},
          {"profile", config.profile},
          {"number_checkpoints", number ? Json(*number) : Json()}};
}

void check(const Config& config, const Json& text) {
  const Json section = text.contains(kSection) ? text[kSection] : text;
  const Json read = to_json(config);
  for (const auto& [key, value] : section.items()) {
    require(value.is_null() || read.at(key).dump() == value.dump(), "values are as in the text");
  }
  require(Config::from_json(read.dump()) == config, "a configuration reads back");
  require(Config::from_json(Json{{kSection, read}}.dump()) == config, "a section reads back");
  const ActivationCheckpointingOverrides overrides = {
      config.partition_activations,           config.cpu_checkpointing,
      config.contiguous_memory_optimization,  config.number_checkpoints,
      config.synchronize_checkpoint_boundary, config.profile};
  require(with_overrides({}, overrides) == config, "overrides replace each key");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = text_of(data, size);
  const auto config = accepted<std::invalid_argument>([&] { return Config::from_json(text); },
                                                      {"[checkpoint.from_json] "});
  if (config) {
    check(*config, Json::parse(text));
  }
  return 0;
}

}  // namespace reprise::fuzz
