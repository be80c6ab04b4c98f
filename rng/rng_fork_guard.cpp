// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/rng/rng_fork_guard.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <exception>

namespace reprise {
namespace {

void warn_not_restored(const RngState& state, const char* reason) noexcept {
  try {
    TORCH_WARN(
        "[rng.fork] a generator was not set back to where it stood before the fork; the one on ",
        state.device(), " refused: ", reason, "; set its seed before it is drawn from again");
  } catch (
      ...) {  // NOLINT(bugprone-empty-catch): a warning handler may throw, a destructor may not.
  }
}

}  // namespace

RngForkGuard::RngForkGuard(const RngSnapshot& start) {
  before_.reserve(start.states().size());
  for (const RngState& state : start.states()) {
    before_.push_back(RngState::capture(state.generator()));
  }
  try {
    for (const RngState& state : start.states()) state.restore();
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
    } catch (const std::exception& error) {
      warn_not_restored(state, error.what());
    } catch (...) {
      warn_not_restored(state, "unknown exception");
    }
  }
}

}  // namespace reprise
