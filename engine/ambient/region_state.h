// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The state of a region's forward that each replay restores.
#ifndef REPRISE_ENGINE_AMBIENT_REGION_STATE_H_
#define REPRISE_ENGINE_AMBIENT_REGION_STATE_H_

#include <memory>
#include <optional>

#include "reprise/engine/ambient/ambient_state.h"
#include "reprise/engine/ambient/region_streams.h"
#include "reprise/engine/checkpoint_options.h"
#include "reprise/rng/rng_fork_guard.h"
#include "reprise/rng/rng_state.h"

namespace reprise::engine_internal {

// Enters a user's context, and exits it on destruction.
class ContextScope {
 public:
  explicit ContextScope(std::shared_ptr<RegionContext> context) {
    if (context) {
      context->enter();
      entered_ = std::move(context);
    }
  }
  ~ContextScope() {
    if (entered_) {
      entered_->exit();
    }
  }
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;

 private:
  std::shared_ptr<RegionContext> entered_;
};

struct RegionState {
  AmbientState ambient;
  RegionStreams streams;  // for the session of a replay
  std::optional<RngSnapshot> rng;
  std::shared_ptr<RegionContext> recompute_context;
};

// Sets the calling thread to forward's state; the destructor restores the previous state.
class RegionStateGuard {
 public:
  using Body = AmbientStateGuard::Body;

  explicit RegionStateGuard(const RegionState& state, Body body = Body::kMayChange)
      : ambient_(state.ambient, body) {
    if (state.rng) {
      rng_.emplace(*state.rng);
    }
    context_.emplace(state.recompute_context);
  }

 private:
  AmbientStateGuard ambient_;
  std::optional<RngForkGuard> rng_;
  std::optional<ContextScope> context_;
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_AMBIENT_REGION_STATE_H_
