// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: checkpoint_options_builder.h
//
// Sets `CheckpointOptions` in any order, which designated initialisers do not allow.
//
// Not needed for one or two options in the order of their declaration: `{.name = "block"}`.
//
// Example:
//
//   const auto options = reprise::CheckpointOptionsBuilder()
//                            .determinism_check(reprise::DeterminismCheck::kValues)
//                            .policy(reprise::policies::save_matmuls())
//                            .build();
//   auto y = reprise::checkpoint(options, block, x);
//
// Thread-safety: a value; thread-compatible.
#ifndef REPRISE_ENGINE_CHECKPOINT_OPTIONS_BUILDER_H_
#define REPRISE_ENGINE_CHECKPOINT_OPTIONS_BUILDER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "reprise/engine/checkpoint_options.h"

namespace reprise {

// Each function sets the field of its name, see `CheckpointOptions`, and returns the builder.
class CheckpointOptionsBuilder {
 public:
  CheckpointOptionsBuilder() = default;
  // Starts from existing options.
  explicit CheckpointOptionsBuilder(CheckpointOptions options) : options_(std::move(options)) {}

  [[nodiscard]] CheckpointOptions build() const { return options_; }

  CheckpointOptionsBuilder& name(std::string value) { return set(options_.name, std::move(value)); }
  CheckpointOptionsBuilder& policy(PolicyHolder value) {
    return set(options_.policy, std::move(value));
  }
  CheckpointOptionsBuilder& replay(ReplayMode value) {
    return set(options_.replay, std::move(value));
  }
  CheckpointOptionsBuilder& fill(TapeFill value) { return set(options_.fill, std::move(value)); }
  CheckpointOptionsBuilder& min_input_bytes(std::int64_t value) {
    return set(options_.min_input_bytes, std::move(value));
  }
  CheckpointOptionsBuilder& preserve_rng_state(bool value) {
    return set(options_.preserve_rng_state, std::move(value));
  }
  CheckpointOptionsBuilder& early_stop(bool value) {
    return set(options_.early_stop, std::move(value));
  }
  CheckpointOptionsBuilder& determinism_check(DeterminismCheck value) {
    return set(options_.determinism_check, std::move(value));
  }
  CheckpointOptionsBuilder& determinism_fn(std::function<std::string(const at::Tensor&)> value) {
    return set(options_.determinism_fn, std::move(value));
  }
  CheckpointOptionsBuilder& debug(bool value) { return set(options_.debug, std::move(value)); }
  CheckpointOptionsBuilder& allow_external_mutation(bool value) {
    return set(options_.allow_external_mutation, std::move(value));
  }
  CheckpointOptionsBuilder& copied_state_limit_bytes(std::int64_t value) {
    return set(options_.copied_state_limit_bytes, std::move(value));
  }
  CheckpointOptionsBuilder& allow_cache_entry_mutation(bool value) {
    return set(options_.allow_cache_entry_mutation, std::move(value));
  }
  CheckpointOptionsBuilder& respect_saved_tensors_hooks(bool value) {
    return set(options_.respect_saved_tensors_hooks, std::move(value));
  }
  CheckpointOptionsBuilder& input_store(std::shared_ptr<ActivationStore> value) {
    return set(options_.input_store, std::move(value));
  }
  CheckpointOptionsBuilder& prefetch_depth(int value) {
    return set(options_.prefetch_depth, std::move(value));
  }
  CheckpointOptionsBuilder& synchronize_boundary(bool value) {
    return set(options_.synchronize_boundary, std::move(value));
  }
  CheckpointOptionsBuilder& generators(std::vector<at::Generator> value) {
    return set(options_.generators, std::move(value));
  }
  CheckpointOptionsBuilder& context_fn(std::function<RegionContexts()> value) {
    return set(options_.context_fn, std::move(value));
  }

 private:
  template <class Field>
  CheckpointOptionsBuilder& set(Field& field, Field value) {
    field = std::move(value);
    return *this;
  }

  CheckpointOptions options_;
};

}  // namespace reprise

#endif  // REPRISE_ENGINE_CHECKPOINT_OPTIONS_BUILDER_H_
