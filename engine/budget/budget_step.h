// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// One step within a memory budget: decides what its tape retains, and makes room when memory runs
// out.
#ifndef REPRISE_ENGINE_BUDGET_BUDGET_STEP_H_
#define REPRISE_ENGINE_BUDGET_BUDGET_STEP_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "reprise/base/threading/mutex.h"
#include "reprise/engine/budget/backward_nodes.h"
#include "reprise/engine/budget/budget_state.h"
#include "reprise/engine/budget/followed_plan.h"
#include "reprise/engine/budget/memory_guard.h"
#include "reprise/engine/budget/smallest_budget.h"
#include "reprise/engine/budget/step_limit.h"
#include "reprise/engine/budget/step_recording.h"
#include "reprise/engine/budget/step_transcript.h"
#include "reprise/engine/budget/store_probe.h"
#include "reprise/engine/budget/stored_values.h"
#include "reprise/engine/region/frame.h"
#include "reprise/engine/tape/tape_retention.h"
#include "reprise/hooks/seam/backward_scope.h"

namespace reprise::engine_internal {

// Note [Steps within a budget]: a step follows the plan whose operators are its own so far, and
// whose values are closest in size: another batch, or other lengths of sequences, need no plan of
// their own. Without one it retains what autograd saves, as a plain step does. In either case
// values are evicted from the tape when an allocation would exceed the budget. A step ends when the
// first backward does that begins after its scope and reads its tensors: not with the last tensor,
// as nodes that follow may allocate. A backward inside the scope is part of forward. See also
// Note [A limit belongs to its step].
//
// Note [Steps without a tape]: the tape owns its step, and the graph the tape. Where all that a
// graph saves is a function region's or the user's hooks', or it saves nothing, no tape outlives
// forward. There is nothing to plan or to evict, but backward allocates: the budget keeps the last
// few such steps, and a backward is known by the nodes of its graph.
//
// Note [Between operators]: what an accelerator allocates is known when it has been allocated. So
// room is made before each operator and node for what it is known to need, and, if it has taken
// more, after it. Of an operator that the step's plan does not know, the largest argument is taken
// for what it needs: that of most pointwise operators. A step fails where more is in use than the
// budget, never because of a need that is foreseen. Nodes cannot fail (LibTorch drops an observer's
// exceptions), but reading a saved tensor can.
class BudgetStep final : public TapeRetention, public std::enable_shared_from_this<BudgetStep> {
 public:
  // On forward's thread, which reports to the step until end_forward(): what is set around it in
  // the meantime has to end before.
  explicit BudgetStep(std::shared_ptr<BudgetState> state);
  ~BudgetStep() override;

  // On forward's thread: inside the region whose frame it is, and when that has ended.
  void begin_forward(std::weak_ptr<Frame> frame);
  void end_forward(bool is_whole);

  // The limit no longer holds for what its thread does between forward and backward.
  void end_wait();
  bool is_of(const BudgetState& budget) const { return state_.get() == &budget; }

  // A backward begins on this thread. Returns whether it may be one through the step that its limit
  // does not hold for yet, or that reads nothing from its tape.
  bool may_begin_backward() const;
  // Returns whether forward has made the node, in LibTorch's numbers.
  bool has_made_node(std::uint64_t thread, std::uint64_t sequence) const;

  // Whether this step is the one that is recorded, see Note [Expected backward].
  bool is_recorded_by(const StepRecording& recording) const {
    return is_recorded_by_ == &recording;
  }
  // A backward through these nodes is about to begin.
  void expect_backward(std::vector<hooks_internal::BackwardNode> nodes) {
    expected_ = std::move(nodes);
  }

  // Of the memory guard.
  std::int64_t limit_bytes() const { return limit_.bytes; }
  // Returns whether the limit holds for what this thread allocates.
  bool is_on_its_thread() const;
  std::int64_t make_room(std::int64_t bytes);
  // Frees tensors that a backward has left for the next one: no plan counts on them.
  std::int64_t drop_supplied(std::int64_t bytes);
  // Returns their bytes.
  std::int64_t supplied_bytes() const;
  // A node of a backward begins on this thread. Returns what it needs, if it is known.
  std::int64_t begin_node(std::string_view name);
  void raise_peak(std::int64_t bytes);
  // Throws BudgetExceededError: there is no room.
  [[noreturn]] void fail(Shortage shortage);

  // TapeRetention.
  bool plans() const override { return true; }
  void before_operator(Tape& tape) override;
  void run(const OperatorCall& call, OperatorInterceptor* next, RunsOnce once) override;
  void decide(Tape::Operator& op, std::span<Result> results) override;
  void end_forward(absl::FunctionRef<ReadsOfNodes()> nodes) override;
  bool retains_saved(const at::Tensor& tensor) const override {
    return followed_.plan() == nullptr || tensor.device() != source_.device();
  }
  bool note_made_once(TapeValueId value, const at::Tensor& tensor) override;
  bool keeps_supplied() const override;
  void begin_backward(const Tape& tape) override;
  bool plan_backward(Tape& tape) override;
  void end_backward() override;
  void note_read(TapeValueId value) override;
  void note_supplied(TapeValueId value, const at::Tensor& tensor) override;
  bool copies(const c10::OperatorHandle& op, std::uint32_t ordinal, std::uint32_t place,
              const at::Tensor& tensor) const override {
    return state_->rewritten().is_read_by(op, ordinal, place, tensor);
  }
  std::string_view note_mutation(Tape& tape) override;
  void begin_replay() override;
  void end_replay() override;
  void before_recomputed(const Tape::Operator& op) override;
  void after_recomputed() override;

 private:
  friend class HeldBackward;
  using Clock = std::chrono::steady_clock;

  // That the limit holds for: a backward, or what a thread does (-1).
  struct Worker {
    int backward;
    std::thread::id thread;
    friend bool operator==(const Worker&, const Worker&) = default;
  };
  void begin_work(const Worker& worker);
  void end_work(const Worker& worker);
  void hold_backward();
  // which: or any.
  bool has_backward(std::optional<int> which = std::nullopt) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(workers_mutex_);

  std::optional<SmallestBudget> smallest_budget();
  void run_unguarded(const OperatorCall& call, OperatorInterceptor* next, RunsOnce once);
  std::int64_t foreseen_bytes(const OperatorCall& call) const;
  void keep_limit(std::int64_t bytes, std::int64_t taken_bytes = 0);
  bool may_evict() const;
  void follow(const StepScript::Call& known, std::span<Result> results);
  std::shared_ptr<const StepPlan> plan_for(const StepScript& script);
  void follow_from_here(Tape& tape);
  // Returns what to do now with value number `number` of the plan's step.
  planner::Choice choice_of(std::uint32_t number) const;
  void release_due(Tape& tape);
  bool plan_rest(Tape& tape, const planner::Trace& expected);
  void sample(const Tape::Operator& op, std::span<const Result> results);
  void end_recording(RecordedBackward backward);
  void report();

  const std::shared_ptr<BudgetState> state_;
  MemoryGuard& guard_;
  MemorySource& source_;
  const std::int64_t bytes_before_;
  const StepLimit limit_;
  const std::int64_t supplied_before_;  // see BudgetState::supplied()
  const std::int64_t base_bytes_;  // of those before, the ones that no step of the budget can free
  Clock::time_point start_;
  const std::thread::id thread_ = std::this_thread::get_id();
  std::weak_ptr<Frame> frame_;

  // Of forward's thread.
  std::int64_t operator_bytes_ = 0;  // that the last operator has taken at once
  std::int64_t operators_ = 0;
  std::unique_ptr<c10::DebugInfoGuard> reports_;
  bool is_recorded_ = false;
  std::optional<StepTranscript> transcript_;  // while the step is recorded
  std::optional<StoreProbe> probe_;           // of stores, while a planned step is recorded
  int plans_ = 0;                             // made for the step
  double planning_seconds_ = 0;
  std::int64_t held_bytes_ = 0;  // when forward has ended
  std::int64_t rise_bytes_ = 0;  // when backward has begun: see MeasuredStep
  FollowedPlan followed_;
  std::int64_t peak_before_plan_ = 0;     // in use while another plan was followed
  bool is_to_align_ = false;              // when backward begins
  std::atomic<bool> keeps_more_ = false;  // for other plans, see Note [Shared beginnings]
  std::size_t releases_ = 0;              // of the plan, so far
  std::vector<hooks_internal::BackwardNode> expected_;  // none if a backward has begun
  bool has_planned_rest_ = false;

  std::atomic<bool> is_in_forward_ = true;
  std::atomic<bool> is_waiting_ = false;  // forward, and from then on until backward ends
  std::atomic<bool> is_kept_ = false;     // by the budget, see Note [Steps without a tape]
  std::uint64_t nodes_thread_ = 0;
  std::uint64_t first_node_ = 0;
  std::atomic<std::uint64_t> end_node_ = UINT64_MAX;
  std::atomic<const StepRecording*> is_recorded_by_ = nullptr;  // to compare
  std::optional<RecordedStep> recorded_;                        // once its recording has ended
  NodeCursor node_;
  const std::shared_ptr<StoredValues> stored_;
  std::atomic<int> backward_ = -1;  // the last one that has read its tensors
  mutable Mutex workers_mutex_;
  std::vector<Worker> workers_ ABSL_GUARDED_BY(workers_mutex_);
  std::atomic<bool> has_begun_backward_ = false;
  std::atomic<bool> keeps_graph_ = false;  // the backward that has read its tensors last
  std::atomic<bool> is_over_ = false;
  bool has_looked_for_rewritten_ = false;  // see RewrittenMemory
  std::atomic<bool> has_found_rewritten_ = false;
  std::atomic<bool> has_failed_ = false;
  std::atomic<std::int64_t> peak_bytes_ = 0;
  std::atomic<std::int64_t> evicted_bytes_ = 0;
  std::atomic<std::int64_t> shortage_bytes_ = 0;
  std::atomic<std::int64_t> plan_shortage_bytes_ = 0;  // see EndedStep
  std::atomic<std::int64_t> reruns_ = 0;               // of operators, since the first eviction
};

// While alive, the step's limit holds for what the calling thread does, or, if `backward` is not
// negative, for that backward on any thread. Keeps the step, whose tape may be freed before
// backward ends.
class HeldBackward {
 public:
  HeldBackward(std::shared_ptr<BudgetStep> step, int backward);
  ~HeldBackward();
  HeldBackward(const HeldBackward&) = delete;
  HeldBackward& operator=(const HeldBackward&) = delete;

 private:
  const std::shared_ptr<BudgetStep> step_;
  const BudgetStep::Worker worker_;
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_BUDGET_BUDGET_STEP_H_
