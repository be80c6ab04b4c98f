// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: checkpoint_options.h
//
// The options of one region, an aggregate for designated initialisers. The defaults are the safe
// ones: random state is preserved and what the replay saves is checked against forward.
//
// Example:
//
//   auto y = reprise::checkpoint({.name = "block3", .preserve_rng_state = false}, block, x);
//
// Thread-safety: a value; thread-compatible.
#ifndef REPRISE_ENGINE_CHECKPOINT_OPTIONS_H_
#define REPRISE_ENGINE_CHECKPOINT_OPTIONS_H_

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/base/export.h"
#include "reprise/policies/checkpoint_policy.h"

namespace reprise {

namespace hooks_internal {
class ThreadStackEntry;
}

class ActivationStore;

// How what a replay saves is compared with what forward saved, slot by slot.
enum class DeterminismCheck {
  // Nothing is compared but the number of saved tensors. Nor is it noted what forward reads of
  // tensors from outside, which makes regions of many small operators faster.
  kNone,
  // Shape, strides, dtype, device, layout and requires-grad. Costs no device work.
  kMetadata,
  // Metadata, and a position-sensitive fingerprint of the values' bits, taken in forward and in the
  // replay: one pass over every saved tensor in each. On an accelerator it is computed there; the
  // comparison in the replay reads one boolean a tensor, which synchronises.
  kValues,
  // `CheckpointOptions::determinism_fn` describes a tensor; the descriptions must be equal.
  kCallback,
};

// The check called `name`: "none", "metadata" (also "default"), "values" or "callback".
// Throws std::invalid_argument for any other name.
[[nodiscard]] REPRISE_API DeterminismCheck determinism_check_from_string(std::string_view name);

// User state that is set up around a region's code: one object for forward, one for the replays.
class REPRISE_API RegionContext {
 public:
  RegionContext() = default;
  RegionContext(const RegionContext&) = delete;
  RegionContext& operator=(const RegionContext&) = delete;
  virtual ~RegionContext();

  // Called on the thread that runs the region's code, right before it. The forward object is
  // entered once; the recompute object once a replay. An exception from here leaves the region.
  virtual void enter() = 0;
  // Called on the same thread right after the code, also when that threw (in a replay that includes
  // the internal exception of an early stop; `std::uncaught_exceptions()` tells).
  virtual void exit() noexcept = 0;
};

// What `CheckpointOptions::context_fn` returns; either may be null.
struct RegionContexts {
  std::shared_ptr<RegionContext> forward;
  std::shared_ptr<RegionContext> recompute;
};

// How a region is run again.
enum class ReplayMode : std::uint8_t {
  // The region's code is called again. Anything goes in the code; all of it runs up to the last
  // tensor that is wanted.
  kFunction,
  // The operators that forward has run are run again from a record of them, below autograd, and
  // only those that are needed. The code is not called: it may be gone, and need not be copyable.
  // What a `CheckpointScope` does.
  kTape,
};

// For tape replays: what is computed when the first saved tensor of a region is asked for.
enum class TapeFill : std::uint8_t {
  kOnDemand,  // what it depends on
  kRegion,    // all that is wanted of the region
};

struct CheckpointOptions {
  // Stands in error messages, profiler ranges and `memory_report()`. Empty: "region #N".
  std::string name = {};

  // Selective checkpointing: asked for each operator of forward whether its result is kept, so that
  // a replay need not compute it. Without a policy nothing is kept. See
  // reprise/policies/policies.h.
  PolicyHolder policy = {};

  // See above. `CheckpointScope` has a tape always.
  ReplayMode replay = ReplayMode::kFunction;
  // For tapes only.
  TapeFill fill = TapeFill::kOnDemand;

  // Restores the state of the random number generators for a replay: the CPU's, those of the
  // devices of the arguments (at any nesting) and of the current device, `generators`, and the
  // named states of each `RngStateTracker`.
  bool preserve_rng_state = true;

  // Ends a replay as soon as the last saved tensor that is still wanted has been recomputed, and
  // the collectives that have saved tensors behind them have run. Turn it off if the region's code
  // catches every exception (`catch (...)`) and must not be cut short, or calls through a
  // `noexcept` function, or if ranks save different tensors behind a collective: without it a
  // replay runs all collectives. `EarlyStopGuard` overrides it. A tape replay without it is one of
  // `TapeFill::kRegion`.
  bool early_stop = true;

  DeterminismCheck determinism_check = DeterminismCheck::kMetadata;

  // For `DeterminismCheck::kCallback` only: describes one saved tensor (detached), called in
  // forward and in the replay with grad mode off.
  std::function<std::string(const at::Tensor&)> determinism_fn = {};

  // Records the region's operators with C++ stack traces, and prints both lists from the first
  // difference on when the replay differs from forward. Slow. `DebugModeGuard` and
  // `set_checkpoint_debug_enabled` override it.
  bool debug = false;

  // Accept that a tensor which the region reads was changed in place between forward and replay
  // (parameters that are re-sharded in place, say). The replay then sees the new values. Leaves
  // that need a gradient may be freed meanwhile, by resizing their storage or by set_data(), and
  // are not held: they are read as they are when a replay, or backward, comes to them.
  bool allow_external_mutation = false;

  // Accept that a result which the policy keeps was changed in place. The replay then computes
  // everything anew, so that it gets the value that forward had.
  bool allow_cache_entry_mutation = false;

  // What the policy keeps goes through the saved-tensor hooks that stand around the region, as its
  // inputs always do: a SaveOnCpuGuard moves it to the host. Otherwise hooks do not see it.
  // Directly inside another region it has no effect.
  bool respect_saved_tensors_hooks = false;

  // Where the region's tensor inputs are kept, instead of by the saved-tensor hooks that stand
  // around it; parameters stay where they are. Null: as those hooks say, or on their device. See
  // reprise/hooks/stores.h.
  std::shared_ptr<ActivationStore> input_store = nullptr;

  // Of a region with tensors in stores, of its inputs or of its policy: when backward enters it,
  // what this many such regions have there, those that this thread ran before it, starts to come
  // back, besides its own. Negative is an error.
  int prefetch_depth = 1;

  // Waits for the accelerator's current device, if it is in use, before and after forward and each
  // replay, so that the times in `memory_report()` are those of the region's kernels. Slow.
  bool synchronize_boundary = false;

  // Generators of the caller's own that the region's code draws from. Generators among the
  // arguments are found by themselves.
  std::vector<at::Generator> generators = {};

  // Called once, in forward, even when no gradient is recorded; the objects are entered around
  // forward and each replay.
  std::function<RegionContexts()> context_fn = {};
};

// While alive, overrides `CheckpointOptions::early_stop` of the regions whose forward starts on
// this thread; the innermost guard wins. The value is fixed at forward.
class [[nodiscard]] REPRISE_API EarlyStopGuard {
 public:
  explicit EarlyStopGuard(bool enabled);
  ~EarlyStopGuard();
  EarlyStopGuard(const EarlyStopGuard&) = delete;
  EarlyStopGuard& operator=(const EarlyStopGuard&) = delete;

 private:
  std::shared_ptr<hooks_internal::ThreadStackEntry> entry_;
};

}  // namespace reprise

#endif  // REPRISE_ENGINE_CHECKPOINT_OPTIONS_H_
