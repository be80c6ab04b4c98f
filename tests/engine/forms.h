// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Code in a region of each form, with default options.
#ifndef REPRISE_TESTS_ENGINE_FORMS_H_
#define REPRISE_TESTS_ENGINE_FORMS_H_

#include <ATen/core/Tensor.h>

#include <functional>

#include "reprise/engine/checkpoint.h"
#include "reprise/engine/checkpoint_scope.h"

namespace reprise::testing {

using Code = std::function<at::Tensor(const at::Tensor&)>;

inline at::Tensor in_scope(const Code& code, const at::Tensor& x) {
  const CheckpointScope scope;
  return code(x);
}

inline at::Tensor in_tape(const Code& code, const at::Tensor& x) {
  return checkpoint({.replay = ReplayMode::kTape}, code, x);
}

inline at::Tensor in_function(const Code& code, const at::Tensor& x) { return checkpoint(code, x); }

inline at::Tensor in_place(const Code& code, const at::Tensor& x) { return code(x); }

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_ENGINE_FORMS_H_
