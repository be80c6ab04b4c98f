// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/rng/rng_fork_guard.h"

#include <algorithm>
#include <exception>

#include "reprise/rng/generators/warnings.h"
#include "reprise/rng/tracker/tracker_snapshot.h"

namespace reprise {

RngForkGuard::RngForkGuard(const RngSnapshot& start) {
  before_.reserve(start.states().size());
  for (const RngState& state : start.states()) {
    before_.push_back(RngState::capture(state.generator()));
  }
  try {
    for (const RngState& state : start.states()) state.restore();
    if (start.trackers_) {
      trackers_ = std::make_unique<rng_internal::ReplayedTrackers>(*start.trackers_);
    }
  } catch (...) {
    put_back();
    throw;
  }
}

RngForkGuard::RngForkGuard(const std::vector<at::Generator>& generators) {
  for (const at::Generator& generator : generators) {
    const auto is_same = [&](const RngState& state) { return state.generator() == generator; };
    if (!generator.defined() || std::any_of(before_.begin(), before_.end(), is_same)) continue;
    before_.push_back(RngState::capture(generator));
  }
}

RngForkGuard::~RngForkGuard() { put_back(); }

void RngForkGuard::put_back() const noexcept {
  for (const RngState& state : before_) {
    try {
      state.restore();
    } catch (...) {
      rng_internal::warn_not_restored(state.device(), std::current_exception());
    }
  }
}

}  // namespace reprise
