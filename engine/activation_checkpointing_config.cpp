// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/activation_checkpointing_config.h"

#include <cstdint>
#include <fstream>
#include <iostream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>

#include "reprise/engine/memory_report.h"
#include "reprise/engine/region/configuration.h"
#include "reprise/hooks/host_store.h"
#include "reprise/hooks/slab_store.h"

namespace reprise {
namespace {

using engine_internal::Configuration;
using engine_internal::ConfigurationPtr;
using Json = nlohmann::json;

constexpr const char* kSection = "activation_checkpointing";

[[noreturn]] void refuse_json(const std::string& what) {
  throw std::invalid_argument("[checkpoint.from_json] " + what);
}

// A text may nest arrays as deep as it is long: dump() of one would overflow the stack.
std::string described(const Json& value) {
  return value.is_structured() ? std::string("an ") + value.type_name() : value.dump();
}

using Field = std::variant<bool*, std::optional<std::int64_t>*>;

void set(bool& field, const std::string& key, const Json& value) {
  if (!value.is_boolean()) {
    refuse_json(key + " is " + described(value) + "; it must be true or false");
  }
  field = value.get<bool>();
}

void set(std::optional<std::int64_t>& field, const std::string& key, const Json& value) {
  if (!value.is_number_integer()) {
    refuse_json(key + " is " + described(value) + "; it must be an integer or null");
  }
  constexpr std::uint64_t kMax = std::numeric_limits<std::int64_t>::max();
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > kMax) {
    refuse_json(key + " is " + value.dump() + "; it must be at most " + std::to_string(kMax));
  }
  field = value.get<std::int64_t>();
}

void set_fields(ActivationCheckpointingConfig& config, const Json& section) {
  const std::map<std::string, Field> fields = {
      {"partition_activations", &config.partition_activations},
      {"cpu_checkpointing", &config.cpu_checkpointing},
      {"contiguous_memory_optimization", &config.contiguous_memory_optimization},
      {"number_checkpoints", &config.number_checkpoints},
      {"synchronize_checkpoint_boundary", &config.synchronize_checkpoint_boundary},
      {"profile", &config.profile}};
  for (const auto& [key, value] : section.items()) {
    const auto field = fields.find(key);
    if (field == fields.end()) {
      std::string known;
      for (const auto& [name, unused] : fields) {
        known += (known.empty() ? "" : ", ") + name;
      }
      refuse_json("there is no key '" + key + "' in " + kSection + "; there are " + known);
    }
    if (!value.is_null()) {
      std::visit([&, &name = key, &found = value](auto* to) { set(*to, name, found); },
                 field->second);
    }
  }
}

[[noreturn]] void refuse(const std::string& what) {
  throw std::invalid_argument("[checkpoint.configure] " + what);
}

void check(const ActivationCheckpointingConfig& config, bool has_partitioned) {
  if (config.partition_activations && !has_partitioned) {
    refuse(
        "partition_activations is true, but there is no store that does it; pass "
        "stores::partitioned(group) to configure_checkpointing()");
  }
  if (!config.partition_activations && has_partitioned) {
    refuse(
        "a store that partitions was passed, but partition_activations is false, so it would never "
        "be used");
  }
  if (config.number_checkpoints && !config.contiguous_memory_optimization) {
    refuse("number_checkpoints is " + std::to_string(*config.number_checkpoints) +
           ", but contiguous_memory_optimization is false, so it would never be used");
  }
  if (config.number_checkpoints && *config.number_checkpoints < 1) {
    refuse("number_checkpoints is " + std::to_string(*config.number_checkpoints) +
           "; it must be 1 or more");
  }
}

ConfigurationPtr make(const ActivationCheckpointingConfig& config,
                      std::shared_ptr<ActivationStore> store) {
  check(config, store != nullptr);
  std::shared_ptr<ActivationStore> last;
  if (config.cpu_checkpointing) {
    last = stores::host();
  } else if (config.contiguous_memory_optimization) {
    last = stores::slab({.initial_tensors = config.number_checkpoints.value_or(0)});
  }
  if (last) {
    store = store ? std::move(store) | std::move(last) : std::move(last);
  }
  auto made = std::make_shared<Configuration>();
  made->input_store = std::move(store);
  made->synchronizes = config.synchronize_checkpoint_boundary;
  if (config.profile) {
    made->profiling = std::make_unique<MemoryReportGuard>();
  }
  return made;
}

}  // namespace

ActivationCheckpointingConfig ActivationCheckpointingConfig::from_json(std::string_view json) {
  Json whole;
  try {
    whole = Json::parse(json);
  } catch (const Json::exception& error) {  // also of a number that is too large
    refuse_json(std::string("this is no JSON: ") + error.what());
  }
  const Json& section = whole.is_object() && whole.contains(kSection) ? whole[kSection] : whole;
  if (!section.is_object()) {
    refuse_json(std::string(kSection) + " is " + described(section) + "; it must be an object");
  }
  ActivationCheckpointingConfig config;
  set_fields(config, section);
  return config;
}

ActivationCheckpointingConfig ActivationCheckpointingConfig::from_json_file(
    const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) {
    refuse_json("the file '" + path + "' cannot be read");
  }
  return from_json(text.str());
}

ActivationCheckpointingConfig with_overrides(ActivationCheckpointingConfig config,
                                             const ActivationCheckpointingOverrides& overrides) {
  const auto override_with = [](auto& field, const auto& with) {
    if (with) {
      field = *with;
    }
  };
  override_with(config.partition_activations, overrides.partition_activations);
  override_with(config.cpu_checkpointing, overrides.cpu_checkpointing);
  override_with(config.contiguous_memory_optimization, overrides.contiguous_memory_optimization);
  override_with(config.number_checkpoints, overrides.number_checkpoints);
  override_with(config.synchronize_checkpoint_boundary, overrides.synchronize_checkpoint_boundary);
  override_with(config.profile, overrides.profile);
  return config;
}

void configure_checkpointing(const ActivationCheckpointingConfig& config,
                             std::shared_ptr<ActivationStore> partitioned) {
  engine_internal::configure_process(make(config, std::move(partitioned)));
}

bool is_configured() { return engine_internal::is_process_configured(); }

void reset_configuration() { engine_internal::configure_process(nullptr); }

struct ConfigurationGuard::State {
  hooks_internal::ThreadStackEntryPtr entry;
};

ConfigurationGuard::ConfigurationGuard(const ActivationCheckpointingConfig& config,
                                       std::shared_ptr<ActivationStore> partitioned)
    : state_(std::make_unique<State>()) {
  state_->entry =
      engine_internal::thread_configurations().push(make(config, std::move(partitioned)));
}

ConfigurationGuard::~ConfigurationGuard() {
  engine_internal::thread_configurations().end(*state_->entry);
}

void see_memory_usage(std::string_view message, bool force) {
  const ConfigurationPtr configuration = engine_internal::current_configuration();
  if (force || (configuration && configuration->profiling)) {
    std::cerr << message << '\n' << memory_report().to_string() << std::flush;
  }
}

}  // namespace reprise
