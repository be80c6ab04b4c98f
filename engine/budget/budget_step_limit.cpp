// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// A step's limit: for whose allocations it holds, how room is made, and the error without room.
#include <algorithm>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "reprise/engine/budget/budget_step.h"
#include "reprise/engine/budget/smallest_budget.h"
#include "reprise/engine/operators/operator_traits.h"
#include "reprise/engine/operators/storage_id.h"
#include "reprise/hooks/seam/forwarding_engine.h"

namespace reprise::engine_internal {

bool BudgetStep::is_on_its_thread() const {
  const std::thread::id thread = std::this_thread::get_id();
  if (is_waiting_ && thread == thread_) {
    return true;
  }
  const int backward = hooks_internal::current_backward();
  const MutexLock lock(workers_mutex_);
  return std::any_of(workers_.begin(), workers_.end(), [&](const Worker& worker) {
    return worker.backward >= 0 ? worker.backward == backward : worker.thread == thread;
  });
}

void BudgetStep::begin_work(const Worker& worker) {
  guard_.hold(*this);
  const MutexLock lock(workers_mutex_);
  workers_.push_back(worker);
}

void BudgetStep::end_work(const Worker& worker) {
  bool is_last = false;
  {
    const MutexLock lock(workers_mutex_);
    workers_.erase(std::find(workers_.begin(), workers_.end(), worker));
    is_last = (worker.backward >= 0 || is_kept_) && !has_backward();
  }
  guard_.release(*this);
  if (is_last && !is_in_forward_) {
    end_wait();
    if (!is_over_.exchange(true)) {
      report();
    }
  }
}

bool BudgetStep::has_backward(std::optional<int> which) const {
  return std::any_of(workers_.begin(), workers_.end(), [&](const Worker& worker) {
    return worker.backward >= 0 && worker.backward == which.value_or(worker.backward);
  });
}

HeldBackward::HeldBackward(std::shared_ptr<BudgetStep> step, int backward)
    : step_(std::move(step)), worker_{backward, std::this_thread::get_id()} {
  step_->begin_work(worker_);
}

HeldBackward::~HeldBackward() { step_->end_work(worker_); }

void BudgetStep::raise_peak(std::int64_t bytes) { raise(peak_bytes_, bytes); }

// Another thread would pause the recording of this one's operators.
bool BudgetStep::may_evict() const {
  return std::this_thread::get_id() == thread_ ||
         (!is_in_forward_ &&
          (is_recorded_by_ == nullptr || StepRecording::of_this_thread().get() == is_recorded_by_));
}

std::int64_t BudgetStep::drop_supplied(std::int64_t bytes) {
  constexpr std::int64_t kShare = 64;  // of the limit at once: more will follow
  const std::shared_ptr<Frame> frame = frame_.lock();
  if (frame == nullptr || !may_evict()) {
    return 0;
  }
  begin_replay();
  const absl::Cleanup is_done = [this] { end_replay(); };
  return frame->drop_supplied(bytes + limit_.bytes / kShare, source_.device());
}

std::int64_t BudgetStep::supplied_bytes() const {
  const std::shared_ptr<Frame> frame = frame_.lock();
  return frame == nullptr ? 0 : frame->supplied_bytes(source_.device());
}

std::int64_t BudgetStep::make_room(std::int64_t bytes) {
  const std::shared_ptr<Frame> frame = frame_.lock();
  if (frame == nullptr || !may_evict()) {
    return 0;
  }
  // Without a plan more will follow: each search costs time.
  constexpr std::int64_t kShare = 64;
  const bool is_planned = !followed_.guards_alone() || has_planned_rest_;
  const std::int64_t at_least = is_planned ? bytes : bytes + limit_.bytes / kShare;
  begin_replay();
  const absl::Cleanup is_done = [this] { end_replay(); };
  const std::int64_t departed = stored_->wait_for_departures(bytes);
  if (departed >= bytes) {
    return departed;
  }
  const std::int64_t freed = frame->evict(at_least - departed, source_.device());
  evicted_bytes_ += freed;
  if (!has_begun_backward_ || is_over_) {  // otherwise the step makes tensors again
    state_->in_flight().note_evicted(*this, freed);
  }
  shortage_bytes_ = std::max(shortage_bytes_.load(), bytes);
  if (!keeps_more_) {
    plan_shortage_bytes_ = std::max(plan_shortage_bytes_.load(), bytes);
  }
  return departed + freed;
}

void BudgetStep::fail(Shortage shortage) {
  has_failed_ = true;
  state_->note_failure();
  for (const auto& step : guard_.steps()) {  // of those that the code which failed has begun
    if (step->state_ == state_ && step->thread_ == thread_ && !step->is_in_forward_) {
      step->end_wait();
    }
  }
  shortage.limit = limit_;
  shortage.bytes_before_step = bytes_before_;
  shortage.has_found_rewritten = has_found_rewritten_;
  throw BudgetExceededError(shortage_message(shortage, smallest_budget()));
}

std::optional<SmallestBudget> BudgetStep::smallest_budget() {
  if (followed_.plan() != nullptr) {
    return state_->smallest_budget(*followed_.plan()->script);
  }
  if (recorded_) {
    return find_smallest_budget(recorded_->trace, {}, /*is_estimate=*/true);
  }
  const auto expected = transcript_ && !is_in_forward_ ? transcript_->expected() : std::nullopt;
  return expected ? find_smallest_budget(*expected, {}, /*is_estimate=*/true) : std::nullopt;
}

// taken_bytes: of the bytes in use, those that an operator has just taken.
void BudgetStep::keep_limit(std::int64_t bytes, std::int64_t taken_bytes) {
  if (guard_.make_room_for(bytes) > 0) {
    const std::int64_t in_use = source_.bytes_in_use();
    if (in_use > limit_.bytes) {
      fail({.bytes = bytes + taken_bytes, .bytes_in_use = in_use - taken_bytes});
    }
  }
}

std::int64_t BudgetStep::foreseen_bytes(const OperatorCall& call) const {
  const StepScript::Call* const known = followed_.next_call();
  if (known != nullptr && known->op == call.op) {
    return known->bytes;
  }
  std::int64_t bytes = 0;
  if (call.traits.written(call.arguments()).empty()) {
    for (const c10::IValue& argument : call.arguments()) {
      for_each_tensor(argument, [&](const at::Tensor& tensor) {
        if (tensor.device() == source_.device()) {
          bytes = std::max(bytes, static_cast<std::int64_t>(tensor.nbytes()));
        }
      });
    }
  }
  return bytes;
}

// Until the backward ends that reads a tensor of the step now.
void BudgetStep::hold_backward() {
  const int backward = hooks_internal::current_backward();
  if (backward < 0 || backward_.exchange(backward) == backward) {
    return;
  }
  keeps_graph_ = hooks_internal::backward_info().keeps_graph;
  {
    const MutexLock lock(workers_mutex_);
    if (has_backward(backward)) {
      return;  // that one has ended which is inside of it
    }
  }
  auto held = std::make_shared<std::optional<HeldBackward>>();
  held->emplace(shared_from_this(), backward);
  hooks_internal::at_backward_end([held] { held->reset(); });
}

}  // namespace reprise::engine_internal
