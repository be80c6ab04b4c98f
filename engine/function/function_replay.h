// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// One function replay of a region: restores the state of forward, runs the region's code again,
// collects and checks the tensors that autograd saves, and stops as early as possible.
#ifndef REPRISE_ENGINE_FUNCTION_FUNCTION_REPLAY_H_
#define REPRISE_ENGINE_FUNCTION_FUNCTION_REPLAY_H_

#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "reprise/base/threading/mutex.h"
#include "reprise/engine/effects/replay_effects.h"
#include "reprise/engine/effects/replay_graph.h"
#include "reprise/engine/function/captured_draws.h"
#include "reprise/engine/function/early_stop.h"
#include "reprise/engine/function/function_record.h"
#include "reprise/engine/function/input_slots.h"
#include "reprise/engine/function/replay_checks.h"
#include "reprise/engine/function/replayed_inputs.h"
#include "reprise/engine/function/tape_follower.h"
#include "reprise/engine/kept/input_group.h"
#include "reprise/engine/operators/memory_table.h"
#include "reprise/engine/recomputation/recomputation.h"
#include "reprise/engine/watch/replay_watch.h"
#include "reprise/hooks/seam/hook_stack.h"

namespace reprise::engine_internal {

class FunctionReplay final : public hooks_internal::HookProvider,
                             public SharedInterception,
                             public InputGroup::Count,
                             public std::enable_shared_from_this<FunctionReplay> {
 public:
  using StandIns = std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>>;
  struct Options {
    std::optional<SlotId> asked;  // see SlotRequest
    bool is_last;                 // likewise
    bool follows_tape;            // of the region's policy; otherwise all operators run
    StandIns stand_ins = {};      // of an earlier run, which exist outside: must not be read
  };

  // wanted: for each slot now in the record, whether its tensor is needed.
  FunctionReplay(RegionRecord& record, FunctionRecord& function, SlotSet wanted, Options options);

  // Throws MutationError, DeterminismError, CheckpointError for other checks, or an exception of
  // the region's code (translated to CheckpointError if it is not derived from std::exception).
  void run();

  // After run(): the memory of tensors that stand for results and exist outside. See
  // Note [Stand-ins].
  StandIns left_stand_ins() const {
    return record_.forward_completed && follower_ ? follower_->left_stand_ins() : StandIns();
  }
  // Whether the code may run again without the trace of its policy, and whether it has run other
  // operators than forward under its policy, so that run() throws.
  bool may_run_without_tape() const;
  bool has_lost_tape() const { return follower_ && follower_->has_lost_tape(); }
  bool may_explain() const { return !follower_ || follower_->may_explain(); }

  // Returns the tensor of each wanted slot that the checks do not withhold, after run().
  FilledSlots take_values();

  std::unique_ptr<hooks_internal::SavedVariableHooks> make_hooks() override;
  bool recomputes() const override { return true; }
  bool may_copy() const override { return record_.is_in_hooks(); }

  // A backward inside the region has already added to these gradients in forward: the contribution
  // of the replay is removed when it ends.
  bool on_accumulation(const std::vector<at::Tensor>& leaves) override;

  struct Saved {
    bool is_last;      // of those that are wanted: the caller has to call throw_early_stop()
    bool may_be_read;  // by a backward that goes through the replay's graph
  };
  // Called for each tensor that autograd saves during the replay.
  [[nodiscard]] Saved on_save(const at::Tensor& tensor, const at::Tensor& alias);

  // Called before an operator runs that a replay with all it needs does not have to run, see
  // StopBeforeOperator. Returns true if the replay ends here: the caller then has to call
  // throw_early_stop().
  [[nodiscard]] bool on_operator() ABSL_LOCKS_EXCLUDED(mutex_);

  // Whether the replay has had all it needs. Thread-safe.
  bool is_stopped() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // Returns the slot of a tensor that is saved now; nothing for an input of a region inside that
  // forward did not have.
  std::optional<SlotId> next_slot(const at::Tensor& tensor) ABSL_LOCKS_EXCLUDED(mutex_);
  // Returns whether the replay needs nothing behind that slot, which has its value.
  bool has_enough(SlotId slot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Moves the value, if it is wanted, and returns whether the replay may stop now. value: null if
  // it is not.
  bool keep(SlotId slot, RecomputedTensor* value) ABSL_LOCKS_EXCLUDED(mutex_);
  // Inputs of regions inside that this replay did not have are from outside, as in forward.
  void fill_inputs_inside() ABSL_LOCKS_EXCLUDED(mutex_);
  // Returns whether the replay may end in the middle of this save.
  bool may_stop(SlotId slot, const at::Tensor& tensor) const;
  bool is_unwinding() const;
  // seen: the tensor with the contents that the replay sees. value: as backward receives it.
  Saved note_save(const at::Tensor& tensor, const at::Tensor& seen, RecomputedTensor&& value)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Returns false for slots of graphs that forward's code has dropped without a backward.
  bool may_be_read(SlotId slot) const;
  std::vector<at::Tensor> restore_inputs();
  void note_copies(std::span<const at::Tensor> inputs);
  void run_region(std::span<const at::Tensor> inputs);
  // Runs the code up to its end or the early stop.
  void run_code(std::vector<at::Tensor>& arguments);
  void put_gradients_back();
  RegionRecord& record_;
  FunctionRecord& function_;
  const SlotSet wanted_;
  const Options options_;
  SlotId last_needed_{0};    // the last slot that is wanted, or behind a transfer
  SlotSet uninterruptible_;  // the slots whose nodes must not be interrupted
  ReplayedInputs replayed_inputs_;
  InputSlots inputs_inside_;     // take() with mutex_ locked
  std::thread::id thread_;       // that runs the region's code
  int exceptions_at_start_ = 0;  // in flight on that thread
  MemoryTable table_;            // on that thread, as the next four
  ReplayMemory memory_;
  std::optional<ReplayWatch> watch_;
  ReplayEffects effects_;
  ReplayChecks checks_;
  ReplayGraph graph_;
  std::optional<TapeFollower> follower_;
  std::optional<CapturedDraws> draws_;                 // without a watch
  std::optional<StopBeforeOperator> before_operator_;  // if the last one needed is uninterruptible
  std::unique_ptr<OperatorLog> operators_;

  std::atomic<std::uint32_t> count_ = 0;   // of saved tensors
  std::atomic<std::uint32_t> saving_ = 0;  // the number of them being saved now
  Mutex mutex_;  // a backward inside the region may save on several threads
  base_internal::IdVector<SlotId, RecomputedTensor> values_ ABSL_GUARDED_BY(mutex_);
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::pair<at::Tensor, at::Tensor>> gradients_ ABSL_GUARDED_BY(mutex_);  // leaf, grad
};

// Whether the innermost replay on this thread, whose region's code runs, has all it needs: what
// leaves the code is an early stop then.
REPRISE_API bool replay_has_stopped();

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_FUNCTION_FUNCTION_REPLAY_H_
