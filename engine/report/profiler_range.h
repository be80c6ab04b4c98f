// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Ranges of regions in LibTorch's profiler.
#ifndef REPRISE_ENGINE_REPORT_PROFILER_RANGE_H_
#define REPRISE_ENGINE_REPORT_PROFILER_RANGE_H_

#include <ATen/record_function.h>

#include <string>

namespace reprise::engine_internal {

// While alive, profilers show a range "<what>(<name>)". Costs next to nothing without a profiler.
class ProfilerRange {
 public:
  ProfilerRange(const char* what, const std::string& name) : range_(at::RecordScope::USER_SCOPE) {
    if (range_.isActive()) {
      range_.before(std::string(what) + "(" + name + ")");
    }
  }

 private:
  at::RecordFunction range_;
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_REPORT_PROFILER_RANGE_H_
