// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Plans that are made while steps go on.
//
// Note [Plans in the background]: a budget plans on one thread beside its steps. That thread sees a
// recorded trace and numbers, never LibTorch or the program's code, and takes none of the budget's
// locks: until it has finished, its StepPlanner is its own. A step adopts finished plans at its
// beginning alone. Until then a step that is known follows the plan of its earlier recording, or
// none: it retains what a plain step does, is recorded, and plans its backward from the graph, as a
// first step does. A plan for an earlier recording of a step is followed until a plan for the
// later one is there. What reads a planner (reports, files of plans) waits for it, without a lock.
// In a forked child the thread is missing: its planner, which may be in the midst of anything, is
// left alone, and another one begins anew.
#ifndef REPRISE_ENGINE_BUDGET_BACKGROUND_PLANNING_H_
#define REPRISE_ENGINE_BUDGET_BACKGROUND_PLANNING_H_

#include <sys/types.h>

#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <thread>

#include "reprise/engine/budget/step_planner.h"

namespace reprise::engine_internal {

// Not thread-safe.
class BackgroundPlanning {
 public:
  struct Outcome {
    std::shared_ptr<StepPlanner> planner;
    PlanRequest request;
    std::optional<FoundPlan> found;      // nothing: no plan is valid
    bool is_lost = false;                // with its thread: the planner is not to be used
    std::exception_ptr error = nullptr;  // that planning has thrown
  };

  BackgroundPlanning() = default;
  // Waits for the thread.
  ~BackgroundPlanning();
  BackgroundPlanning(const BackgroundPlanning&) = delete;
  BackgroundPlanning& operator=(const BackgroundPlanning&) = delete;

  // Returns whether a plan is being made, or waits to be taken.
  bool is_busy() const { return job_ != nullptr; }
  // Returns whether it has begun: not if it is busy, or if there is no thread to be had. From then
  // on the planner is the thread's, until the outcome has been taken.
  bool begin(std::shared_ptr<StepPlanner> planner, PlanRequest request);
  // Returns the outcome, once it is there.
  std::optional<Outcome> take();
  // Returns what is ready when the outcome is there, for any thread to wait for; not valid if there
  // is nothing to wait for.
  std::shared_future<void> pending() const;

 private:
  struct Job {
    Outcome outcome;
    std::shared_future<void> is_done;
    std::thread thread;
    pid_t process;
  };
  bool has_forked() const;

  std::unique_ptr<Job> job_;
};

// Called on the thread, before each plan. For tests.
void set_background_planning_observer(std::function<void()> observer);

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_BUDGET_BACKGROUND_PLANNING_H_
