// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/profile/step_recorder.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <utility>

#include "reprise/engine/operators/autograd_facts.h"
#include "reprise/engine/operators/storage_id.h"
#include "reprise/engine/report/stack_trace.h"
#include "reprise/hooks/seam/owner_count.h"

namespace reprise::engine_internal {
namespace {

using planner::kNone;
using planner::OperatorId;
using planner::Value;
using planner::ValueId;
using planner::ValueKind;

std::atomic<StepRecorder::Now> g_now = &StepRecorder::Clock::now;

// Returns null for tensors without memory.
const void* block_of(const at::Tensor& tensor) {
  const c10::StorageImpl* const storage = storage_of(tensor);
  return storage == nullptr || storage->nbytes() == 0 ? nullptr : storage->data_ptr().get();
}

// The first reason counts.
void forbid_rerun(planner::Operator& op, RunsOnce once) {
  if (op.can_recompute) {
    op.can_recompute = false;
    op.once = to_text(once);
  }
}

}  // namespace

void StepRecorder::set_clock(Now now) { g_now.store(now); }
StepRecorder::Clock::time_point StepRecorder::now() { return g_now.load()(); }

void StepRecorder::begin(const std::string& name) {
  if (is_running_) {
    end();  // an exception has left it
  }
  trace_.operators.push_back({.name = name});
  is_running_ = true;
  allocations_.clear();
  live_at_begin_ = live_at_most_ = live_bytes_;
  operator_start_ = now();
}

void StepRecorder::end() {
  planner::Operator& op = trace_.operators.back();
  op.seconds = seconds_since(operator_start_);
  std::int64_t results = 0;
  for (const Allocation& each : allocations_) {
    const ValueKind kind = is_in_backward_ ? ValueKind::kGradient : ValueKind::kActivation;
    op.results.push_back(add_value({.bytes = each.bytes, .kind = kind}, each.block));
    results += each.bytes;
  }
  op.workspace_bytes = std::max<std::int64_t>(0, live_at_most_ - live_at_begin_ - results);
  allocations_.clear();
  is_running_ = false;
}

void StepRecorder::begin_operator(const std::string& name, RunsOnce once,
                                  const std::vector<at::Tensor>& reads) {
  std::string stack = records_stacks_ ? stack_trace()->get() : std::string();
  const MutexLock lock(mutex_);
  note_releases();
  begin(name);
  trace_.operators.back().can_recompute = once == RunsOnce::kNo;
  trace_.operators.back().once = to_text(once);
  trace_.operators.back().stack = std::move(stack);
  for (const at::Tensor& tensor : reads) {
    const ValueId value = value_in(tensor);
    add_read(value);
    hold(value);
  }
}

// A backward inside forward reads values that the program itself has let go of.
void StepRecorder::hold(ValueId value) {
  if (value != kNone && !is_in_backward_ && trace_.values[value].released != kNone) {
    trace_.values[value].released = current();
    read_for_gradients_.insert(value);
  }
}

void StepRecorder::end_operator(const std::vector<at::Tensor>& written, RunsOnce once) {
  const MutexLock lock(mutex_);
  if (!is_running_) {
    return;
  }
  end();
  last_seconds_ = trace_.operators.back().seconds;
  if (once != RunsOnce::kNo) {
    forbid_rerun(trace_.operators.back(), once);
  }
  for (const at::Tensor& tensor : written) {
    take_over(tensor);
  }
}

void StepRecorder::note_once(const at::Tensor& tensor, RunsOnce once) {
  const MutexLock lock(mutex_);
  const auto found = values_.find(block_of(tensor));
  if (is_finished_ || found == values_.end() || is_from_outside_[found->second]) {
    return;
  }
  const auto is_maker = [value = found->second](const planner::Operator& op) {
    return std::find(op.results.begin(), op.results.end(), value) != op.results.end();
  };
  const auto maker = std::find_if(trace_.operators.rbegin(), trace_.operators.rend(), is_maker);
  if (maker != trace_.operators.rend()) {
    forbid_rerun(*maker, once);
  }
}

double StepRecorder::last_seconds() const {
  const MutexLock lock(mutex_);
  return last_seconds_;
}

// A write to a tensor from outside the step is an effect, which a recomputation does not repeat.
void StepRecorder::take_over(const at::Tensor& tensor) {
  const ValueId before = value_in(tensor);
  std::vector<ValueId>& results = trace_.operators.back().results;
  if (before == kNone || is_from_outside_[before] ||
      std::find(results.begin(), results.end(), before) != results.end()) {
    return;
  }
  trace_.values[before].released = current();
  results.push_back(add_value({.bytes = trace_.values[before].bytes,
                               .overwrites = before,
                               .kind = trace_.values[before].kind},
                              block_of(tensor)));
}

void StepRecorder::begin_node(const std::string& name) {
  const MutexLock lock(mutex_);
  if (node_depth_++ == 0 && !is_finished_) {
    note_releases();
    begin_backward();
    begin(name);
    trace_.operators.back().can_recompute = false;
  }
}

void StepRecorder::end_node() {
  const MutexLock lock(mutex_);
  if (--node_depth_ == 0 && is_running_) {
    end();
  }
}

bool StepRecorder::is_in_node() const {
  const MutexLock lock(mutex_);
  return node_depth_ > 0;
}

void StepRecorder::begin_backward() {
  if (!is_in_backward_) {
    add_rest("between operators of forward", 0);
    trace_.backward_begin = current() + 1;
    is_in_backward_ = true;
    start_ = now();
  }
}

// The time that no operator since `first` has taken.
void StepRecorder::add_rest(const std::string& name, OperatorId first) {
  double rest = seconds_since(start_);
  for (OperatorId op = first; op <= current(); ++op) {
    rest -= trace_.operators[op].seconds;
  }
  begin(name);
  end();
  trace_.operators.back().seconds = std::max(0.0, rest);
  trace_.operators.back().can_recompute = false;
}

void StepRecorder::allocated(const void* block, std::int64_t bytes, std::int64_t total_bytes) {
  const MutexLock lock(mutex_);
  if (is_finished_) {
    return;
  }
  if (pauses_ > 0) {
    not_of_step_.insert(block);
    return;
  }
  if (bytes_before_ < 0) {
    bytes_before_ = total_bytes - bytes;
  }
  const bool is_between = !is_running_;
  if (is_between) {
    begin("memory allocated outside of operators");
    trace_.operators.back().can_recompute = false;
    trace_.operators.back().once = to_text(RunsOnce::kUnseen);
  }
  allocations_.push_back({block, bytes});
  live_bytes_ += bytes;
  live_at_most_ = std::max(live_at_most_, live_bytes_);
  if (is_between) {
    end();
  }
}

void StepRecorder::allocated_elsewhere(const void* block) {
  const MutexLock lock(mutex_);
  if (!is_finished_) {
    not_of_step_.insert(block);
  }
}

bool StepRecorder::is_running() const {
  const MutexLock lock(mutex_);
  return is_running_;
}

void StepRecorder::freed(const void* block, std::int64_t bytes) {
  const MutexLock lock(mutex_);
  if (is_finished_) {
    return;
  }
  if (not_of_step_.erase(block) > 0) {
    values_.erase(block);
    return;
  }
  live_bytes_ -= pauses_ > 0 ? 0 : bytes;
  const auto allocation = std::find_if(allocations_.begin(), allocations_.end(),
                                       [&](const Allocation& each) { return each.block == block; });
  if (allocation != allocations_.end()) {
    allocations_.erase(allocation);
    return;
  }
  const auto found = values_.find(block);
  if (found == values_.end() && pauses_ > 0) {
    return;  // another step's
  }
  const ValueId value =
      found != values_.end()
          ? found->second
          : add_value_from_outside({.bytes = bytes, .kind = ValueKind::kOther}, block);
  if (trace_.values[value].released == kNone) {
    trace_.values[value].released = std::max(current(), 0);
  }
  values_.erase(block);
}

ValueId StepRecorder::add_value(Value value, const void* block) {
  const ValueId id = trace_.add_value(std::move(value));
  is_from_outside_.push_back(false);
  values_[block] = id;
  return id;
}

ValueId StepRecorder::add_value_from_outside(Value value, const void* block) {
  const ValueId id = add_value(std::move(value), block);
  is_from_outside_[id] = true;
  return id;
}

ValueId StepRecorder::value_in(const at::Tensor& tensor) {
  const void* const block = tensor.defined() ? block_of(tensor) : nullptr;
  if (block == nullptr) {
    return kNone;
  }
  const auto found = values_.find(block);
  if (found != values_.end() && !is_from_outside_[found->second]) {
    return found->second;
  }
  const bool is_here = tensor.device() == device_;
  const ValueId value =
      found != values_.end()
          ? found->second
          : add_value_from_outside(
                {.bytes = is_here ? static_cast<std::int64_t>(storage_of(tensor)->nbytes()) : 0,
                 .kind = ValueKind::kInput},
                block);
  if (is_leaf_with_gradient(tensor)) {  // an alias that autograd saves is not one
    trace_.values[value].kind = ValueKind::kParameter;
  }
  return value;
}

void StepRecorder::add_read(ValueId value) {
  std::vector<ValueId>& reads = trace_.operators.back().reads;
  if (value != kNone && std::find(reads.begin(), reads.end(), value) == reads.end()) {
    reads.push_back(value);
  }
}

void StepRecorder::pause() {
  const MutexLock lock(mutex_);
  if (pauses_++ == 0) {
    pause_start_ = now();
  }
}

void StepRecorder::resume() {
  const MutexLock lock(mutex_);
  if (--pauses_ == 0) {
    const Clock::duration pause = now() - pause_start_;
    start_ += pause;
    operator_start_ += pause;
  }
}

ValueId StepRecorder::value_of(const at::Tensor& tensor) const {
  const MutexLock lock(mutex_);
  const auto found = values_.find(block_of(tensor));
  return found == values_.end() || is_from_outside_[found->second] ? kNone : found->second;
}

void StepRecorder::note_release(ValueId value) {
  const MutexLock lock(mutex_);
  if (trace_.values[value].released == kNone) {
    trace_.values[value].released = is_in_backward_ ? trace_.backward_begin - 1 : current();
  }
}

void StepRecorder::supplied(ValueId value, const at::Tensor& tensor) {
  const MutexLock lock(mutex_);
  if (const void* const block = block_of(tensor); not_of_step_.contains(block)) {
    values_[block] = value;
  }
}

absl::flat_hash_set<ValueId> StepRecorder::read_for_gradients() const {
  const MutexLock lock(mutex_);
  return read_for_gradients_;
}

planner::OperatorId StepRecorder::last_operator() const {
  const MutexLock lock(mutex_);
  return current();
}

ValueId StepRecorder::saved(const at::Tensor& tensor) {
  const MutexLock lock(mutex_);
  const ValueId value = value_in(tensor);
  if (value != kNone) {
    SavedBlock& block = saved_[block_of(tensor)];
    block.storage = storage_of(tensor);
    ++block.references;
  }
  return value;
}

void StepRecorder::dropped(const at::Tensor& tensor) {
  const MutexLock lock(mutex_);
  const auto found = saved_.find(block_of(tensor));
  if (found != saved_.end() && --found->second.references == 0) {
    saved_.erase(found);
  }
}

void StepRecorder::read(ValueId value) {
  const MutexLock lock(mutex_);
  if (value != kNone && node_depth_ > 0 && trace_.values[value].kind != ValueKind::kGradient) {
    add_read(value);
  }
}

void StepRecorder::note_releases() {
  if (current() < 0) {
    return;
  }
  for (const auto& [block, saved] : saved_) {
    Value& value = trace_.values[values_.at(block)];
    if (value.released == kNone &&
        hooks_internal::owner_count(*saved.storage) == saved.references) {
      value.released = current();
    }
  }
}

double StepRecorder::seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(now() - start).count();
}

planner::Trace StepRecorder::finish() {
  const MutexLock lock(mutex_);
  is_finished_ = true;
  note_releases();
  const OperatorId first = is_in_backward_ ? trace_.backward_begin : 0;
  add_rest(is_in_backward_ ? "between operators of backward" : "between operators of forward",
           first);
  if (!is_in_backward_) {
    trace_.backward_begin = current() + 1;
  }
  add_memory_before(trace_);
  return std::move(trace_);
}

planner::Trace StepRecorder::trace_of_forward() {
  const MutexLock lock(mutex_);
  note_releases();
  planner::Trace trace = trace_;
  if (!is_in_backward_) {
    trace.backward_begin = current() + 1;
  }
  for (OperatorId op = trace.backward_begin; op <= current(); ++op) {
    for (const ValueId result : trace.operators[op].results) {
      trace.values[result] = {};
    }
  }
  trace.operators.resize(trace.backward_begin);
  for (Value& value : trace.values) {
    value.released = std::min(value.released, trace.backward_begin - 1);
  }
  add_memory_before(trace);
  return trace;
}

std::vector<planner::Operator> StepRecorder::ended_nodes() const {
  const MutexLock lock(mutex_);
  std::vector<planner::Operator> nodes;
  const OperatorId end = is_running_ ? current() : current() + 1;
  for (OperatorId op = is_in_backward_ ? trace_.backward_begin : end; op < end; ++op) {
    nodes.push_back(trace_.operators[op]);
    for (const ValueId result : std::exchange(nodes.back().results, {})) {
      nodes.back().workspace_bytes += trace_.values[result].bytes;
    }
  }
  return nodes;
}

void StepRecorder::add_memory_before(planner::Trace& trace) const {
  std::int64_t bytes_before = std::max<std::int64_t>(0, bytes_before_);
  for (std::size_t value = 0; value < trace_.values.size(); ++value) {
    bytes_before -= is_from_outside_[value] ? trace.values[value].bytes : 0;
  }
  trace.add_value({.bytes = std::max<std::int64_t>(0, bytes_before),
                   .kind = ValueKind::kOther,
                   .name = "other memory from before the step"});
}

}  // namespace reprise::engine_internal
