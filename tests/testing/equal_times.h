// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Recorded steps that do not depend on the load of the machine.
#ifndef REPRISE_TESTS_TESTING_EQUAL_TIMES_H_
#define REPRISE_TESTS_TESTING_EQUAL_TIMES_H_

#include <atomic>
#include <chrono>

#include "reprise/engine/profile/step_recorder.h"

namespace reprise::testing {

// While alive, all recorded operators take the same time: evictions and plans that followed the
// load of the machine would differ.
class EqualTimes {
 public:
  EqualTimes() { Recorder::set_clock(&tick); }
  ~EqualTimes() { Recorder::set_clock(&Recorder::Clock::now); }
  EqualTimes(const EqualTimes&) = delete;
  EqualTimes& operator=(const EqualTimes&) = delete;

 private:
  using Recorder = engine_internal::StepRecorder;

  static Recorder::Clock::time_point tick() {
    static std::atomic<int> ticks = 0;
    return Recorder::Clock::time_point(std::chrono::microseconds(++ticks));
  }
};

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_TESTING_EQUAL_TIMES_H_
