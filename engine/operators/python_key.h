// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Note [Python's key]: Python's dispatch modes and tensor subclasses run other operators in an
// operator's place. Up to LibTorch 2.12 a region sees the operator first, and not those. From 2.13
// on Python's key is above Fake: a region sees the operators that they run, on the tensors inside a
// subclass, and no operator of a region's code makes the subclass itself.
#ifndef REPRISE_ENGINE_OPERATORS_PYTHON_KEY_H_
#define REPRISE_ENGINE_OPERATORS_PYTHON_KEY_H_

#include <ATen/core/Tensor.h>
#include <c10/core/DispatchKey.h>

namespace reprise::engine_internal {

inline constexpr bool kIsPythonAbove = c10::DispatchKey::Fake < c10::DispatchKey::Python;

// Returns whether the tensor is of a subclass with operators of its own, which run in place of
// those that a region sees.
inline bool is_made_by_python(const at::Tensor& tensor) {
  return kIsPythonAbove && tensor.key_set().has(c10::DispatchKey::Python);
}

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_OPERATORS_PYTHON_KEY_H_
