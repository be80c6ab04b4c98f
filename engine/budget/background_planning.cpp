// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/budget/background_planning.h"

#include <unistd.h>

#include <chrono>
#include <system_error>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "reprise/base/threading/mutex.h"

namespace reprise::engine_internal {
namespace {

Mutex g_mutex;
std::function<void()> g_observer ABSL_GUARDED_BY(g_mutex);

std::function<void()> observer() {
  const MutexLock lock(g_mutex);
  return g_observer;
}

}  // namespace

void set_background_planning_observer(std::function<void()> observer) {
  const MutexLock lock(g_mutex);
  g_observer.swap(observer);
}

BackgroundPlanning::~BackgroundPlanning() {
  if (has_forked()) {
    static_cast<void>(job_.release());  // its thread would have to be joined
  } else if (job_ != nullptr) {
    job_->thread.join();
  }
}

bool BackgroundPlanning::has_forked() const {
  return job_ != nullptr && job_->process != ::getpid();
}

bool BackgroundPlanning::begin(std::shared_ptr<StepPlanner> planner, PlanRequest request) {
  if (job_ != nullptr) {
    return false;
  }
  auto job = std::make_unique<Job>();
  job->outcome.planner = std::move(planner);
  job->outcome.request = std::move(request);
  job->process = ::getpid();
  std::packaged_task<void()> task([job = job.get(), observe = observer()] {
    if (observe) {
      observe();
    }
    job->outcome.found = job->outcome.planner->find(job->outcome.request);
  });
  job->is_done = task.get_future().share();
  try {
    job->thread = std::thread(std::move(task));
  } catch (const std::system_error&) {
    return false;
  }
  job_ = std::move(job);
  return true;
}

std::optional<BackgroundPlanning::Outcome> BackgroundPlanning::take() {
  if (job_ == nullptr) {
    return std::nullopt;
  }
  if (has_forked()) {
    Job* const lost = job_.release();
    return Outcome{lost->outcome.planner, lost->outcome.request, std::nullopt, /*is_lost=*/true};
  }
  if (job_->is_done.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
    return std::nullopt;
  }
  const std::unique_ptr<Job> job = std::move(job_);
  job->thread.join();
  try {
    job->is_done.get();
  } catch (...) {
    job->outcome.error = std::current_exception();
  }
  return std::move(job->outcome);
}

std::shared_future<void> BackgroundPlanning::pending() const {
  return job_ == nullptr || has_forked() ? std::shared_future<void>() : job_->is_done;
}

}  // namespace reprise::engine_internal
