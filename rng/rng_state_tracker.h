// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: rng_state_tracker.h
//
// Named states of the default generators, for training on several ranks: with tensor parallelism,
// dropout on replicated tensors must draw the same numbers on each rank, and dropout on sharded
// tensors different ones. The former draws from the default state, the latter inside a fork of a
// named state. Regions support it: a recomputation draws the numbers of forward inside and outside
// of forks, and leaves the trackers as backward found them.
//
// Not for operators that take a generator as an argument: pass your own. Not for a file: see
// rng_state.h.
//
// Example:
//
//   reprise::model_parallel_manual_seed(1234, tensor_parallel_rank);
//   h = torch::dropout(h, 0.1, true);  // the same numbers on each rank of a tensor-parallel group
//   {
//     const auto fork = reprise::default_rng_state_tracker().fork();
//     scores = torch::dropout(scores, 0.1, true);  // different numbers on each rank
//   }
//
// Thread-safety: a tracker is thread-safe. A fork affects the default generators, which belong to
// the process: threads that draw from one generator while one of them is in a fork draw from its
// stream. Threads with devices of their own may be in forks at once, provided that no two draw on
// the CPU.
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

// The name that `model_parallel_manual_seed` adds, as in Megatron-LM and DeepSpeed.
inline constexpr std::string_view kModelParallelRng = "model-parallel-rng";

// A named state: a stream of random numbers per generator. On a generator that it has not been
// drawn from yet, the stream starts as if the generator were seeded with `seed`.
struct NamedRngState {
  std::uint64_t seed = 0;
  std::vector<RngState> generators;  // of the generators that it has been drawn from

  friend bool operator==(const NamedRngState&, const NamedRngState&) = default;
};

// While alive, the generators draw from a named state; see `RngStateTracker::fork`. Must be
// destroyed on the thread that constructed it, before forks that were begun there earlier.
class [[nodiscard]] REPRISE_API RngTrackerForkGuard {
 public:
  // Saves the named state, and restores the generators to their states before the fork, also if the
  // scope is left by an exception. A generator that refuses is named in a warning (TORCH_WARN); the
  // others are still restored.
  ~RngTrackerForkGuard();
  RngTrackerForkGuard(const RngTrackerForkGuard&) = delete;
  RngTrackerForkGuard& operator=(const RngTrackerForkGuard&) = delete;

 private:
  friend class RngStateTracker;
  [[nodiscard]] explicit RngTrackerForkGuard(std::unique_ptr<rng_internal::Fork> fork);

  std::unique_ptr<rng_internal::Fork> fork_;
};

// After Megatron-LM's `CudaRNGStatesTracker` (megatron/core/tensor_parallel/random.py) and
// DeepSpeed's (runtime/activation_checkpointing/checkpointing.py). Unlike in the latter, nested
// forks of one name continue the stream (there they draw the same numbers twice), and set_states()
// validates; unlike in both, the CPU's generator is included.
//
// A recomputation has private copies of the trackers: changes by the region's code apply to the
// copies.
class REPRISE_API RngStateTracker {
 public:
  using States = std::map<std::string, NamedRngState, std::less<>>;

  // Constructs a tracker without names.
  RngStateTracker();
  ~RngStateTracker();
  RngStateTracker(const RngStateTracker&) = delete;
  RngStateTracker& operator=(const RngStateTracker&) = delete;

  // Adds a named state. Accesses no generator and no device.
  //
  // Throws: std::invalid_argument if the name or the seed is in use: two names with one seed would
  //   draw the same numbers.
  void add(std::string name, std::uint64_t seed);

  // While the returned guard is alive, the CPU's default generator and that of the accelerator's
  // current device draw from the named state. Forks nest: re-entering a name that is active, at any
  // nesting depth, continues its stream, and the outer fork resumes after it, so no number is drawn
  // twice. A fork does not initialise an idle device; one that is initialised inside a fork draws
  // from the named state as well. Costs a few copies of the CPU generator's 2.5 KB, and a few
  // integers for a Philox generator.
  //
  // Seeding inside a fork (torch::manual_seed) seeds the named state. Another current device inside
  // needs a fork of its own. LibTorch refuses a fork while a CUDA graph is captured, because it
  // changes the seed.
  //
  // Throws: std::invalid_argument for an unknown name; as `RngState`, and then the generators are
  //   unchanged.
  // Stream: does not synchronise.
  RngTrackerForkGuard fork(std::string_view name = kModelParallelRng);

  // Returns the named states, without the draws of active forks. Cheap to copy.
  [[nodiscard]] States states() const;

  // Replaces all names and states. An active fork saves its state at its end if the name still
  // exists with the same seed.
  //
  // Throws: std::invalid_argument if two names have one seed; then nothing is changed.
  void set_states(States states);

  // Removes all names. An active fork ends as usual, without saving its state.
  void reset();

 private:
  std::shared_ptr<rng_internal::StateTable> table_;
};

// Returns the tracker of the process, which is never destroyed. Megatron-LM's
// `get_cuda_rng_tracker()`.
REPRISE_API RngStateTracker& default_rng_state_tracker();

// Seeds a rank, instead of `torch::manual_seed`: the default generators of the CPU and of all
// devices of the accelerator with `seed`, and `tracker`, after a reset(), with the name
// `kModelParallelRng` and the seed `seed + 2718 + tensor_parallel_rank`. After Megatron-LM's
// `model_parallel_cuda_manual_seed`. Does not initialise an idle device. To be called outside of
// forks.
//
// seed: the same on all ranks of a tensor-parallel group; different in each data-parallel replica,
//   unless the replicas may share dropout masks.
// tensor_parallel_rank: of this process in its tensor-parallel group, from 0.
//
// Throws: std::invalid_argument if the rank is negative.
REPRISE_API void model_parallel_manual_seed(std::uint64_t seed, std::int64_t tensor_parallel_rank,
                                            RngStateTracker& tracker = default_rng_state_tracker());

}  // namespace reprise

#endif  // REPRISE_RNG_RNG_STATE_TRACKER_H_
