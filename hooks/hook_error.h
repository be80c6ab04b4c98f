// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: hook_error.h
//
// The error of saved-tensor hooks that break their contract.
//
// Not for errors that hooks themselves throw: those pass unchanged.
//
// Example:
//
//   try {
//     loss.backward();
//   } catch (const reprise::SavedTensorHookError& error) {
//     std::cerr << error.what_without_backtrace() << '\n';
//   }
//
// Thread-safety: values, as any exception.
#ifndef REPRISE_HOOKS_HOOK_ERROR_H_
#define REPRISE_HOOKS_HOOK_ERROR_H_

#include "reprise/base/error.h"
#include "reprise/base/export.h"

namespace reprise {

// An unpack hook returned no tensor, or threw an exception not derived from std::exception (which
// LibTorch's device threads cannot propagate).
class REPRISE_API SavedTensorHookError : public Error {
 public:
  using Error::Error;
};

}  // namespace reprise

#endif  // REPRISE_HOOKS_HOOK_ERROR_H_
