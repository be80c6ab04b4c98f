// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The comparison of a function replay with forward: inputs, saved tensors, captured tensors.
#ifndef REPRISE_ENGINE_FUNCTION_REPLAY_CHECKS_H_
#define REPRISE_ENGINE_FUNCTION_REPLAY_CHECKS_H_

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "reprise/base/threading/mutex.h"
#include "reprise/engine/effects/replay_effects.h"
#include "reprise/engine/effects/replay_graph.h"
#include "reprise/engine/function/function_record.h"
#include "reprise/engine/recomputation/region_record.h"
#include "reprise/engine/watch/replay_watch.h"

namespace reprise::engine_internal {

// Lives for one replay, and refers to its parts.
class ReplayChecks {
 public:
  // How the region's code ended.
  struct Outcome {
    std::size_t count;  // of tensors that autograd saved
    bool is_stopped;    // early
  };

  // asked: the slot that a backward asks for now; none: all that are wanted. watch: null if
  // operators are not compared.
  ReplayChecks(const RegionRecord& record, const FunctionRecord& function, const SlotSet& wanted,
               std::optional<SlotId> asked, ReplayWatch* watch, ReplayEffects& effects);

  // Before the region's code runs. Throws MutationError.
  void start(std::span<const at::Tensor> inputs);
  // The thread that runs the region's code; others may save tensors.
  void set_thread(std::thread::id thread) { thread_ = thread; }
  // Compares a tensor that autograd saves with the record of its slot. Thread-safe.
  void compare(SlotId slot, const at::Tensor& tensor, const at::Tensor& seen)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // After the region's code has run. operators: the log of debug mode, or null. withhold: called
  // for slots whose tensors must not be supplied, as what they depend on has been modified; without
  // regions, that is an error only for a backward that asks for them. Throws MutationError,
  // DeterminismError or CheckpointError.
  void finish(std::span<const at::Tensor> inputs, const ReplayGraph& graph, Outcome outcome,
              const OperatorLog* operators, absl::FunctionRef<void(SlotId)> withhold)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // After finish().
  bool is_withheld(SlotId slot) const {
    return std::find(withheld_.begin(), withheld_.end(), slot) != withheld_.end();
  }

 private:
  struct Mismatch {
    SlotId slot;
    std::string what;
  };

  // Whether the policy supplied the tensor to the replay.
  bool is_adopted(const at::Tensor& tensor) const;
  // Whether an operator of the replay made it.
  bool is_inside(const at::Tensor& tensor) const;
  // Each returns an error message, or nothing: for a tensor computed by other operators than
  // forward's; for a tensor from outside that has been modified or replaced.
  std::optional<std::string> difference_of_provenance(const SavedTensorRecord& saved,
                                                      const at::Tensor& tensor);
  std::optional<std::string> mutation_of(const SavedTensorRecord& saved,
                                         const at::Tensor& tensor) const;

  void check_inputs(std::span<const at::Tensor> inputs) const;
  void check_untouched(std::span<const at::Tensor> inputs) const;
  void check_escaped(const ReplayGraph& graph) const;
  // An error if the slot `asked` depends on a modified tensor; if none, for every wanted slot.
  void check_modified(std::optional<SlotId> asked) ABSL_LOCKS_EXCLUDED(mutex_);
  [[noreturn]] void fail_captured() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  [[noreturn]] void fail_stale(const std::string& what) const;
  void check_accumulated() const;
  void check_saved(Outcome outcome, const OperatorLog* operators) ABSL_LOCKS_EXCLUDED(mutex_);
  [[noreturn]] void fail_determinism(const std::string& what, const OperatorLog* operators) const;

  const RegionRecord& record_;
  const FunctionRecord& function_;
  const SlotSet& wanted_;
  const std::optional<SlotId> asked_;
  ReplayWatch* const watch_;
  ReplayEffects& effects_;
  std::vector<SlotId> withheld_;
  std::thread::id thread_;
  std::vector<std::int64_t> versions_;  // of the inputs, when the replay started
  Mutex mutex_;                         // a backward inside the region may save on several threads
  std::vector<Mismatch> mismatches_ ABSL_GUARDED_BY(mutex_);
  std::vector<Mismatch> mutations_ ABSL_GUARDED_BY(mutex_);
  std::vector<Mismatch> others_ ABSL_GUARDED_BY(mutex_);  // computed by other operators
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_FUNCTION_REPLAY_CHECKS_H_
