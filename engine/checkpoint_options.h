// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: checkpoint_options.h
//
// The options of one region, an aggregate for designated initialisers. The defaults are safe:
// random state is preserved, and recomputed tensors are checked against forward.
//
// Example:
//
//   auto y = reprise::checkpoint({.name = "block3", .preserve_rng_state = false}, block, x);
//
// Thread-safety: a value; thread-compatible.
#ifndef REPRISE_ENGINE_CHECKPOINT_OPTIONS_H_
#define REPRISE_ENGINE_CHECKPOINT_OPTIONS_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "reprise/base/export.h"
#include "reprise/policies/checkpoint_policy.h"

namespace reprise {

namespace hooks_internal {
class ThreadStackEntry;
}

class ActivationStore;

// How the tensors that a recomputation saves are compared with forward's, slot by slot.
enum class DeterminismCheck {
  // Compares the number of saved tensors only.
  kNone,
  // Shape, strides, dtype, device, layout and requires-grad. Costs no device work.
  kMetadata,
  // Metadata, and a position-sensitive fingerprint of the values' bits, computed in forward and in
  // the recomputation: one pass over each saved tensor in both. On an accelerator it is computed
  // there; the comparison reads one boolean per tensor, which synchronises.
  kValues,
  // `CheckpointOptions::determinism_fn` describes a tensor; the descriptions must be equal.
  kCallback,
};

// Returns the check with this name: "none", "metadata" (also "default"), "values" or "callback".
//
// Throws: std::invalid_argument for any other name.
[[nodiscard]] REPRISE_API DeterminismCheck determinism_check_from_string(std::string_view name);

// User state around a region's code: one object for forward, one for recomputations.
class REPRISE_API RegionContext {
 public:
  RegionContext() = default;
  RegionContext(const RegionContext&) = delete;
  RegionContext& operator=(const RegionContext&) = delete;
  virtual ~RegionContext();

  // Called on the thread that runs the region's code, right before it. The forward object is
  // entered once, the recompute object once per recomputation. An exception leaves the region.
  virtual void enter() = 0;
  // Called on the same thread right after the code, also if it threw (in a recomputation, this
  // includes the internal exception of an early stop; see `std::uncaught_exceptions()`).
  virtual void exit() noexcept = 0;
};

// The result of `CheckpointOptions::context_fn`; either may be null.
struct RegionContexts {
  std::shared_ptr<RegionContext> forward;
  std::shared_ptr<RegionContext> recompute;
};

// How a region is recomputed.
enum class ReplayMode : std::uint8_t {
  // Function replay: calls the region's code again, up to the last tensor that is wanted. The code
  // is unrestricted.
  kFunction,
  // Tape replay: dispatches forward's operators again from a record of them, below autograd, and
  // only the needed ones. The code is not called: it need neither be copyable nor exist. The
  // mode of a `CheckpointScope`.
  kTape,
};

struct CheckpointOptions {
  // Shown in error messages, profiler ranges and `memory_report()`. Empty: "region #N".
  std::string name = {};

  // Selective checkpointing: decides for each operator of forward whether to save its result, which
  // a recomputation then need not compute. Without a policy no result is saved. See
  // reprise/policies/policies.h.
  PolicyHolder policy = {};

  // See above. Ignored by `CheckpointScope`, which always has a tape.
  ReplayMode replay = ReplayMode::kFunction;

  // Runs a call plainly whose tensor arguments, at any nesting, have fewer bytes together: a
  // sequence too short to be worth a recomputation. Must not be negative. A `CheckpointScope` has
  // no arguments, and does not take it; `CheckpointedModule::checkpoint_scope(x)` does.
  std::int64_t min_input_bytes = 0;

  // Restores the state of the random number generators for a recomputation: of the CPU, of the
  // devices of the arguments (at any nesting) and of the current device, of generators among the
  // arguments, of each other generator that an operator draws from (see `watch_operators`), and the
  // named states of each `RngStateTracker`.
  bool preserve_rng_state = true;

  // Ends a recomputation as soon as the last wanted saved tensor is available and all collectives
  // that precede a saved tensor have run. Turn it off if the region's code catches every exception
  // (`catch (...)`) and must not be cut short, if it calls operators through a `noexcept` function,
  // or if ranks save different tensors after a collective: without it a recomputation runs all
  // collectives. `EarlyStopGuard` overrides it. Without it, a tape
  // replay computes all wanted tensors of its region at the first request.
  bool early_stop = true;

  DeterminismCheck determinism_check = DeterminismCheck::kMetadata;

  // For `DeterminismCheck::kCallback` only: describes one saved tensor (detached). Called in
  // forward and in the recomputation, with grad mode off.
  std::function<std::string(const at::Tensor&)> determinism_fn = {};

  // Records the operators of a function region's forward: the tensors from outside that they read
  // and write, and the generators that they draw from. If a tensor has been modified since it was
  // read, and a saved tensor depends on it, the recomputation is an error. Off, regions of many
  // small operators are faster; their recomputations read tensors from outside as they are then,
  // and may not draw from generators other than those that are known when forward begins. No effect
  // under a policy, and on tapes, which record the operators in any case.
  bool watch_operators = true;

  // Records the region's operators with C++ stack traces, and prints both lists from the first
  // difference on if the recomputation differs from forward. Slow. `DebugModeGuard` and
  // `set_checkpoint_debug_enabled` override it.
  bool debug = false;

  // Accepts that a tensor which the region reads is modified in place between forward and
  // recomputation (such as parameters that are re-sharded in place): the recomputation sees the new
  // values. Leaves that require a gradient may be freed meanwhile, by resizing their storage or by
  // set_data(), and are not retained: the recomputation, or backward, reads their current values.
  bool allow_external_mutation = false;

  // How much outside memory a region copies, at its reads, so that the memory may be used for
  // something else before backward: tensors that the region itself writes, and memory that LibTorch
  // has not allocated (`from_blob()`, NumPy). What exceeds this is compared with its fingerprint
  // instead, and is an error if it has changed and cannot be computed again. Must not be negative.
  std::int64_t copied_state_limit_bytes = std::int64_t{1} << 20;

  // Accepts that a result which the policy has saved is modified in place. The recomputation then
  // computes everything again, and so obtains the value of forward.
  bool allow_cache_entry_mutation = false;

  // Passes results that the policy saves through the saved-tensor hooks around the region, as
  // inputs always are: a SaveOnCpuGuard moves them to the host. Otherwise hooks do not see them. No
  // effect directly inside another region.
  bool respect_saved_tensors_hooks = false;

  // Stores the region's tensor inputs, except for parameters, instead of passing them to the
  // saved-tensor hooks around it. Null: those hooks decide; without any, inputs stay on their
  // device. See reprise/hooks/stores.h.
  std::shared_ptr<ActivationStore> input_store = nullptr;

  // For a region with tensors in stores (inputs, or results of its policy): the number of earlier
  // such regions of this thread whose tensors are prefetched when backward enters this one, in
  // addition to its own. Must not be negative.
  int prefetch_depth = 1;

  // Synchronises with the accelerator's current device, if it is in use, before and after forward
  // and each recomputation, so that the times in `memory_report()` include the region's kernels.
  // Slow.
  bool synchronize_boundary = false;

  // Called once, in forward, even if no gradient is recorded. With gradients, the returned objects
  // are entered around forward and each recomputation.
  std::function<RegionContexts()> context_fn = {};
};

// While alive, overrides `CheckpointOptions::early_stop` of regions whose forward starts on this
// thread. The innermost guard takes precedence. The value is fixed at forward.
class [[nodiscard]] REPRISE_API EarlyStopGuard {
 public:
  [[nodiscard]] explicit EarlyStopGuard(bool enabled);
  ~EarlyStopGuard();
  EarlyStopGuard(const EarlyStopGuard&) = delete;
  EarlyStopGuard& operator=(const EarlyStopGuard&) = delete;

 private:
  std::shared_ptr<hooks_internal::ThreadStackEntry> entry_;
};

}  // namespace reprise

#endif  // REPRISE_ENGINE_CHECKPOINT_OPTIONS_H_
