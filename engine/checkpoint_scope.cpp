// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/checkpoint_scope.h"

#include <stdexcept>
#include <utility>

#include "reprise/engine/function/early_stop.h"
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
  if (ForwardRegion::prepare(options)) {
    region_ = std::make_unique<ForwardRegion>(std::move(options));
  }
}

CheckpointScope::CheckpointScope(std::nullptr_t /*no region*/) {}

CheckpointScope::~CheckpointScope() noexcept(false) {
  const engine_internal::EarlyStopDeferral in_destructor;  // of an enclosing region's replay
  std::move(*this).close();
}

void CheckpointScope::close() && {
  if (const auto region = std::exchange(region_, nullptr)) {
    region->finish();
  }
}

}  // namespace reprise
