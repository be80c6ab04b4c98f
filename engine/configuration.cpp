// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/region/configuration.h"

#include <atomic>
#include <iostream>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>

#include "reprise/engine/activation_checkpointing_config.h"
#include "reprise/hooks/host_store.h"
#include "reprise/hooks/seam/thread_stack.h"
#include "reprise/hooks/slab_store.h"

namespace reprise {

using engine_internal::Configuration;

namespace {

using ConfigurationPtr = std::shared_ptr<const Configuration>;

thread_local hooks_internal::ThreadStack<ConfigurationPtr> t_configurations;

std::atomic<bool> g_is_configured{false};  // read at each region's entry

struct Process {
  std::mutex mutex;
  ConfigurationPtr configuration;
};

Process& process() {
  static auto& instance = *new Process;
  return instance;
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

void replace(ConfigurationPtr configuration) {
  const std::lock_guard lock(process().mutex);
  g_is_configured = configuration != nullptr;
  process().configuration.swap(configuration);  // the old one is destroyed after the lock
}

}  // namespace

void configure_checkpointing(const ActivationCheckpointingConfig& config,
                             std::shared_ptr<ActivationStore> partitioned) {
  replace(make(config, std::move(partitioned)));
}

bool is_configured() { return g_is_configured; }

void reset_configuration() { replace(nullptr); }

struct ConfigurationGuard::State {
  hooks_internal::ThreadStackEntryPtr entry;
};

ConfigurationGuard::ConfigurationGuard(const ActivationCheckpointingConfig& config,
                                       std::shared_ptr<ActivationStore> partitioned)
    : state_(std::make_unique<State>()) {
  state_->entry = t_configurations.push(make(config, std::move(partitioned)));
}

ConfigurationGuard::~ConfigurationGuard() { t_configurations.end(*state_->entry); }

void see_memory_usage(std::string_view message, bool force) {
  const ConfigurationPtr configuration = engine_internal::current_configuration();
  if (force || (configuration && configuration->profiling)) {
    std::cerr << message << '\n' << memory_report().to_string() << std::flush;
  }
}

namespace engine_internal {

ConfigurationPtr current_configuration() {
  if (const ConfigurationPtr* const guard = t_configurations.innermost()) {
    return *guard;
  }
  if (!g_is_configured.load(std::memory_order_relaxed)) {
    return nullptr;
  }
  const std::lock_guard lock(process().mutex);
  return process().configuration;
}

void apply_configuration(CheckpointOptions& options) {
  if (const ConfigurationPtr configuration = current_configuration()) {
    if (!options.input_store) {
      options.input_store = configuration->input_store;
    }
    options.synchronize_boundary |= configuration->synchronizes;
  }
}

}  // namespace engine_internal
}  // namespace reprise
