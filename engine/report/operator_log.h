// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The operators that a region ran, with C++ stack traces, for debug mode.
#ifndef REPRISE_ENGINE_REPORT_OPERATOR_LOG_H_
#define REPRISE_ENGINE_REPORT_OPERATOR_LOG_H_

#include <c10/util/Backtrace.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "reprise/base/export.h"

namespace reprise::engine_internal {

class OperatorRecording;

struct OperatorLog {
  struct Entry {
    std::string op;            // "aten::add.Tensor"
    std::string inputs;        // "float[2, 3] cpu, float[3] cpu, 1"
    c10::Backtrace backtrace;  // symbolised on demand
  };

  std::vector<Entry> entries;
};

// While alive, appends to `log`, which must outlive it, each operator that runs on this thread, or
// for it on a thread of a backward. With nested guards, each log receives it.
//
// Lists operators that have a derivative of their own: instead of a composite operator (linear,
// dropout, matmul) its parts, because the parts save tensors; and no operators inside a listed one.
//
// Entries may arrive from several threads at once; read `log` after the guard's destruction.
class [[nodiscard]] REPRISE_API OperatorLogGuard {
 public:
  explicit OperatorLogGuard(OperatorLog& log);
  ~OperatorLogGuard();
  OperatorLogGuard(const OperatorLogGuard&) = delete;
  OperatorLogGuard& operator=(const OperatorLogGuard&) = delete;

 private:
  std::shared_ptr<OperatorRecording> recording_;
  std::shared_ptr<c10::ThreadLocalDebugInfo> found_info_;
  const c10::ThreadLocalDebugInfo* pushed_ = nullptr;
  std::uint64_t callback_ = 0;
  int found_listed_depth_;
  int found_depth_;
};

// Returns a human-readable description: the position of the first difference, both lists from there
// on, and the stack traces of the first operators that differ. To be appended to the message of a
// DeterminismError; ends with a newline.
REPRISE_API std::string describe_difference(const OperatorLog& forward,
                                            const OperatorLog& recompute);

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_REPORT_OPERATOR_LOG_H_
