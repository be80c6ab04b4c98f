// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Exceptions that pass TorchScript's interpreter.
#ifndef REPRISE_HOOKS_SEAM_TORCHSCRIPT_ERRORS_H_
#define REPRISE_HOOKS_SEAM_TORCHSCRIPT_ERRORS_H_

#include <memory>

#include "reprise/base/export.h"

namespace reprise::hooks_internal {

// TorchScript's interpreter turns each exception into a std::runtime_error of the same text, unless
// a flag of LibTorch's has the interpreter pass exceptions on. The flag is set while a result is
// alive: an exception to keep its type owns one. It is one for the process: other exceptions of
// TorchScript at that time keep their types as well, and their texts lack the script's stack.
// Thread-safe.
[[nodiscard]] REPRISE_API std::shared_ptr<const void> pass_exceptions_through_torchscript();

}  // namespace reprise::hooks_internal

#endif  // REPRISE_HOOKS_SEAM_TORCHSCRIPT_ERRORS_H_
