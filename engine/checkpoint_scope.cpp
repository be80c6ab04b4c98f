// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/checkpoint_scope.h"

#include <stdexcept>
#include <utility>

#include "reprise/engine/region/forward_region.h"

namespace reprise {

using engine_internal::ForwardRegion;

CheckpointScope::CheckpointScope(CheckpointOptions options) {
  if (options.min_input_bytes > 0) {
    throw std::invalid_argument(
        "[engine.checkpoint_scope] min_input_bytes is set, but a scope has no inputs whose bytes "
        "it "
        "could count; compare them where the scope begins");
  }
  options.replay = ReplayMode::kTape;
  if (ForwardRegion::is_needed(options)) {
    region_ = std::make_unique<ForwardRegion>(std::move(options));
  }
}

// An enclosing region may end its replay here, by an exception.
CheckpointScope::CheckpointScope(std::nullptr_t /*no region*/) {}

CheckpointScope::~CheckpointScope() noexcept(false) { std::move(*this).close(); }

void CheckpointScope::close() && {
  if (const auto region = std::exchange(region_, nullptr)) {
    region->finish();
  }
}

}  // namespace reprise
