// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: activation_checkpointing_config.h
//
// DeepSpeed's section `activation_checkpointing`, by its own key names, for all regions at once:
// what it asks for is made of our stores and options.
//
// Not for regions that want something of their own: `CheckpointOptions` says it for one region, and
// comes first.
//
// Example:
//
//   const auto config = reprise::ActivationCheckpointingConfig::from_json_file("ds_config.json");
//   reprise::configure_checkpointing(config, reprise::stores::partitioned(tensor_parallel_group));
//   h = reprise::checkpoint(block, h);  // its input is partitioned, offloaded, ... as configured
//
// Thread-safety: configure_checkpointing(), is_configured() and reset() are thread-safe; a
// ConfigurationGuard concerns its thread.
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
  // Each rank of the tensor-parallel group keeps a part of what all hold alike:
  // `stores::partitioned(group)`, which configure_checkpointing() is given.
  bool partition_activations = false;

  // What is kept goes to the host: `stores::host()`.
  bool cpu_checkpointing = false;

  // What is kept on the device lies in one piece: `stores::slab()`. With cpu_checkpointing, which
  // keeps nothing there, the host's buffers are used again by each step in any case.
  bool contiguous_memory_optimization = false;

  // How many tensors the first slab has room for. Without it the first step finds out.
  std::optional<std::int64_t> number_checkpoints = std::nullopt;

  // `CheckpointOptions::synchronize_boundary`.
  bool synchronize_checkpoint_boundary = false;

  // Times and bytes of each region in `memory_report()`: a `MemoryReportGuard`.
  bool profile = false;

  // The section of that name in DeepSpeed's configuration, or the section alone. Keys that are not
  // there keep their defaults, as does a `null`.
  //
  // Throws std::invalid_argument, which names the key, for one that is unknown and for a value of
  // another type; for text that is no JSON object, with the place.
  [[nodiscard]] REPRISE_API static ActivationCheckpointingConfig from_json(std::string_view json);
  // The same of a file. Throws std::invalid_argument if it cannot be read.
  [[nodiscard]] REPRISE_API static ActivationCheckpointingConfig from_json_file(
      const std::string& path);

  friend bool operator==(const ActivationCheckpointingConfig&,
                         const ActivationCheckpointingConfig&) = default;
};

// What has been said, of a configuration: the rest stays. For the arguments of a program, which
// override its file.
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

// From now on, for each region of the process whose forward starts and that has no `input_store` of
// its own. A second call replaces the first.
//
// partitioned: for partition_activations, `stores::partitioned(group)`; else null.
//
// Throws std::invalid_argument, which names the key: partition_activations without `partitioned`,
// or the other way round; number_checkpoints without contiguous_memory_optimization, or below 1.
REPRISE_API void configure_checkpointing(const ActivationCheckpointingConfig& config,
                                         std::shared_ptr<ActivationStore> partitioned = nullptr);
// Whether configure_checkpointing() was called, and reset() was not since.
[[nodiscard]] REPRISE_API bool is_configured();
// As if never configured. Regions whose forward has run keep what they have.
REPRISE_API void reset_configuration();

// While alive, the same for the regions whose forward starts on this thread; the innermost guard
// wins over others and over configure_checkpointing(). Throws what configure_checkpointing()
// throws.
class [[nodiscard]] REPRISE_API ConfigurationGuard {
 public:
  explicit ConfigurationGuard(const ActivationCheckpointingConfig& config,
                              std::shared_ptr<ActivationStore> partitioned = nullptr);
  ~ConfigurationGuard();
  ConfigurationGuard(const ConfigurationGuard&) = delete;
  ConfigurationGuard& operator=(const ConfigurationGuard&) = delete;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// `memory_report().to_string()` below a line with `message`, to the standard error stream, if
// `force`, or if a configuration with `profile` is in force here: DeepSpeed's see_memory_usage.
REPRISE_API void see_memory_usage(std::string_view message, bool force = false);

}  // namespace reprise

#endif  // REPRISE_ENGINE_ACTIVATION_CHECKPOINTING_CONFIG_H_
