// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/budget/budget_step.h"

#include <ATen/SequenceNumber.h>
#include <ATen/record_function.h>
#include <c10/util/StringUtil.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "reprise/engine/operators/operator_traits.h"
#include "reprise/engine/operators/storage_id.h"
#include "reprise/engine/profile/step_interceptor.h"
#include "reprise/hooks/seam/forwarding_engine.h"

namespace reprise::engine_internal {

BudgetStep::BudgetStep(std::shared_ptr<BudgetState> state)
    : state_(std::move(state)),
      guard_(MemoryGuard::of(state_->device())),
      source_(guard_.source()),
      limit_bytes_(state_->aim().max_overhead ? std::numeric_limits<std::int64_t>::max()
                                              : state_->aim().peak_bytes),
      bytes_before_(source_.bytes_in_use()),
      followed_(state_->plans_for(bytes_before_)),
      stored_(std::make_shared<StoredValues>(guard_, limit_bytes_)) {
  std::shared_ptr<StepRecording> recording;
  if (state_->is_to_record() && (recording = StepRecording::begin(source_))) {
    is_recorded_ = true;
    is_recorded_by_ = recording.get();
    transcript_.emplace(recording);
    if (!state_->stores().empty()) {
      probe_.emplace(state_->stores(), state_->rates());
    }
  }
  reports_ = source_.observe(recording);
  start_ = Clock::now();
}

BudgetStep::~BudgetStep() { guard_.forget(*this); }

void BudgetStep::begin_forward(std::weak_ptr<Frame> frame) {
  frame_ = std::move(frame);
  nodes_thread_ = at::RecordFunction::currentThreadId();
  first_node_ = at::sequence_number::peek();
  guard_.add(shared_from_this(), state_.get());
  is_waiting_ = true;
  guard_.hold(*this);
}

void BudgetStep::end_forward(bool is_whole) {
  is_in_forward_ = false;
  end_node_ = at::sequence_number::peek();
  reports_.reset();
  if (!is_whole) {
    is_over_ = true;
    end_wait();
    transcript_.reset();
    if (has_failed_ && followed_.plan() != nullptr) {
      state_->note_failed_forward(*followed_.plan());
    }
  } else if (frame_.expired() && end_node_ != first_node_) {
    transcript_.reset();
    is_kept_ = true;
    state_->keep(shared_from_this());
  }
  followed_.end_forward();
}

void BudgetStep::end_wait() {
  if (is_waiting_.exchange(false)) {
    guard_.release(*this);
  }
}

bool BudgetStep::may_begin_backward() const {
  return !is_in_forward_ && (is_kept_ || !(is_waiting_ && std::this_thread::get_id() == thread_));
}

bool BudgetStep::has_made_node(std::uint64_t thread, std::uint64_t sequence) const {
  return thread == nodes_thread_ && sequence >= first_node_ && sequence < end_node_;
}

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

std::int64_t BudgetStep::make_room(std::int64_t bytes) {
  const std::shared_ptr<Frame> frame = frame_.lock();
  if (frame == nullptr || !may_evict()) {
    return 0;
  }
  // Without a plan more will follow: each search costs time.
  constexpr std::int64_t kShare = 64;
  const bool is_planned = followed_.plan() != nullptr || has_planned_rest_;
  const std::int64_t at_least = is_planned ? bytes : bytes + limit_bytes_ / kShare;
  begin_replay();
  const absl::Cleanup is_done = [this] { end_replay(); };
  const std::int64_t departed = stored_->wait_for_departures(bytes);
  if (departed >= bytes) {
    return departed;
  }
  const std::int64_t freed = frame->evict(at_least - departed, source_.device());
  evicted_bytes_ += freed;
  shortage_bytes_ = std::max(shortage_bytes_.load(), bytes);
  return departed + freed;
}

void BudgetStep::fail(std::int64_t bytes, std::int64_t bytes_in_use) const {
  has_failed_ = true;
  state_->note_failure();
  for (const auto& step : guard_.steps()) {  // of those that the code which failed has begun
    if (step->state_ == state_ && step->thread_ == thread_ && !step->is_in_forward_) {
      step->end_wait();
    }
  }
  throw BudgetExceededError(c10::str(
      "[memory_budget] a step does not fit into its budget: ", bytes, " bytes are asked for, ",
      bytes_in_use, " bytes are in use, the budget is ", limit_bytes_,
      " bytes, and nothing that is in use could be computed again. ", bytes_before_,
      " bytes were in use when the step began. Use a smaller batch, or raise peak_bytes"));
}

// taken_bytes: of the bytes in use, those that an operator has just taken.
void BudgetStep::keep_limit(std::int64_t bytes, std::int64_t taken_bytes) {
  if (guard_.make_room_for(bytes) > 0) {
    const std::int64_t in_use = source_.bytes_in_use();
    if (in_use > limit_bytes_) {
      fail(bytes + taken_bytes, in_use - taken_bytes);
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

void BudgetStep::before_operator(const Tape& tape) {
  if (transcript_) {
    transcript_->note_releases(tape);
  }
}

void BudgetStep::run(const OperatorCall& call, OperatorInterceptor* next, bool runs_once) {
  if (source_.keeps_limit() || call.traits.is_bookkeeping || call.traits.is_view) {
    run_unguarded(call, next, runs_once);
    return;
  }
  keep_limit(foreseen_bytes(call));
  source_.begin_operator();
  run_unguarded(call, next, runs_once);
  operator_bytes_ = source_.operator_bytes();
  keep_limit(0, operator_bytes_);
}

void BudgetStep::run_unguarded(const OperatorCall& call, OperatorInterceptor* next,
                               bool runs_once) {
  if (transcript_) {
    record_operator(transcript_->recorder(), source_.device(), call, next, runs_once);
  } else {
    pass_on(call, next);
  }
}

void BudgetStep::decide(Tape::Operator& op, std::span<Result> results) {
  op.bytes = operator_bytes_;
  if (const StepScript::Call* const known = followed_.advance(op.op, results)) {
    op.seconds = known->seconds;
    follow(*known, results);
  }
  if (transcript_) {
    op.seconds = transcript_->add(op, results, operator_bytes_);
    sample(op, results);
  }
}

// A recorded step uses no stores: its trace is that of a plain one.
void BudgetStep::follow(const StepScript::Call& known, std::span<Result> results) {
  const StepPlan& plan = *followed_.plan();
  for (std::size_t i = 0; i < results.size(); ++i) {
    const auto number = static_cast<std::uint32_t>(known.first_value + i);
    const planner::Choice choice = plan.choices[number];
    results[i].retained_from = choice.retained_from;
    if (plan.stores.empty() || transcript_) {
      continue;
    }
    stored_->note_result(number, results[i].value);
    if (choice.store != planner::kNone) {
      results[i].store =
          stored_->store_for(number, state_->stores()[choice.store], plan.stores[choice.store]);
    }
  }
}

// With memory that is free even at the step's peak.
void BudgetStep::sample(const Tape::Operator& op, std::span<const Result> results) {
  if (!probe_ || followed_.plan() == nullptr) {
    return;
  }
  begin_replay();
  const absl::Cleanup is_done = [this] { end_replay(); };
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (results[i].tensor.device() == source_.device()) {
      const std::int64_t most =
          std::min(limit_bytes_, bytes_before_ + followed_.plan()->peak_growth);
      probe_->look_at(op.op, i, results[i].tensor, most - source_.bytes_in_use());
    }
  }
}

void BudgetStep::end_forward(absl::FunctionRef<ReadsOfNodes()> nodes) {
  if (transcript_) {
    transcript_->end_forward(nodes());
  }
}

// Until the backward ends that reads a tensor of the step now.
void BudgetStep::hold_backward() {
  const int backward = hooks_internal::current_backward();
  if (backward < 0 || backward_.exchange(backward) == backward) {
    return;
  }
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

void BudgetStep::begin_backward(const Tape& tape) {
  guard_.hold(*this);
  if (transcript_ && !is_in_forward_) {
    transcript_->note_releases(tape);
    if (!transcript_->observes_backward()) {
      end_recording(RecordedBackward::kUnobserved);
    }
  }
}

void BudgetStep::end_recording(RecordedBackward backward) {
  recorded_ = transcript_->finish(backward);
  transcript_.reset();
  is_recorded_by_ = nullptr;
}

void BudgetStep::note_read(TapeValueId value) {
  hold_backward();
  if (transcript_) {
    transcript_->note_read(value);
  }
  if (followed_.plan() != nullptr && !followed_.plan()->fetches.empty()) {
    stored_->note_read(value, *followed_.plan());
  }
  keep_limit(0);
}

std::int64_t BudgetStep::begin_node(std::string_view name) {
  const int backward = backward_;
  const bool is_known = backward >= 0 && backward == hooks_internal::current_backward() &&
                        followed_.plan() != nullptr && !is_over_;
  return is_known ? node_.advance(followed_.plan()->script->nodes, name) : 0;
}

void BudgetStep::before_recomputed(const Tape::Operator& op) { keep_limit(op.bytes); }

void BudgetStep::after_recomputed() {
  if (transcript_) {
    synchronize(source_.device());  // its time is not the node's
  }
  keep_limit(node_.bytes());
}

void BudgetStep::begin_replay() {
  if (transcript_) {
    transcript_->recorder().pause();
  }
}

void BudgetStep::end_replay() {
  if (transcript_) {
    transcript_->recorder().resume();
  }
}

void BudgetStep::end_backward() { guard_.release(*this); }

void BudgetStep::report() {
  const std::shared_ptr<const StepPlan>& plan = followed_.plan();
  EndedStep step;
  step.bytes_before = bytes_before_;
  step.plan = plan;
  step.difference = followed_.difference();
  step.has_failed = has_failed_;
  step.measured.peak_bytes = peak_bytes_;
  step.measured.evicted_bytes = evicted_bytes_;
  step.measured.shortage_bytes = shortage_bytes_;
  step.measured.stored_bytes = stored_->stored_bytes();
  step.measured.has_other_sizes = plan != nullptr && step.difference > 0;
  step.measured.is_recorded = is_recorded_;
  step.measured.seconds = std::chrono::duration<double>(Clock::now() - start_).count();
  if (plan != nullptr && step.difference == 0) {
    // The guard keeps a step of which more was to be expected within the limit.
    step.measured.predicted_peak_bytes = std::min(plan->peak_growth + bytes_before_, limit_bytes_);
    step.measured.predicted_seconds = plan->seconds;
    step.measured.plain_seconds = plan->plain_seconds;
    step.measured.bound_seconds = plan->bound_seconds;
  }
  if (transcript_) {
    end_recording(has_failed_ ? RecordedBackward::kUnfinished : RecordedBackward::kWhole);
  }
  step.recorded = std::move(recorded_);
  if (probe_) {
    step.rates = probe_->rates();
  }
  state_->finish(std::move(step));
}

}  // namespace reprise::engine_internal
