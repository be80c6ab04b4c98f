// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: partition_error.h
//
// What stores over several processes throw when the ranks do not come together: one of them is
// gone, has failed, or wants something else. The message names the ranks and what each wanted.
// Afterwards the group is no longer of use: end the program, or make another one.
//
// Not for options that are wrong: these are `std::invalid_argument`.
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
