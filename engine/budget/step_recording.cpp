// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/budget/step_recording.h"

#include <utility>

#include "absl/base/thread_annotations.h"
#include "reprise/base/threading/mutex.h"
#include "reprise/engine/profile/step_interceptor.h"

namespace reprise::engine_internal {
namespace {

Mutex g_mutex;
std::weak_ptr<StepRecording> g_recording ABSL_GUARDED_BY(g_mutex);
// The same until it has ended, which is later than its last owner lets go of it.
const StepRecording* g_current ABSL_GUARDED_BY(g_mutex) = nullptr;

thread_local int t_nodes = 0;  // of a recorded backward, that this thread evaluates

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
  const bool is_of_it =
      recording != nullptr && (t_nodes > 0 || recording->thread_ == std::this_thread::get_id());
  return is_of_it ? std::move(recording) : nullptr;
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

void StepRecording::begin_backward() {
  if (std::exchange(is_paused_, false)) {
    recorder_.resume();
  }
  observes_backward_ = true;
  if (const std::int64_t bytes = source_.take_unreported(); bytes > 0) {
    recorder_.allocated(this, bytes, bytes);
  }
}

void StepRecording::begin_node(const std::string& name) {
  synchronize(source_.device());
  ++t_nodes;
  recorder_.begin_node(name);
}

void StepRecording::end_node() {
  if (t_nodes > 0) {
    synchronize(source_.device());
    --t_nodes;
    recorder_.end_node();
  }
}

void StepRecording::end() {
  if (!std::exchange(is_ended_, true)) {
    t_nodes = 0;
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
