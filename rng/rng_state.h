// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: rng_state.h
//
// Where random number generators stand, as a value: `RngState` for one generator, `RngSnapshot` for
// all that a region may draw from. The default CPU generator costs one copy of its 2.5 KB; Philox
// generators (CUDA, XPU, MPS) are two integers, without tensor or synchronisation.
//
// Not for independent random streams (make a generator of your own), nor for a file: a state
// belongs to the generator object that it was taken from.
//
// Example:
//
//   const auto start = reprise::RngState::capture(at::detail::getDefaultCPUGenerator());
//   at::Tensor mask = at::rand({4, 4});
//   start.restore();
//   assert(at::equal(mask, at::rand({4, 4})));
//
// Thread-safety: thread-compatible. Each access to a generator takes that generator's mutex, as
// LibTorch's operators do; draws of other threads between two accesses are not held up.
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
// share what is large. Holds the generator alive.
class REPRISE_API RngState {
 public:
  // Where `generator` stands now. An `at::CPUGeneratorImpl` is read with the normal sample that it
  // keeps back after an odd number of draws. Any other generator is read as seed and offset, or,
  // where it has no offset to give (its `get_offset` throws c10::Error), as a copy of its state
  // tensor.
  //
  // The latter serves stream capture into a CUDA graph too: LibTorch refuses the offset then, but
  // gives a state tensor (since pytorch/pytorch#162505) that can be restored in the same capture as
  // long as the seed has not changed.
  //
  // Throws std::invalid_argument if `generator` is undefined; c10::NotImplementedError if its state
  // tensor is not a contiguous CPU tensor; whatever else reading the generator throws.
  [[nodiscard]] static RngState capture(const at::Generator& generator);

  // Where `generator` would stand if it were seeded with `seed` now. The generator itself is not
  // touched: a clone of it is seeded.
  //
  // Throws as `capture` does, and what cloning or seeding throws.
  [[nodiscard]] static RngState seeded(const at::Generator& generator, std::uint64_t seed);

  // Sets the generator back to this state. The seed is set only if it differs, because setting it
  // is refused while a CUDA graph is captured and resets the offset. Throws whatever setting the
  // generator throws, which may leave its seed set and its offset not.
  void restore() const;

  // True if the generator stands exactly here. Compares 2.5 KB for the CPU, two integers for
  // Philox.
  [[nodiscard]] bool is_current() const;

  // The same state of the same generator.
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

  // std::nullopt if `impl` refuses its seed or offset. The caller holds the mutex.
  static std::optional<Philox> read_philox(const c10::GeneratorImpl& impl);
  static Value read(c10::GeneratorImpl& impl);
  [[nodiscard]] bool is_same(const RngState& other) const;
  // As `restore`, but `RngSnapshot::complete` is not told: what was drawn meanwhile is known.
  void set_generator() const;
  // Where a generator with offsets started that was seeded when its device came into use.
  static RngState start_of(const at::Generator& generator);

  at::Generator generator_;
  Value value_;
};

// The states of the generators that a region may draw from, taken when its forward starts, and with
// them the named states of each `RngStateTracker` and the forks of it that the calling thread is
// in.
class REPRISE_API RngSnapshot {
 public:
  // Captures the default CPU generator, always; the default generator of each of `devices`; that of
  // the accelerator's current device, if that device is in use; and `extra`. A generator met twice
  // is captured once.
  //
  // devices: where the region's tensors live. Without index: the current one. Types that have no
  //   generator (meta) are passed over.
  // extra: the caller's own generators. Undefined ones are passed over.
  //
  // Wakes no device: of an accelerator that is not among `devices`, only whether it has a context
  // is asked. A backend that cannot tell is taken to be in use. Other devices that the region uses
  // by itself, neither current nor among `devices`, are not covered.
  //
  // Throws what `RngState::capture` throws.
  [[nodiscard]] static RngSnapshot capture(std::span<const at::Device> devices,
                                           std::span<const at::Generator> extra = {});

  // Adds states that were taken later, before the region first drew from their generators. Those
  // of generators that are captured already are passed over.
  void add(std::span<const RngState> first_draws);

  // To be called once, on the same thread, when the region's forward has ended.
  //
  // drawn: generators that the region is known to have drawn from. One that stands where it stood
  //   has been put back, so its state is kept.
  //
  // Drops the states of the trackers if this thread has not used one since, and
  // the states whose generators have not moved, unless an `RngState` was restored on this
  // thread in between (by an `RngForkGuard` of the region's own, or a replay inside it): then a
  // generator can have been drawn from and put back. A region that puts generators back by other
  // means (`Generator::set_state`) after having drawn from the state it was entered with needs its
  // snapshot as it was, without `complete()`.
  // Adds the accelerator's current device if it came into use since: its generator was seeded then,
  // and started at offset 0.
  //
  // Throws c10::Error if such a generator keeps no offset, because its start is then unknown; what
  // `RngState::is_current` throws.
  void complete(std::span<const at::Generator> drawn = {});

  // After `complete()`: true if the region drew from a captured generator or a named state, as far
  // as can be told.
  [[nodiscard]] bool drew_random_numbers() const noexcept {
    return !states_.empty() || drew_from_named_;
  }

  // In no particular order; each generator at most once.
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
