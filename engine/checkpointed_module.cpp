// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/checkpointed.h"

#include <c10/util/StringUtil.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "reprise/engine/checkpointed_module.h"
#include "reprise/engine/errors.h"

namespace reprise {

CheckpointedModule::CheckpointedModule() noexcept = default;

CheckpointedModule::CheckpointedModule(std::optional<CheckpointOptions> options) noexcept
    : options_(std::move(options)) {}

CheckpointedModule::CheckpointedModule(const CheckpointedModule&) = default;

CheckpointedModule& CheckpointedModule::operator=(const CheckpointedModule&) = default;

CheckpointedModule::~CheckpointedModule() = default;

void CheckpointedModule::set_checkpoint_options(std::optional<CheckpointOptions> options) noexcept {
  options_ = std::move(options);
}

const std::optional<CheckpointOptions>& CheckpointedModule::checkpoint_options() const noexcept {
  return options_;
}

CheckpointScope CheckpointedModule::checkpoint_scope() const {
  return options_ ? CheckpointScope(*options_) : CheckpointScope(nullptr);
}

CheckpointScope CheckpointedModule::checkpoint_scope(const at::Tensor& input) const {
  if (!options_ || options_->min_input_bytes == 0) {
    return checkpoint_scope();
  }
  const std::int64_t bytes = engine_internal::tensor_bytes<at::Tensor>(input);
  if (bytes < options_->min_input_bytes) {
    return CheckpointScope(nullptr);
  }
  CheckpointOptions options = *options_;
  options.min_input_bytes = 0;
  return CheckpointScope(std::move(options));
}

}  // namespace reprise
