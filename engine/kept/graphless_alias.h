// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#ifndef REPRISE_ENGINE_KEPT_GRAPHLESS_ALIAS_H_
#define REPRISE_ENGINE_KEPT_GRAPHLESS_ALIAS_H_

#include <ATen/core/Tensor.h>

namespace reprise::engine_internal {

// Returns a detached alias that owns no graph in its parts either. A compressed sparse tensor owns
// the values that it was made of as they are; retained by a region, they would own it.
at::Tensor graphless_alias(const at::Tensor& tensor);

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_KEPT_GRAPHLESS_ALIAS_H_
