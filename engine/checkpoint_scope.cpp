// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/checkpoint_scope.h"

#include <utility>

#include "reprise/engine/region/forward_region.h"

namespace reprise {

using engine_internal::ForwardRegion;

CheckpointScope::CheckpointScope(CheckpointOptions options) {
  options.replay = ReplayMode::kTape;
  if (ForwardRegion::is_needed(options)) {
    region_ = std::make_unique<ForwardRegion>(std::move(options));
  }
}

// An enclosing region may end its replay here, by an exception.
CheckpointScope::~CheckpointScope() noexcept(false) { std::move(*this).close(); }

void CheckpointScope::close() && {
  if (const auto region = std::exchange(region_, nullptr)) {
    region->finish();
  }
}

}  // namespace reprise
