// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/budget/budget_step.h"

#include <ATen/SequenceNumber.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "reprise/engine/budget/smallest_budget.h"
#include "reprise/engine/operators/operator_traits.h"
#include "reprise/engine/profile/step_interceptor.h"
#include "reprise/engine/region/settings.h"
#include "reprise/hooks/seam/forwarding_engine.h"

namespace reprise::engine_internal {

BudgetStep::BudgetStep(std::shared_ptr<BudgetState> state)
    : state_(std::move(state)),
      guard_(MemoryGuard::of(state_->device())),
      source_(guard_.source()),
      bytes_before_(source_.bytes_in_use()),
      limit_(state_->limit_for(bytes_before_)),
      supplied_before_(state_->supplied()),
      base_bytes_(bytes_before_ - state_->in_flight().begin(*this) -
                  guard_.supplied_bytes(*state_)),
      followed_(state_->begin_step(),
                [this](const StepScript& script) { return plan_for(script); }),
      stored_(std::make_shared<StoredValues>(guard_, limit_.bytes)) {
  std::shared_ptr<StepRecording> recording;
  if (state_->is_to_record() && (recording = StepRecording::begin(source_))) {
    is_recorded_ = true;
    is_recorded_by_ = recording.get();
    transcript_.emplace(recording);
    if (effective_debug(/*option=*/false)) {
      transcript_->recorder().record_stacks();
    }
    if (!state_->stores().empty()) {
      probe_.emplace(state_->stores(), state_->rates());
    }
  }
  reports_ = source_.observe(recording);
  start_ = Clock::now();
}

BudgetStep::~BudgetStep() {
  guard_.forget(*this);
  state_->in_flight().end(*this);
}

void BudgetStep::begin_forward(std::weak_ptr<Frame> frame) {
  frame_ = std::move(frame);
  nodes_thread_ = at::RecordFunction::currentThreadId();
  first_node_ = at::sequence_number::peek();
  if (const auto recording = StepRecording::of_this_thread();
      recording != nullptr && !is_recorded_by(*recording)) {
    recording->pause_until_backward();
  }
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
    state_->in_flight().end(*this);
    if (has_failed_ && followed_.plan() != nullptr) {
      state_->note_failed_forward(*followed_.plan());
    }
  } else if (frame_.expired() && end_node_ != first_node_) {
    transcript_.reset();
    is_kept_ = true;
    state_->keep(shared_from_this());
  }
  followed_.end_forward();
  if (transcript_ && followed_.plan() != nullptr && followed_.difference() == 0 &&
      state_->has_recorded(*followed_.plan()->script)) {
    transcript_.reset();  // so that steps which begin before its backward can be recorded
    is_recorded_by_ = nullptr;
  }
  if (is_whole) {
    held_bytes_ = source_.bytes_in_use() - state_->in_flight().held_beside(this) -
                  guard_.supplied_bytes(*state_) - base_bytes_;
    const auto& plan = followed_.plan();
    state_->in_flight().end_forward(*this, plan == nullptr ? -1 : plan->script->number,
                                    held_bytes_);
  }
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

void BudgetStep::before_operator(Tape& tape) {
  if (transcript_) {
    transcript_->note_releases(tape);
  }
  if (followed_.take_change()) {
    follow_from_here(tape);
  } else if (followed_.plan() != nullptr) {
    release_due(tape);
  }
}

std::shared_ptr<const StepPlan> BudgetStep::plan_for(const StepScript& script) {
  begin_replay();
  const absl::Cleanup is_done = [this] { end_replay(); };
  auto plan = state_->plan_for(script, limit_, base_bytes_, /*is_under_way=*/operators_ > 0);
  if (plan != nullptr) {
    plans_ += plan->is_new ? 1 : 0;
    planning_seconds_ += plan->planning_seconds;
  }
  return plan;
}

void BudgetStep::run(const OperatorCall& call, OperatorInterceptor* next, RunsOnce once) {
  if (source_.keeps_limit() || call.traits.is_bookkeeping || call.traits.is_view) {
    run_unguarded(call, next, once);
    return;
  }
  keep_limit(foreseen_bytes(call));
  source_.begin_operator();
  run_unguarded(call, next, once);
  operator_bytes_ = source_.operator_bytes();
  keep_limit(0, operator_bytes_);
}

void BudgetStep::run_unguarded(const OperatorCall& call, OperatorInterceptor* next, RunsOnce once) {
  if (transcript_) {
    record_operator(transcript_->recorder(), source_.device(), call, next, once);
  } else {
    pass_on(call, next);
  }
}

void BudgetStep::decide(Tape::Operator& op, std::span<Result> results) {
  ++operators_;
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
    const planner::Choice choice = choice_of(number);
    const bool is_to_stay = plan.script->values[number].until_call > 0;
    if (choice != plan.choices[number]) {
      keeps_more_ = true;
      is_to_align_ = true;
    }
    results[i].retained_from = is_to_stay ? 0 : choice.retained_from;
    if (state_->stores().empty() || transcript_) {
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
      const std::int64_t most = std::min(limit_.bytes, base_bytes_ + followed_.plan()->peak_growth);
      probe_->look_at(op.op, i, results[i].tensor, most - source_.bytes_in_use());
    }
  }
}

void BudgetStep::end_forward(absl::FunctionRef<ReadsOfNodes()> nodes) {
  if (transcript_) {
    transcript_->end_forward(nodes());
  }
}

// With a limit, within which they stay.
bool BudgetStep::keeps_supplied() const {
  if (is_in_forward_ || !state_->has_limit()) {
    return false;
  }
  state_->note_supplied();
  return true;
}

void BudgetStep::begin_backward(const Tape& tape) {
  guard_.hold(*this);
  if (!is_in_forward_ && !has_begun_backward_.exchange(true)) {
    rise_bytes_ = source_.bytes_in_use() - state_->in_flight().held_beside(nullptr) -
                  guard_.supplied_bytes(*state_) - base_bytes_;
  }
  if (transcript_ && !is_in_forward_) {
    transcript_->note_releases(tape);
    transcript_->note_out_of_sight(tape);
    if (!transcript_->observes_backward()) {
      end_recording(RecordedBackward::kUnobserved);
    }
  }
}

void BudgetStep::end_recording(RecordedBackward backward) {
  recorded_ = transcript_->finish(backward, keeps_graph_);
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

void BudgetStep::note_supplied(TapeValueId value, const at::Tensor& tensor) {
  if (transcript_ && transcript_->value_of(value) != planner::kNone) {
    transcript_->recorder().supplied(transcript_->value_of(value), tensor);
  }
}

std::string_view BudgetStep::note_mutation(Tape& tape) {
  if (state_->rewritten().find(tape, RewrittenMemory::By::kContents)) {
    has_found_rewritten_ = true;
  }
  return has_found_rewritten_ ? ". Change a clone instead. The budget has noted it: later steps "
                                "keep what they read there"
                              : ". Change a clone instead";
}

std::int64_t BudgetStep::begin_node(std::string_view name) {
  const int backward = backward_;
  const bool is_known = backward >= 0 && backward == hooks_internal::current_backward() &&
                        followed_.plan() != nullptr && !is_over_;
  return is_known ? node_.advance(followed_.plan()->script->nodes, name) : 0;
}

// Without a plan for so small a budget, what is made again may evict what is needed next, and so
// on.
void BudgetStep::before_recomputed(const Tape::Operator& op) {
  if (evicted_bytes_ > 0 && ++reruns_ > most_reruns() * std::max<std::int64_t>(operators_, 1)) {
    fail({.reruns = reruns_});
  }
  keep_limit(op.bytes);
}

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
  step.bytes_before = base_bytes_;
  step.in_flight = keeps_graph_ ? state_->in_flight().most(*this) : state_->in_flight().end(*this);
  if (has_begun_backward_) {
    step.rise_bytes = rise_bytes_;
  }
  if (evicted_bytes_ == 0 && !followed_.has_changed()) {
    step.held_bytes = held_bytes_;
  }
  step.limit = limit_;
  step.plan = plan;
  step.peak_before_plan = peak_before_plan_;
  step.difference = followed_.difference();
  step.plan_shortage_bytes = plan_shortage_bytes_;
  step.has_failed = has_failed_;
  step.has_supplied = state_->supplied() != supplied_before_ || guard_.supplied_bytes(*state_) > 0;
  step.measured.peak_bytes = peak_bytes_;
  step.measured.limit_bytes = state_->has_limit() ? std::optional(limit_.bytes) : std::nullopt;
  step.measured.evicted_bytes = evicted_bytes_;
  step.measured.shortage_bytes = shortage_bytes_;
  step.measured.stored_bytes = stored_->stored_bytes();
  step.measured.has_other_sizes = plan != nullptr && step.difference > 0;
  step.measured.is_recorded = is_recorded_;
  step.measured.plans = plans_;
  step.measured.planning_seconds = planning_seconds_;
  step.measured.seconds = std::chrono::duration<double>(Clock::now() - start_).count();
  if (plan != nullptr && !plan->is_stopgap && step.difference == 0) {
    // The guard keeps a step of which more was to be expected within the limit.
    step.measured.predicted_peak_bytes =
        std::max(std::min(plan->peak_growth + base_bytes_, limit_.bytes), peak_before_plan_);
    step.measured.predicted_seconds = plan->seconds;
    step.measured.plain_seconds = plan->plain_seconds;
    step.measured.bound_seconds = plan->bound_seconds;
  }
  if (transcript_) {
    end_recording(has_failed_ ? RecordedBackward::kUnfinished : RecordedBackward::kWhole);
  }
  step.recorded = recorded_;  // kept for the error of a later backward
  step.has_found_rewritten = has_found_rewritten_;
  if (probe_) {
    step.rates = probe_->rates();
  }
  state_->finish(std::move(step));
}

}  // namespace reprise::engine_internal
