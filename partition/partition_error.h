// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: partition_error.h
//
// The exception of stores over several processes if the ranks do not agree: one of them has exited,
// has failed, or requests another collective. The message names the ranks and their requests. The
// group is unusable afterwards: end the program, or make another group.
//
// Not for invalid options, which throw `std::invalid_argument`.
//
// Example:
//
//   try {
//     loss.backward();
//   } catch (const reprise::PartitionError& error) {
//     std::cerr << error.what_without_backtrace() << '\n';
//   }
//
// Thread-safety: values, as any exception.
#ifndef REPRISE_PARTITION_PARTITION_ERROR_H_
#define REPRISE_PARTITION_PARTITION_ERROR_H_

#include "reprise/base/error.h"
#include "reprise/base/export.h"

namespace reprise {

class REPRISE_API PartitionError : public Error {
 public:
  using Error::Error;
};

}  // namespace reprise

#endif  // REPRISE_PARTITION_PARTITION_ERROR_H_
