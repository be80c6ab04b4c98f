// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: rng_state.h
//
// States of random number generators as values: `RngState` for one generator, `RngSnapshot` for all
// that a region may draw from. The default CPU generator costs one copy of its 2.5 KB; Philox
// generators (CUDA, XPU, MPS) are two integers, without a tensor or synchronisation.
//
// Not for independent random streams (make a generator of your own), nor for a file: a state
// belongs to the generator object that it was captured from.
//
// Example:
//
//   const auto start = reprise::RngState::capture(at::detail::getDefaultCPUGenerator());
//   at::Tensor mask = at::rand({4, 4});
//   start.restore();
//   assert(at::equal(mask, at::rand({4, 4})));
//
// Thread-safety: thread-compatible. Each access to a generator takes that generator's mutex, as
// LibTorch's operators do; draws of other threads between two accesses are not blocked.
//
// Gradients: nothing here is recorded by autograd or seen by the dispatcher.
#ifndef REPRISE_RNG_RNG_STATE_H_
#define REPRISE_RNG_RNG_STATE_H_

#include <ATen/core/Generator.h>
#include <c10/util/SmallVector.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <variant>

#include "reprise/base/export.h"

namespace reprise {

namespace rng_internal {
class Fork;
class TrackerSnapshot;
}  // namespace rng_internal

// The state of one generator at one moment, and the generator. Immutable and cheap to copy: copies
// share large states. Keeps the generator alive.
class REPRISE_API RngState {
 public:
  // Returns the present state of `generator`. An `at::CPUGeneratorImpl` is read with the normal
  // sample that it caches after an odd number of draws. Any other generator is read as seed and
  // offset, or, if it has no offset (its `get_offset` throws c10::Error), as a copy of its state
  // tensor.
  //
  // The latter also works during stream capture into a CUDA graph: LibTorch refuses the offset
  // then, but returns a state tensor (since pytorch/pytorch#162505) that can be restored in the
  // same capture as long as the seed has not changed.
  //
  // Throws: std::invalid_argument if `generator` is undefined; c10::NotImplementedError if its
  // state
  //   tensor is not a contiguous CPU tensor; other exceptions of the generator.
  [[nodiscard]] static RngState capture(const at::Generator& generator);

  // Returns the state that `generator` would have if it were seeded with `seed` now. Seeds a clone,
  // not the generator itself.
  //
  // Throws: as `capture`; exceptions of cloning and seeding.
  [[nodiscard]] static RngState seeded(const at::Generator& generator, std::uint64_t seed);

  // Restores the generator to this state. Sets the seed only if it differs, because setting it is
  // refused while a CUDA graph is captured and resets the offset.
  //
  // Throws: exceptions of the generator, which may leave its seed set and its offset unset.
  void restore() const;

  // Returns whether the generator is in this state. Compares 2.5 KB for the CPU, two integers for
  // Philox.
  [[nodiscard]] bool is_current() const;

  // Compares the states, and the identities of the generators.
  friend bool operator==(const RngState& a, const RngState& b) { return a.is_same(b); }

  [[nodiscard]] const at::Generator& generator() const noexcept { return generator_; }
  [[nodiscard]] at::Device device() const { return generator_.device(); }

 private:
  friend class RngSnapshot;
  friend class rng_internal::Fork;

  struct CpuEngine;
  struct Philox {
    std::uint64_t seed = 0;
    std::uint64_t offset = 0;  // a multiple of 4 on CUDA
    friend bool operator==(const Philox&, const Philox&) = default;
  };
  using StateTensor = c10::intrusive_ptr<c10::TensorImpl>;
  using Value = std::variant<std::shared_ptr<const CpuEngine>, Philox, StateTensor>;

  RngState(at::Generator generator, Value value);

  // Returns std::nullopt if `impl` refuses its seed or offset. The caller holds the mutex.
  static std::optional<Philox> read_philox(const c10::GeneratorImpl& impl);
  static Value read(c10::GeneratorImpl& impl);
  [[nodiscard]] bool is_same(const RngState& other) const;
  // As `restore`, but without notifying `RngSnapshot::complete`: the draws in between are known.
  void set_generator() const;
  // Returns the initial state of a generator with offsets that was seeded when its device was
  // initialised.
  static RngState start_of(const at::Generator& generator);

  at::Generator generator_;
  Value value_;
};

// The states of the generators that a region may draw from, captured when its forward starts, with
// the named states of each `RngStateTracker` and the forks that the calling thread is in.
class REPRISE_API RngSnapshot {
 public:
  // Captures the default CPU generator, always; the default generators of `devices`; that of the
  // accelerator's current device, if that device is in use; and `extra`; each once.
  //
  // devices: those of the region's tensors. Without index: the current one. Types without a
  //   generator (meta) are ignored.
  // extra: the caller's own generators. Undefined ones are ignored.
  //
  // Does not initialise an idle device (creates no context). A backend that cannot report whether
  // it is in use is assumed to be. Other devices that the region uses, neither current nor among
  // `devices`, are not covered.
  //
  // Throws: as `RngState::capture`.
  [[nodiscard]] static RngSnapshot capture(std::span<const at::Device> devices,
                                           std::span<const at::Generator> extra = {});

  // Adds states that were captured later, before the region first drew from their generators.
  // States of generators that are captured already are ignored.
  void add(std::span<const RngState> first_draws);

  // To be called once, on the same thread, when the region's forward has ended.
  //
  // drawn: generators that the region is known to have drawn from. Their states are retained even
  // if
  //   unchanged: they have been restored since.
  //
  // Drops the states of the trackers if this thread has not used one since, and the states whose
  // generators have not moved, unless an `RngState` was restored on this thread in between (by an
  // `RngForkGuard` of the region's own, or a recomputation inside it): then a generator can have
  // been drawn from and restored. A region that restores generators by other means
  // (`Generator::set_state`), after drawing from the state at its entry, needs its snapshot without
  // `complete()`. Adds the accelerator's current device if it was initialised since: its generator
  // was seeded then, and started at offset 0.
  //
  // Throws: c10::Error if such a generator has no offset, because its start is then unknown; as
  //   `RngState::is_current`.
  void complete(std::span<const at::Generator> drawn = {});

  // Returns, after `complete()`, whether the region drew from a captured generator or a named
  // state, as far as can be determined.
  [[nodiscard]] bool drew_random_numbers() const noexcept {
    return !states_.empty() || drew_from_named_;
  }

  // Returns the states in no particular order, each generator at most once.
  [[nodiscard]] std::span<const RngState> states() const noexcept {
    return {states_.data(), states_.size()};
  }

 private:
  friend class RngForkGuard;

  RngSnapshot() = default;

  void add(const at::Generator& generator);
  void add_default_generator(at::Device device);
  void add_accelerator_in_use();
  void add_accelerator_that_came_into_use();
  [[nodiscard]] bool contains(const at::Generator& generator) const noexcept;

  // The CPU and one accelerator without allocating.
  c10::SmallVector<RngState, 2> states_;
  std::optional<at::Device> idle_accelerator_;
  bool accelerator_was_in_use_ = false;
  bool completed_ = false;
  bool drew_from_named_ = false;
  std::uint64_t restores_before_ = 0;
  std::uint64_t tracker_uses_before_ = 0;
  std::uint64_t tracker_draws_before_ = 0;
  std::shared_ptr<const rng_internal::TrackerSnapshot> trackers_;  // null: nothing to restore
};

}  // namespace reprise

#endif  // REPRISE_RNG_RNG_STATE_H_
