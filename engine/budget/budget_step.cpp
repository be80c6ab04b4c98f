// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/budget/budget_step.h"

#include <c10/util/StringUtil.h>

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "reprise/engine/operators/operator_traits.h"
#include "reprise/engine/operators/storage_id.h"
#include "reprise/engine/profile/step_interceptor.h"
#include "reprise/hooks/seam/forwarding_engine.h"

namespace reprise::engine_internal {

using Why = Tape::Given::Why;

namespace {

// Returns false for a recording that other threads have disturbed.
bool is_valid(const planner::Trace& trace) {
  try {
    trace.validate();
    return true;
  } catch (const std::invalid_argument&) {
    return false;
  }
}

}  // namespace

BudgetStep::BudgetStep(std::shared_ptr<BudgetState> state)
    : state_(std::move(state)),
      guard_(MemoryGuard::of(state_->device())),
      source_(guard_.source()),
      limit_bytes_(state_->aim().max_overhead ? std::numeric_limits<std::int64_t>::max()
                                              : state_->aim().peak_bytes),
      bytes_before_(source_.bytes_in_use()) {
  for (auto& plan : state_->plans_for(bytes_before_)) {
    candidates_.push_back({std::move(plan)});
  }
  choose_plan();
  if (state_->is_to_record()) {
    recording_ = StepRecording::begin(source_);
    is_recorded_by_ = recording_.get();
  }
  reports_ = source_.observe(recording_);
  start_ = Clock::now();
}

BudgetStep::~BudgetStep() { guard_.remove(*this); }

void BudgetStep::begin_forward(std::weak_ptr<Frame> frame) {
  frame_ = std::move(frame);
  guard_.add(shared_from_this());
}

void BudgetStep::end_forward(bool is_whole) {
  is_in_forward_ = false;
  reports_.reset();
  if (!is_whole) {
    is_over_ = true;
    recording_.reset();
  }
  std::erase_if(candidates_, [this](const Candidate& candidate) {
    return candidate.plan->script->calls.size() != calls_;
  });
  choose_plan();
}

bool BudgetStep::is_on_its_thread() const {
  return is_in_forward_ ? std::this_thread::get_id() == thread_
                        : hooks_internal::current_backward() >= 0;
}

void BudgetStep::raise_peak(std::int64_t bytes) {
  std::int64_t known = peak_bytes_.load();
  while (known < bytes && !peak_bytes_.compare_exchange_weak(known, bytes)) {
  }
}

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
  const std::int64_t at_least = plan_ == nullptr ? bytes + limit_bytes_ / kShare : bytes;
  begin_replay();
  const absl::Cleanup is_done = [this] { end_replay(); };
  const std::int64_t freed = frame->evict(at_least, source_.device());
  evicted_bytes_ += freed;
  shortage_bytes_ = std::max(shortage_bytes_.load(), bytes);
  return freed;
}

void BudgetStep::fail(std::int64_t bytes, std::int64_t bytes_in_use) const {
  has_failed_ = true;
  state_->note_failure();
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
  if (plan_ != nullptr && calls_ < plan_->script->calls.size() &&
      plan_->script->calls[calls_].op == call.op) {
    return plan_->script->calls[calls_].bytes;
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
  if (recording_ != nullptr) {
    note_releases(tape);
  }
}

void BudgetStep::run(const OperatorCall& call, OperatorInterceptor* next) {
  if (source_.keeps_limit() || call.traits.is_bookkeeping || call.traits.is_view) {
    run_unguarded(call, next);
    return;
  }
  keep_limit(foreseen_bytes(call));
  source_.begin_operator();
  run_unguarded(call, next);
  operator_bytes_ = source_.operator_bytes();
  keep_limit(0, operator_bytes_);
}

void BudgetStep::run_unguarded(const OperatorCall& call, OperatorInterceptor* next) {
  if (recording_ != nullptr) {
    record_operator(recording_->recorder(), source_.device(), call, next);
  } else {
    pass_on(call, next);
  }
}

void BudgetStep::note_releases(const Tape& tape) {
  for (const auto& [value, given] : tape.given) {
    if (given.why == Why::kPolicy && given.kept.alias.defined() && values_.contains(value) &&
        values_[value] != planner::kNone && given.kept.alias.storage().use_count() == 1) {
      recording_->recorder().note_release(values_[value]);
    }
  }
}

void BudgetStep::decide(Tape::Operator& op, std::span<Result> results) {
  follow(op, results);
  if (plan_ != nullptr) {
    const StepScript::Call& call = plan_->script->calls[calls_];
    op.seconds = call.seconds;
    for (std::size_t i = 0; i < results.size(); ++i) {
      results[i].retained_from = plan_->choices[call.first_value + i].retained_from;
    }
  }
  op.bytes = operator_bytes_;
  ++calls_;
  if (recording_ != nullptr) {
    record(op, results);
    op.seconds = script_.calls.back().seconds;
  }
}

void BudgetStep::follow(const Tape::Operator& op, std::span<const Result> results) {
  std::erase_if(candidates_, [&](Candidate& candidate) {
    const auto difference = candidate.plan->script->difference(calls_, op.op, results);
    candidate.difference += difference.value_or(0);
    return !difference;
  });
  choose_plan();
}

void BudgetStep::choose_plan() {
  const auto closest = std::min_element(
      candidates_.begin(), candidates_.end(),
      [](const Candidate& a, const Candidate& b) { return a.difference < b.difference; });
  plan_ = closest == candidates_.end() ? nullptr : closest->plan;
  difference_ = plan_ == nullptr ? 0 : closest->difference;
}

void BudgetStep::record(const Tape::Operator& op, std::span<const Result> results) {
  StepRecorder& recorder = recording_->recorder();
  const auto first = static_cast<std::uint32_t>(script_.values.size());
  for (const Result& result : results) {
    const planner::ValueId id = recorder.value_of(result.tensor);
    script_.values.push_back({id, result.bytes});
    if (!values_.contains(result.value)) {
      values_.resize(result.value.number() + 1, planner::kNone);
    }
    values_[result.value] = id;
  }
  script_.calls.push_back({op.op, first, static_cast<std::uint32_t>(script_.values.size()),
                           static_cast<float>(recorder.last_seconds()), operator_bytes_});
}

void BudgetStep::end_forward(absl::FunctionRef<ReadsOfNodes()> nodes) {
  if (recording_ != nullptr) {
    nodes_ = nodes();
    reads_.resize(values_.size());
  }
}

void BudgetStep::begin_backward(const Tape& tape) {
  if (backwards_++ == 0) {
    guard_.add(shared_from_this());
  }
  backward_ = hooks_internal::current_backward();
  if (recording_ != nullptr) {
    note_releases(tape);
  }
}

void BudgetStep::note_read(TapeValueId value) {
  if (recording_ != nullptr && values_.contains(value)) {
    recording_->recorder().read(values_[value]);
    if (reads_.contains(value)) {
      ++reads_[value];
    }
  }
  keep_limit(0);
}

// Adds the nodes that backward has not come to.
void BudgetStep::complete_recording() {
  for (const std::vector<TapeValueId>& node : nodes_) {
    const auto was_read = [this](TapeValueId value) {
      return !reads_.contains(value) || reads_[value] > 0;
    };
    if (std::all_of(node.begin(), node.end(), was_read)) {
      for (const TapeValueId value : node) {
        if (reads_.contains(value)) {
          --reads_[value];
        }
      }
      continue;
    }
    std::vector<planner::ValueId> values;
    for (const TapeValueId value : node) {
      if (values_.contains(value)) {
        values.push_back(values_[value]);
      }
    }
    recording_->recorder().add_node(values);
  }
}

std::int64_t BudgetStep::begin_node(std::string_view name) {
  const int backward = backward_;
  const bool is_known = backward >= 0 && backward == hooks_internal::current_backward() &&
                        plan_ != nullptr && !is_over_;
  return is_known ? node_.advance(plan_->script->nodes, name) : 0;
}

void BudgetStep::before_recomputed(const Tape::Operator& op) { keep_limit(op.bytes); }

void BudgetStep::after_recomputed() {
  if (recording_ != nullptr) {
    synchronize(source_.device());  // its time is not the node's
  }
  keep_limit(node_.bytes());
}

void BudgetStep::begin_replay() {
  if (recording_ != nullptr) {
    recording_->recorder().pause();
  }
}

void BudgetStep::end_replay() {
  if (recording_ != nullptr) {
    recording_->recorder().resume();
  }
}

void BudgetStep::end_backward() {
  if (--backwards_ == 0) {
    guard_.remove(*this);
  }
  if (!is_over_.exchange(true)) {
    report();
  }
}

void BudgetStep::report() {
  EndedStep step;
  step.bytes_before = bytes_before_;
  step.plan = plan_;
  step.difference = difference_;
  step.has_failed = has_failed_;
  step.measured.peak_bytes = peak_bytes_;
  step.measured.evicted_bytes = evicted_bytes_;
  step.measured.shortage_bytes = shortage_bytes_;
  step.measured.has_other_sizes = plan_ != nullptr && difference_ > 0;
  step.measured.seconds = std::chrono::duration<double>(Clock::now() - start_).count();
  if (plan_ != nullptr && difference_ == 0) {
    // The guard keeps a step of which more was to be expected within the limit.
    step.measured.predicted_peak_bytes = std::min(plan_->peak_growth + bytes_before_, limit_bytes_);
    step.measured.predicted_seconds = plan_->seconds;
    step.measured.plain_seconds = plan_->plain_seconds;
    step.measured.bound_seconds = plan_->bound_seconds;
  }
  if (recording_ != nullptr) {
    step.measured.is_recorded = true;
    if (has_failed_) {
      complete_recording();
    }
    RecordedStep recorded{std::move(script_), recording_->finish(), !has_failed_};
    recording_.reset();
    recorded.script.nodes = needs_of_nodes(recorded.trace);
    if (is_valid(recorded.trace)) {
      step.recorded = std::move(recorded);
    }
  }
  state_->finish(std::move(step));
}

}  // namespace reprise::engine_internal
