// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: errors.h
//
// The exceptions of regions. All derive from `reprise::Error` and so from `c10::Error`: a program
// that catches LibTorch's errors catches these as well. Exceptions of user code pass unchanged;
// contradictory options are a `std::invalid_argument`.
//
// Example:
//
//   try {
//     loss.backward();
//   } catch (const reprise::DeterminismError& error) {
//     std::cerr << error.what_without_backtrace() << '\n';  // names region, slot, difference
//   }
//
// Thread-safety: values, as any exception.
#ifndef REPRISE_ENGINE_ERRORS_H_
#define REPRISE_ENGINE_ERRORS_H_

#include "reprise/base/error.h"
#include "reprise/base/export.h"

namespace reprise {

// A region cannot be recomputed, or was used at the wrong moment.
class REPRISE_API CheckpointError : public Error {
 public:
  using Error::Error;
};

// The recomputation differs from forward: in the number of saved tensors, their metadata, their
// values, or the operators that made them. The message names the region and each slot that differs.
class REPRISE_API DeterminismError : public CheckpointError {
 public:
  using CheckpointError::CheckpointError;
};

// A tensor that the region reads, an input or a captured one, was modified in place between forward
// and recomputation, or by the recomputation itself.
class REPRISE_API MutationError : public CheckpointError {
 public:
  using CheckpointError::CheckpointError;
};

}  // namespace reprise

#endif  // REPRISE_ENGINE_ERRORS_H_
