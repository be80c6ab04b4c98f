// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// A tensor that wraps another one, as Python's wrapper subclasses do: its elements are elsewhere,
// and each operator below autograd runs on what it wraps.
#ifndef REPRISE_TESTS_TESTING_WRAPPER_TENSOR_H_
#define REPRISE_TESTS_TESTING_WRAPPER_TENSOR_H_

#include <ATen/core/Tensor.h>

namespace reprise::testing {

// has_storage: of a null pointer; otherwise none, and whoever asks for it gets an exception.
at::Tensor wrap(const at::Tensor& inside, bool has_storage);

bool is_wrapped(const at::Tensor& tensor);
at::Tensor inside_of(const at::Tensor& wrapper);

// Between the two kinds, with gradients.
at::Tensor to_wrapper(const at::Tensor& x, bool has_storage);
at::Tensor from_wrapper(const at::Tensor& wrapper);

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_TESTING_WRAPPER_TENSOR_H_
