// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: error.h
//
// The root of the exceptions that Reprise throws by itself. It derives from `c10::Error`, so a
// program that catches LibTorch's errors catches these as well. An exception of user code passes
// unchanged; contradictory options are a `std::invalid_argument`.
//
// Not for a specific failure: see errors.h of engine, saved_tensor_hooks.h, partition_error.h.
//
// Example:
//
//   try {
//     loss.backward();
//   } catch (const reprise::Error& error) {
//     std::cerr << error.what_without_backtrace() << '\n';
//   }
//
// Thread-safety: values, as any exception.
#ifndef REPRISE_BASE_ERROR_H_
#define REPRISE_BASE_ERROR_H_

#include <c10/util/Exception.h>

#include <string>

#include "reprise/base/export.h"

namespace reprise {

class REPRISE_API Error : public c10::Error {
 public:
  explicit Error(std::string message);
};

}  // namespace reprise

#endif  // REPRISE_BASE_ERROR_H_
