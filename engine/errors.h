// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: errors.h
//
// What Reprise throws by itself. Everything derives from `c10::Error`, so a program that already
// catches LibTorch's errors catches these too. Exceptions of user code pass through unchanged.
// Options that contradict each other are `std::invalid_argument`.
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

// A region cannot be replayed, or was used at the wrong moment.
class REPRISE_API CheckpointError : public Error {
 public:
  using Error::Error;
};

// The replay saved something else than forward did: another number of tensors, other metadata,
// other values. The message names the region and each slot that differs.
class REPRISE_API DeterminismError : public CheckpointError {
 public:
  using CheckpointError::CheckpointError;
};

// A tensor that the region reads, an input or a captured one, was changed in place between forward
// and replay, or by the replay itself.
class REPRISE_API MutationError : public CheckpointError {
 public:
  using CheckpointError::CheckpointError;
};

}  // namespace reprise

#endif  // REPRISE_ENGINE_ERRORS_H_
