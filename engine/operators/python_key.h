// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Note [Python's key]: Python's dispatch modes and tensor subclasses run other operators in an
// operator's place. Up to LibTorch 2.12 a region sees the operator first, and not those. From 2.13
// on Python's key is above Fake: a region sees the operators that they run, on the tensors inside a
// subclass, and no operator of a region's code makes the subclass itself.
#ifndef REPRISE_ENGINE_OPERATORS_PYTHON_KEY_H_
#define REPRISE_ENGINE_OPERATORS_PYTHON_KEY_H_

#include <c10/core/DispatchKey.h>

namespace reprise::engine_internal {

// On which regions see operators: see Note [The key].
inline constexpr auto kInterceptedKey = c10::DispatchKey::Fake;

inline constexpr bool kIsPythonAbove = kInterceptedKey < c10::DispatchKey::Python;

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_OPERATORS_PYTHON_KEY_H_
