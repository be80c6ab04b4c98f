// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// A region with default options, whose object must not contain the functions that Note [Compile
// time] keeps out of it.
#include <ATen/core/Tensor.h>

#include "reprise/engine/checkpoint.h"

namespace reprise::headers_test {

at::Tensor block(const at::Tensor& x);
at::Tensor region(const at::Tensor& x);

at::Tensor region(const at::Tensor& x) { return checkpoint(&block, x); }

}  // namespace reprise::headers_test
