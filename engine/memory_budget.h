// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: memory_budget.h
//
// A limit on the memory of training steps, kept by recomputation: a budget around any forward, with
// no change to the model. Without options it is all the memory that the device has to give. The
// first step is observed, and planned when its backward begins; from
// the second on a plan decides from the beginning which tensors stay until backward and which are
// computed again, so that the step is as fast as can be within the budget. Gradients are
// bit-identical to those of a step without it.
//
// A step that fits recomputes nothing, and costs the interception of operators. `tools/plan` says
// beforehand what a smaller budget would cost.
//
// A budget is for one device. On the CPU a step never exceeds it: it is kept before each allocation
// of the step's own thread, from the scope's beginning to the end of backward, and of backwards
// through the step on any thread. Other threads are never refused, but what they hold counts.
// LibTorch's allocators for accelerators report allocations only afterwards, so there it is kept
// between operators, and the peak of a step that is new to the budget, the first one, may lie above
// it by as much as one operator, or one node of backward, allocates.
//
// Example:
//
//   reprise::MemoryBudget budget;  // or ({.peak_bytes = 2LL << 30}); lives as long as training
//   for (auto& batch : loader) {
//     reprise::BudgetScope scope(budget);  // forward and loss
//     auto loss = model->forward(batch.data).square().mean();
//     std::move(scope).close();
//     loss.backward();
//     optimizer.step();
//   }
//   std::cout << budget.report();
//
// Thread-safety: a MemoryBudget may be shared by threads; a BudgetScope belongs to the thread that
// constructs it, as a CheckpointScope does.
#ifndef REPRISE_ENGINE_MEMORY_BUDGET_H_
#define REPRISE_ENGINE_MEMORY_BUDGET_H_

#include <c10/core/Device.h>
#include <c10/util/Exception.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "reprise/base/export.h"
#include "reprise/hooks/activation_store.h"
#include "reprise/planner/step_report.h"
#include "reprise/planner/trace.h"

namespace reprise {

namespace engine_internal {
class BudgetState;
class BudgetStep;
class ForwardRegion;
}  // namespace engine_internal

// An allocation in a step would exceed the budget, and no tensor in use can be computed again. On
// the CPU nothing has been allocated beyond the budget; on an accelerator one operator has. Of that
// type under TorchScript as well: while one is alive, its interpreter passes exceptions on as they
// are.
class REPRISE_API BudgetExceededError : public c10::OutOfMemoryError {
 public:
  explicit BudgetExceededError(std::string message);

 private:
  std::shared_ptr<const void> passes_torchscript_;
};

// At most one of peak_bytes, max_overhead and fraction is set; without any, fraction is 1.
struct MemoryBudgetOptions {
  // Above 0: the most bytes of the device's tensors in use at any moment of forward and backward:
  // those from before the step, parameters included, gradients and workspaces. Of the CPU, tensors
  // that were made before its counter was installed do not count (cpu_memory.h; a MemoryBudget
  // installs it). Of an accelerator, blocks count as its allocator counts them, rounded up, but not
  // its cache.
  std::optional<std::int64_t> peak_bytes = std::nullopt;

  // Instead of peak_bytes: the least memory for which a step takes at most (1 + max_overhead) times
  // as long as without recomputation.
  std::optional<double> max_overhead = std::nullopt;

  // Instead of peak_bytes, above 0 and at most 1: this part of all that the device has to give.
  // That is determined when a step begins, as the bytes in use and those that can still be
  // allocated, less reserve_bytes. On the CPU it is the least that is left by RLIMIT_AS,
  // RLIMIT_DATA, the limits of the process's control group and the groups around it,
  // set_cpu_memory_limit(), and the machine, as MemAvailable, without swapping. On an accelerator
  // it is its free memory and the cache of its allocator, less parts of blocks that are in use.
  std::optional<double> fraction = std::nullopt;

  // The bytes that stay free beyond a share: code outside of tensors needs some, and allocators
  // waste some. Not negative, and not with peak_bytes or max_overhead. Without a number: a 32nd of
  // the limit that leaves the least, but at least 64 MiB and at most 1 GiB; none for
  // set_cpu_memory_limit(), which counts nothing but tensors.
  std::optional<std::int64_t> reserve_bytes = std::nullopt;

  // Whose memory it is. Without an index: the current one of its kind. Needs an allocator of
  // LibTorch's kind, with statistics (c10::DeviceAllocator) or reports to profilers.
  c10::Device device = c10::Device(c10::kCPU);

  // Where plans may put tensors that the step's memory has no room for, if that takes less time
  // than to compute them again: stores::host(), disk(), packed(), compressed() or others, and
  // combinations by `|`. Their rates, and how small they make the results of each operator, are
  // measured with samples in the second step, and used from the third one on. A store that is not
  // exact makes gradients inexact. Not for stores that communicate: each rank has a plan of its
  // own.
  std::vector<std::shared_ptr<ActivationStore>> stores = {};

  // Whether plans are made on a thread of the budget while steps go on, instead of between two
  // steps. No step waits then; a step begins to follow a plan when the plan is there, and is kept
  // within the limit by evictions until then. Which steps follow a plan depends on the machine's
  // speed; bits and the limit do not. Measured times of observed steps include what the thread
  // takes from them, unless a core is free.
  bool plans_in_background = false;
};

// What is known of a step that has ended.
struct BudgetedStep {
  std::int64_t peak_bytes = 0;  // measured
  // That held; with max_overhead there is none.
  std::optional<std::int64_t> limit_bytes = std::nullopt;
  std::int64_t evicted_bytes = 0;   // by the guard, beyond the plan
  std::int64_t shortage_bytes = 0;  // the most that the guard had to find at once
  std::int64_t stored_bytes = 0;    // put into stores
  double seconds = 0;               // of the host, from the scope's begin to the end of backward
  bool is_recorded = false;         // its time includes the cost of that
  int plans = 0;                    // made for it, or in the background since the step before
  double planning_seconds = 0;      // of its time: what was made in the background takes none
  bool has_other_sizes = false;     // it followed the plan of a step that only differs in sizes

  // Of the plan that the step followed from its first to its last operator. None: the step
  // was not known, or no plan is valid. If no plan fits, that of the smallest peak found.
  std::optional<std::int64_t> predicted_peak_bytes = std::nullopt;
  double predicted_seconds = 0;
  double plain_seconds = 0;  // predicted, without recomputation
  double bound_seconds = 0;  // no plan within the budget is faster than this

  bool is_planned() const { return predicted_peak_bytes.has_value(); }
};

class REPRISE_API MemoryBudget {
 public:
  // Throws: std::invalid_argument if more than one of peak_bytes, max_overhead and fraction is set,
  //   if a number is not as described there, or if a store is null; c10::Error if there is no such
  //   device, if its allocator tells nothing of its memory, or, unless peak_bytes or max_overhead
  //   is set, not how much is available, as those of LibTorch 2.9 for accelerators.
  explicit MemoryBudget(MemoryBudgetOptions options = {});
  MemoryBudget(const MemoryBudget&) = delete;
  MemoryBudget& operator=(const MemoryBudget&) = delete;
  // Waits for a plan that is made in the background.
  ~MemoryBudget();

  // Returns the last step whose backward has ended.
  [[nodiscard]] std::optional<BudgetedStep> last_step() const;

  // Returns a text about the budget and the last step: its limit and where that is from, plan,
  // predicted and measured peak and time, the distance to the best possible plan, and the bytes
  // that no plan drops, by operator and reason (docs/budget.md).
  [[nodiscard]] std::string report() const;

  // Returns what the plan for the next step like the last known one does with the results of an
  // operator, and why; see planner/explain.h for `op` and the text. Empty if no step is known yet.
  //
  // Throws: std::invalid_argument if the step has no such operator.
  [[nodiscard]] std::string explain(const std::string& op) const;

  // Returns the trace of the last known step, as of a step without recomputation, for `tools/plan`
  // and planner/largest_batch.h. Nothing if no step is known yet.
  [[nodiscard]] std::optional<planner::Trace> trace() const;

  // Returns the last known step with the plan that the next one like it follows: what is in memory
  // when, of which class, and at the peak (planner/memory_timeline.h). Its trace begins with the
  // bytes that were in use when the last step began. The peak is the predicted one, less what
  // earlier steps have shown to be missing from the recording. If debug mode was on while the step
  // was observed, its operators have stacks (debug_mode.h). Nothing if no step is known yet, or no
  // plan is valid.
  [[nodiscard]] std::optional<planner::StepReport> step_report() const;

  // Writes step_report() to a file, as text (planner/step_report.h). `tools/plan FILE --plot
  // step.svg` draws it. A file that is there is replaced as a whole or stays as it is.
  //
  // Throws: std::runtime_error if there is no report yet, or the file cannot be written.
  void write_report(const std::string& path) const;

  // Writes what is known of steps to a file, as text: their operators, traces and plans, what was
  // measured of them and of the stores. For load_plans() in a later process. A file that is there
  // is replaced as a whole or stays as it is. May be called at any time; a step that is under way
  // is not in it. Waits for a plan that is made in the background, as report(), explain() and
  // step_report() do.
  //
  // Throws: std::runtime_error if no step is known yet, or the file cannot be written.
  void save_plans(const std::string& path) const;

  // Replaces what is known of steps by what save_plans() has written, so that a restarted job plans
  // nothing: a step in the file follows its plan from its first run on, and is observed no more if
  // two of its runs were. The plan is made anew, from the trace in the file, if this budget has
  // much more room for it, or too little, or another max_overhead; or if it uses stores and this
  // budget has not as many. Then one run more is observed, to measure those of this budget.
  // `stores` are taken to be the same ones, in the same order. A step with an operator that is not
  // registered in this process is left out: load libraries of operators before.
  //
  // Throws: std::invalid_argument, with the number of the line and what is wrong with it, if the
  //   file is not of this format and version, or is not valid; or if it is for another kind of
  //   device. std::runtime_error if it cannot be read. The budget is as before then.
  // Time: that of reading the text, about 1 MB per thousand operators of forward.
  void load_plans(const std::string& path);

 private:
  friend class BudgetScope;
  std::shared_ptr<engine_internal::BudgetState> state_;
};

// While alive, the operators of this thread are the forward of a step within the budget. The step
// ends with the end of the first backward through it that begins after the scope; the budget holds
// in later ones (retain_graph) as well, which the figures of last_step() do not include. With grad
// mode off it has no effect.
class [[nodiscard]] REPRISE_API BudgetScope {
 public:
  // Throws: CheckpointError inside a region; c10::Error if saved-tensor hooks are disabled on this
  //   thread. In the scope and in backward, an allocation throws BudgetExceededError; on an
  //   accelerator an operator does, or the reading of a saved tensor.
  // Time: the second and the third scope plan: up to a second for a few thousand operators. A scope
  //   whose operators are new to the budget has the next one do so.
  // Stream: a step that is observed (BudgetedStep::is_recorded) synchronises the accelerator before
  //   and after each operator and node, to time it; other steps never do.
  [[nodiscard]] explicit BudgetScope(MemoryBudget& budget);
  // Ends the scope, unless close() has.
  ~BudgetScope() noexcept(false);
  BudgetScope(const BudgetScope&) = delete;
  BudgetScope& operator=(const BudgetScope&) = delete;

  // Ends the scope early: `std::move(scope).close()`.
  void close() &&;

 private:
  std::shared_ptr<engine_internal::BudgetStep> step_;
  std::unique_ptr<engine_internal::ForwardRegion> region_;
  int exceptions_at_start_;
};

}  // namespace reprise

#endif  // REPRISE_ENGINE_MEMORY_BUDGET_H_
