// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: version.h
//
// The version of these headers, for code that has to compile against several. CMake reads it here.
//
// Not for the version of a loaded shared library: that is `reprise::version()`.
//
// Example:
//
//   #if REPRISE_VERSION >= 10100  // 1.1.0
//
// Thread-safety: macros, and a function without state.
#ifndef REPRISE_BASE_VERSION_H_
#define REPRISE_BASE_VERSION_H_

#include "reprise/base/export.h"

#define REPRISE_VERSION_MAJOR 1
#define REPRISE_VERSION_MINOR 0
#define REPRISE_VERSION_PATCH 0

// Major, minor and patch as one number: two decimal digits for each of the last two.
#define REPRISE_VERSION \
  (REPRISE_VERSION_MAJOR * 10000 + REPRISE_VERSION_MINOR * 100 + REPRISE_VERSION_PATCH)

namespace reprise {

// Returns the REPRISE_VERSION that the library in use was built from.
REPRISE_API int version() noexcept;

}  // namespace reprise

#endif  // REPRISE_BASE_VERSION_H_
