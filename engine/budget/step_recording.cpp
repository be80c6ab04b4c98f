// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/budget/step_recording.h"

#include <ATen/Parallel.h>

#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "reprise/base/threading/mutex.h"
#include "reprise/engine/profile/step_interceptor.h"

namespace reprise::engine_internal {
namespace {

Mutex g_mutex;
std::weak_ptr<StepRecording> g_recording ABSL_GUARDED_BY(g_mutex);
// The same until it has ended, which is later than its last owner lets go of it.
const StepRecording* g_current ABSL_GUARDED_BY(g_mutex) = nullptr;

// Of a recorded backward, the nodes that this thread evaluates: whether each is another step's.
thread_local std::vector<bool> t_nodes;

}  // namespace

std::shared_ptr<StepRecording> StepRecording::now() {
  const MutexLock lock(g_mutex);
  return g_recording.lock();
}

std::shared_ptr<StepRecording> StepRecording::begin(MemorySource& source) {
  if (!source.can_observe()) {
    return nullptr;
  }
  const MutexLock lock(g_mutex);
  if (g_current != nullptr) {
    return nullptr;
  }
  std::shared_ptr<StepRecording> recording(new StepRecording(source));
  g_recording = recording;
  g_current = recording.get();
  source.report_blocks(true);
  return recording;
}

std::shared_ptr<StepRecording> StepRecording::of_this_thread() {
  std::shared_ptr<StepRecording> recording = StepRecording::now();
  return recording != nullptr && recording->is_on_its_thread() ? std::move(recording) : nullptr;
}

bool StepRecording::is_on_its_thread() const {
  return !t_nodes.empty() || thread_ == std::this_thread::get_id();
}

// Kernels allocate on their worker threads, too.
void StepRecording::allocated_on_any_thread(const void* block, std::int64_t bytes,
                                            std::int64_t bytes_in_use) {
  if (is_on_its_thread() || (at::in_parallel_region() && recorder_.is_running())) {
    recorder_.allocated(block, bytes, bytes_in_use);
  } else {
    recorder_.allocated_elsewhere(block);
  }
}

PausedRecording::PausedRecording() : recording_(StepRecording::of_this_thread()) {
  if (recording_ != nullptr) {
    recording_->recorder().pause();
  }
}

PausedRecording::~PausedRecording() {
  if (recording_ != nullptr) {
    recording_->recorder().resume();
  }
}

void StepRecording::pause_until_backward() {
  if (!is_in_forward_ && !observes_backward_ && !std::exchange(is_paused_, true)) {
    recorder_.pause();
  }
}

void StepRecording::begin_backward(IsOfOthers is_of_others) {
  is_of_others_ = std::move(is_of_others);
  if (std::exchange(is_paused_, false)) {
    recorder_.resume();
  }
  observes_backward_ = true;
  if (const std::int64_t bytes = source_.take_unreported(); bytes > 0) {
    recorder_.allocated(this, bytes, bytes);
  }
}

void StepRecording::begin_node(const at::RecordFunction& node) {
  synchronize(source_.device());
  const bool is_of_others =
      is_of_others_ &&
      is_of_others_(node.forwardThreadId(), static_cast<std::uint64_t>(node.seqNr()));
  t_nodes.push_back(is_of_others);
  if (is_of_others) {
    recorder_.pause();
  } else {
    recorder_.begin_node(node.name());
  }
}

void StepRecording::end_node() {
  if (t_nodes.empty()) {
    return;
  }
  synchronize(source_.device());
  const bool is_of_others = t_nodes.back();
  t_nodes.pop_back();
  if (is_of_others) {
    recorder_.resume();
  } else {
    recorder_.end_node();
  }
}

void StepRecording::end() {
  if (!std::exchange(is_ended_, true)) {
    t_nodes.clear();
    const MutexLock lock(g_mutex);
    source_.report_blocks(false);
    g_recording.reset();
    g_current = nullptr;
  }
}

StepRecording::~StepRecording() { end(); }

planner::Trace StepRecording::finish() {
  end();
  return recorder_.finish();
}

}  // namespace reprise::engine_internal
