// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: rng_fork_guard.h
//
// Lets a scope draw random numbers, or set generators, without an effect on the code after it: the
// guard restores the generators when it is destroyed. A recomputation is such a scope.
//
// Not for several threads that draw from one generator: draws of other threads are undone as well.
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

// Restores its generators on destruction to their states at construction, also if the scope is left
// by an exception. A generator that refuses is named in a warning (TORCH_WARN); the others are
// still restored. Does not synchronise.
class [[nodiscard]] REPRISE_API RngForkGuard {
 public:
  // Captures the present states of the generators of `start`, and then sets them to the states of
  // `start`. While the guard is alive, this thread sees the named states of each `RngStateTracker`
  // as in `start`, and its changes to them are private. `start` need not outlive the guard.
  //
  // Throws: as `RngState::capture` and `RngState::restore`; generators that were set already are
  //   then restored.
  [[nodiscard]] explicit RngForkGuard(const RngSnapshot& start);

  // Captures the states of `generators` and changes nothing. Undefined and repeated generators are
  // ignored.
  //
  // Throws: as `RngState::capture`.
  [[nodiscard]] explicit RngForkGuard(const std::vector<at::Generator>& generators);

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
