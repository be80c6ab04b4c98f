// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: rng_state_tracker.h
//
// Named states of the default generators, for training on several ranks: with tensor parallelism,
// dropout on what all ranks hold alike must draw the same numbers on each rank, and dropout on what
// a rank holds a part of must draw numbers of its own. The one draws from the default state, the
// other inside a fork of a named state. Regions know of it: a replay draws inside and outside of
// forks what forward drew, and leaves the trackers as backward found them.
//
// Not where an operator takes a generator as an argument: pass one of your own. Not for a file: see
// rng_state.h.
//
// Example:
//
//   reprise::model_parallel_manual_seed(1234, tensor_parallel_rank);
//   h = torch::dropout(h, 0.1, true);  // the same on each rank of a tensor-parallel group
//   {
//     const auto fork = reprise::default_rng_state_tracker().fork();
//     scores = torch::dropout(scores, 0.1, true);  // another on each rank
//   }
//
// Thread-safety: a tracker is thread-safe. A fork concerns the default generators, which belong to
// the process: threads that draw from one generator while one of them is in a fork get numbers of
// its stream. Threads that use devices of their own may be in forks at once, as long as no two draw
// on the CPU.
//
// Gradients: nothing here is recorded by autograd or seen by the dispatcher.
#ifndef REPRISE_RNG_RNG_STATE_TRACKER_H_
#define REPRISE_RNG_RNG_STATE_TRACKER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/base/export.h"
#include "reprise/rng/rng_state.h"

namespace reprise {

namespace rng_internal {
class Fork;
class StateTable;
}  // namespace rng_internal

// The name that `model_parallel_manual_seed` adds; that of Megatron-LM and DeepSpeed.
inline constexpr std::string_view kModelParallelRng = "model-parallel-rng";

// A named state: a stream of random numbers for each generator. On a generator that it has not been
// drawn from yet, it starts as if that were seeded with `seed`.
struct NamedRngState {
  std::uint64_t seed = 0;
  std::vector<RngState> generators;  // where it stands on those that it has been drawn from

  friend bool operator==(const NamedRngState&, const NamedRngState&) = default;
};

// While alive, the generators draw from a named state; see `RngStateTracker::fork`. Must end on the
// thread that made it, before the forks that were made there earlier.
class [[nodiscard]] REPRISE_API RngTrackerForkGuard {
 public:
  // Keeps where the named state stands now, and sets the generators back to where they stood before
  // the fork, also if the scope is left by an exception. A generator that refuses is named in a
  // warning (TORCH_WARN), the others are still set back.
  ~RngTrackerForkGuard();
  RngTrackerForkGuard(const RngTrackerForkGuard&) = delete;
  RngTrackerForkGuard& operator=(const RngTrackerForkGuard&) = delete;

 private:
  friend class RngStateTracker;
  explicit RngTrackerForkGuard(std::unique_ptr<rng_internal::Fork> fork);

  std::unique_ptr<rng_internal::Fork> fork_;
};

// After Megatron-LM's `CudaRNGStatesTracker` (megatron/core/tensor_parallel/random.py) and
// DeepSpeed's (runtime/activation_checkpointing/checkpointing.py). Other than in the latter, forks
// of one name inside each other go on with the stream (there they draw the same numbers twice), and
// set_states() checks; other than in both, the CPU's generator takes part.
//
// A region's replay has copies of the trackers that only its thread sees: whatever the region's
// code does to them in a replay, it does to those.
class REPRISE_API RngStateTracker {
 public:
  using States = std::map<std::string, NamedRngState, std::less<>>;

  // Without names.
  RngStateTracker();
  ~RngStateTracker();
  RngStateTracker(const RngStateTracker&) = delete;
  RngStateTracker& operator=(const RngStateTracker&) = delete;

  // Adds a named state. No generator is touched and no device asked.
  //
  // Throws std::invalid_argument if the name, or the seed, is taken: two names with one seed would
  // draw the same numbers.
  void add(std::string name, std::uint64_t seed);

  // From now until the guard goes, the CPU's default generator and that of the accelerator's
  // current device draw from the named state. Forks nest. One of a name that is active already, be
  // it right inside or further in, goes on where the stream stands, and the outer one goes on
  // behind it: no number is drawn twice. A fork wakes no device; one that comes into use inside of
  // it draws from the named state as well. Nothing is synchronised. Costs a few copies of the CPU
  // generator's 2.5 KB, and a few integers for a Philox generator.
  //
  // Seeding inside a fork (torch::manual_seed) seeds the named state. Changing the current device
  // inside takes a fork of its own. While a CUDA graph is captured a fork is refused by LibTorch,
  // because it changes the seed.
  //
  // Throws std::invalid_argument if there is no such name; what the functions of `RngState` throw,
  // and then the generators are as they were.
  RngTrackerForkGuard fork(std::string_view name = kModelParallelRng);

  // The named states as they stand, except that those of active forks have not been kept yet. Cheap
  // to copy.
  [[nodiscard]] States states() const;

  // Replaces all names and states. At the end of a fork that is active, its state is kept if the
  // name is still there with the same seed.
  //
  // Throws std::invalid_argument if two names have one seed; then nothing is changed.
  void set_states(States states);

  // Removes all names. An active fork ends as ever, but its state is dropped.
  void reset();

 private:
  std::shared_ptr<rng_internal::StateTable> table_;
};

// The tracker of the process, as default generators are the process's; Megatron-LM's
// `get_cuda_rng_tracker()`. Never freed.
REPRISE_API RngStateTracker& default_rng_state_tracker();

// Seeds a rank, in place of `torch::manual_seed`: the default generators of the CPU and of all
// devices of the accelerator with `seed`, which ranks of one tensor-parallel group share; and
// `tracker`, after a reset(), with the name `kModelParallelRng` and the seed
// `seed + 2718 + tensor_parallel_rank`. After Megatron-LM's `model_parallel_cuda_manual_seed`.
// Wakes no device. To be called outside of forks.
//
// seed: the same on all ranks of a tensor-parallel group; another in each data-parallel replica, or
//   the same, if the replicas' dropout may be.
// tensor_parallel_rank: of this process in its tensor-parallel group, from 0.
//
// Throws std::invalid_argument if the rank is negative.
REPRISE_API void model_parallel_manual_seed(std::uint64_t seed, std::int64_t tensor_parallel_rank,
                                            RngStateTracker& tracker = default_rng_state_tracker());

}  // namespace reprise

#endif  // REPRISE_RNG_RNG_STATE_TRACKER_H_
