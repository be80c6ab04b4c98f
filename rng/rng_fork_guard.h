// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: rng_fork_guard.h
//
// Lets a scope draw random numbers, or set generators, without the code after it noticing: when the
// guard goes, the generators are back where they were. A replay is such a scope.
//
// Not for several threads that draw from one generator: what others draw meanwhile is taken back.
//
// Example:
//
//   {
//     reprise::RngForkGuard fork({at::detail::getDefaultCPUGenerator()});
//     torch::manual_seed(0);
//     fill_with_noise(buffer);
//   }  // the training's random stream goes on as if nothing had happened
//
// Thread-safety: thread-compatible; each access to a generator takes its mutex.
#ifndef REPRISE_RNG_RNG_FORK_GUARD_H_
#define REPRISE_RNG_RNG_FORK_GUARD_H_

#include <ATen/core/Generator.h>
#include <c10/util/SmallVector.h>

#include <memory>
#include <vector>

#include "reprise/base/export.h"
#include "reprise/rng/rng_state.h"

namespace reprise {

namespace rng_internal {
class ReplayedTrackers;
}

// While alive, its generators may be moved freely; the destructor sets them back to where they were
// when the guard was made, also when the scope is left by an exception. A generator that refuses is
// named in a warning (TORCH_WARN), the others are still set back. Nothing is synchronised.
class [[nodiscard]] REPRISE_API RngForkGuard {
 public:
  // Remembers where the generators of `start` stand now, and then sets them to the states of
  // `start`. While the guard is alive, this thread sees the named states of each `RngStateTracker`
  // as `start` has them, and what it does to them concerns nobody else. `start` need not outlive
  // the guard. Throws what `RngState::capture` and `RngState::restore` throw; the generators that
  // were set already are then back where they were.
  explicit RngForkGuard(const RngSnapshot& start);

  // Remembers where `generators` stand, and changes nothing. Undefined generators and repeated ones
  // are passed over. Throws what `RngState::capture` throws.
  explicit RngForkGuard(const std::vector<at::Generator>& generators);

  ~RngForkGuard();
  RngForkGuard(const RngForkGuard&) = delete;
  RngForkGuard& operator=(const RngForkGuard&) = delete;

 private:
  void put_back() const noexcept;

  c10::SmallVector<RngState, 2> before_;
  std::unique_ptr<rng_internal::ReplayedTrackers> trackers_;  // null: none to restore
};

}  // namespace reprise

#endif  // REPRISE_RNG_RNG_FORK_GUARD_H_
