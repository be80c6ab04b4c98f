// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/region/configuration.h"

#include <atomic>
#include <mutex>
#include <utility>

namespace reprise::engine_internal {
namespace {

std::atomic<bool> g_is_configured{false};  // read at each region's entry

struct Process {
  std::mutex mutex;
  ConfigurationPtr configuration;
};

Process& process() {
  static auto& instance = *new Process;
  return instance;
}

}  // namespace

hooks_internal::ThreadStack<ConfigurationPtr>& thread_configurations() noexcept {
  thread_local hooks_internal::ThreadStack<ConfigurationPtr> t_configurations;
  return t_configurations;
}

void configure_process(ConfigurationPtr configuration) {
  const std::lock_guard lock(process().mutex);
  g_is_configured = configuration != nullptr;
  process().configuration.swap(configuration);  // the old one is destroyed after the lock
}

bool is_process_configured() noexcept { return g_is_configured.load(std::memory_order_relaxed); }

ConfigurationPtr current_configuration() {
  if (const ConfigurationPtr* const guard = thread_configurations().innermost()) {
    return *guard;
  }
  if (!is_process_configured()) {
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

}  // namespace reprise::engine_internal
