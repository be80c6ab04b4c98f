// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Why an operator of a step cannot be computed again, so that its results are retained.
#ifndef REPRISE_ENGINE_OPERATORS_RUNS_ONCE_H_
#define REPRISE_ENGINE_OPERATORS_RUNS_ONCE_H_

#include <cstdint>

namespace reprise::engine_internal {

enum class RunsOnce : std::uint8_t {
  kNo,
  kTransfer,         // between ranks, which would all have to run it again
  kRefilledMemory,   // needed when memory that it reads may have been freed: see RefilledReads
  kRewrittenMemory,  // reads memory that the program writes to before backward
  kUnrecorded,       // a guard, or an argument of a foreign type, leaves it out of the tape
  kOutOfSight,       // its result has been written outside the dispatcher since
  kWrapped,          // its result is of a class of the embedding language
  kUnseen,           // no operator: memory that other code has allocated
};

// Returns the reason in words, for reports; empty if there is none.
constexpr const char* to_text(RunsOnce reason) {
  switch (reason) {
    case RunsOnce::kNo:
      return "";
    case RunsOnce::kTransfer:
      return "a collective or another transfer between ranks";
    case RunsOnce::kRefilledMemory:
      return "needed outside of the unit whose gathered parameters it reads";
    case RunsOnce::kRewrittenMemory:
      return "reads memory that is written before backward";
    case RunsOnce::kUnrecorded:
      return "left out of the tape";
    case RunsOnce::kOutOfSight:
      return "its result is written through a pointer or on another thread";
    case RunsOnce::kWrapped:
      return "its result is inside a tensor of a Python class";
    case RunsOnce::kUnseen:
      return "no operator is seen to make it";
  }
  return "";
}

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_OPERATORS_RUNS_ONCE_H_
