// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The effect of an ActivationCheckpointingConfig on a region.
#ifndef REPRISE_ENGINE_REGION_CONFIGURATION_H_
#define REPRISE_ENGINE_REGION_CONFIGURATION_H_

#include <memory>
#include <optional>

#include "reprise/base/export.h"
#include "reprise/engine/checkpoint_options.h"
#include "reprise/engine/memory_report.h"
#include "reprise/hooks/seam/thread_stack.h"

namespace reprise::engine_internal {

// Immutable.
struct Configuration {
  std::shared_ptr<ActivationStore> input_store;  // null: as without a configuration
  bool synchronizes = false;
  std::unique_ptr<MemoryReportGuard> profiling;  // null: no profile
};

using ConfigurationPtr = std::shared_ptr<const Configuration>;

// This thread's guards.
hooks_internal::ThreadStack<ConfigurationPtr>& thread_configurations() noexcept;

// null: none, as at first.
void configure_process(ConfigurationPtr configuration);
bool is_process_configured() noexcept;

// Returns the configuration in force on this thread, or null.
REPRISE_API ConfigurationPtr current_configuration();

// Fills in the options that the caller left open from the configuration in force.
void apply_configuration(CheckpointOptions& options);

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_REGION_CONFIGURATION_H_
