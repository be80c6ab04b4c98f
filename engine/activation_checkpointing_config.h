// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: activation_checkpointing_config.h
//
// DeepSpeed's configuration section `activation_checkpointing`, with its own key names, applied to
// all regions: each key maps to a store or an option of Reprise.
//
// Not for the settings of one region: use `CheckpointOptions`, which take precedence.
//
// Example:
//
//   const auto config = reprise::ActivationCheckpointingConfig::from_json_file("ds_config.json");
//   reprise::configure_checkpointing(config, reprise::stores::partitioned(tensor_parallel_group));
//   h = reprise::checkpoint(block, h);  // its input is partitioned, offloaded, ... as configured
//
// Thread-safety: configure_checkpointing(), is_configured() and reset_configuration() are
// thread-safe; a ConfigurationGuard affects its thread only.
#ifndef REPRISE_ENGINE_ACTIVATION_CHECKPOINTING_CONFIG_H_
#define REPRISE_ENGINE_ACTIVATION_CHECKPOINTING_CONFIG_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "reprise/base/export.h"
#include "reprise/hooks/activation_store.h"

namespace reprise {

struct ActivationCheckpointingConfig {
  // Shards each input across the ranks of the tensor-parallel group, on which it is replicated:
  // `stores::partitioned(group)`, to be passed to configure_checkpointing().
  bool partition_activations = false;

  // Stores tensors on the host: `stores::host()`.
  bool cpu_checkpointing = false;

  // Stores tensors in one contiguous piece of device memory: `stores::slab()`. No effect with
  // cpu_checkpointing, which stores none there and reuses the host's buffers in each step.
  bool contiguous_memory_optimization = false;

  // Capacity of the first slab, in tensors. Determined by the first step if unset.
  std::optional<std::int64_t> number_checkpoints = std::nullopt;

  // `CheckpointOptions::synchronize_boundary`.
  bool synchronize_checkpoint_boundary = false;

  // Times and bytes of each region in `memory_report()`: a `MemoryReportGuard`.
  bool profile = false;

  // Parses a DeepSpeed configuration with this section, or the section alone. Missing keys and
  // `null` mean the default.
  //
  // Throws: std::invalid_argument that names the key if it is unknown or its value has another
  // type; with the position if the text is not a JSON object.
  [[nodiscard]] REPRISE_API static ActivationCheckpointingConfig from_json(std::string_view json);
  // The same for a file. Throws: also std::invalid_argument if it cannot be read.
  [[nodiscard]] REPRISE_API static ActivationCheckpointingConfig from_json_file(
      const std::string& path);

  friend bool operator==(const ActivationCheckpointingConfig&,
                         const ActivationCheckpointingConfig&) = default;
};

// The keys of a configuration to override; unset ones are unchanged. For a program's arguments,
// which override its configuration file.
struct ActivationCheckpointingOverrides {
  std::optional<bool> partition_activations = std::nullopt;
  std::optional<bool> cpu_checkpointing = std::nullopt;
  std::optional<bool> contiguous_memory_optimization = std::nullopt;
  std::optional<std::int64_t> number_checkpoints = std::nullopt;
  std::optional<bool> synchronize_checkpoint_boundary = std::nullopt;
  std::optional<bool> profile = std::nullopt;
};
[[nodiscard]] REPRISE_API ActivationCheckpointingConfig with_overrides(
    ActivationCheckpointingConfig config, const ActivationCheckpointingOverrides& overrides);

// Applies to each region of the process whose forward starts from now on and that has no
// `input_store` of its own. A second call replaces the first.
//
// partitioned: `stores::partitioned(group)` for partition_activations, otherwise null.
//
// Throws: std::invalid_argument that names the key, if partition_activations is set without
// `partitioned` or vice versa; if number_checkpoints is set without contiguous_memory_optimization,
// or below 1.
REPRISE_API void configure_checkpointing(const ActivationCheckpointingConfig& config,
                                         std::shared_ptr<ActivationStore> partitioned = nullptr);
// Returns whether configure_checkpointing() was called and not reset since.
[[nodiscard]] REPRISE_API bool is_configured();
// Removes the configuration. Regions whose forward has run are unaffected.
REPRISE_API void reset_configuration();

// While alive, does the same for regions whose forward starts on this thread. The innermost guard
// takes precedence over others and over configure_checkpointing().
//
// Throws: as configure_checkpointing().
class [[nodiscard]] REPRISE_API ConfigurationGuard {
 public:
  [[nodiscard]] explicit ConfigurationGuard(const ActivationCheckpointingConfig& config,
                                            std::shared_ptr<ActivationStore> partitioned = nullptr);
  ~ConfigurationGuard();
  ConfigurationGuard(const ConfigurationGuard&) = delete;
  ConfigurationGuard& operator=(const ConfigurationGuard&) = delete;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Prints `message` and `memory_report().to_string()` to the standard error stream if `force` is set
// or a configuration with `profile` is in force here. After DeepSpeed's see_memory_usage.
REPRISE_API void see_memory_usage(std::string_view message, bool force = false);

}  // namespace reprise

#endif  // REPRISE_ENGINE_ACTIVATION_CHECKPOINTING_CONFIG_H_
