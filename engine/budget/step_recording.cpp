// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/budget/step_recording.h"

#include <utility>

#include "absl/base/thread_annotations.h"
#include "reprise/base/threading/mutex.h"
#include "reprise/engine/allocation/cpu_allocations.h"

namespace reprise::engine_internal {
namespace {

Mutex g_mutex;
std::weak_ptr<StepRecording> g_recording ABSL_GUARDED_BY(g_mutex);
// The same until it has ended, which is later than its last owner lets go of it.
const StepRecording* g_current ABSL_GUARDED_BY(g_mutex) = nullptr;

thread_local int t_nodes = 0;  // of a recorded backward, that this thread evaluates

// The callbacks are those of forward's thread, which LibTorch passes on to the threads of its
// backward.
std::unique_ptr<at::ObserverContext> on_node_begin(const at::RecordFunction& node) {
  if (const auto recording = StepRecording::now()) {
    ++t_nodes;
    recording->recorder().begin_node(node.name());
  }
  return nullptr;
}

void on_node_end(const at::RecordFunction& /*node*/, at::ObserverContext* /*context*/) {
  if (const auto recording = StepRecording::now(); recording != nullptr && t_nodes > 0) {
    --t_nodes;
    recording->recorder().end_node();
  }
}

}  // namespace

std::shared_ptr<StepRecording> StepRecording::now() {
  const MutexLock lock(g_mutex);
  return g_recording.lock();
}

StepRecording::StepRecording()
    : recorder_(c10::Device(c10::DeviceType::CPU)),
      nodes_(at::addThreadLocalCallback(at::RecordFunctionCallback(&on_node_begin, &on_node_end)
                                            .scopes({at::RecordScope::BACKWARD_FUNCTION}))) {}

std::shared_ptr<StepRecording> StepRecording::begin() {
  const MutexLock lock(g_mutex);
  if (g_current != nullptr) {
    return nullptr;
  }
  std::shared_ptr<StepRecording> recording(new StepRecording);
  g_recording = recording;
  g_current = recording.get();
  report_cpu_blocks(true);
  return recording;
}

std::shared_ptr<StepRecording> StepRecording::of_this_thread() {
  std::shared_ptr<StepRecording> recording = StepRecording::now();
  const bool is_of_it =
      recording != nullptr && (t_nodes > 0 || recording->thread_ == std::this_thread::get_id());
  return is_of_it ? std::move(recording) : nullptr;
}

// LibTorch finds a callback only on the thread that has added it. One that stays elsewhere finds no
// recording.
void StepRecording::end() {
  if (!std::exchange(is_ended_, true)) {
    if (std::this_thread::get_id() == thread_) {
      at::removeCallback(nodes_);
    }
    t_nodes = 0;
    const MutexLock lock(g_mutex);
    report_cpu_blocks(false);
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
