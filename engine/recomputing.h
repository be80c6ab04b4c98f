// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: recomputing.h
//
// Tells a region's code whether it runs in forward or in a recomputation, so that a side effect (a
// counter, a log line, a metric) can be limited to one.
//
// Example:
//
//   auto y = reprise::checkpoint([&](const at::Tensor& x) {
//     if (!reprise::is_recomputing()) ++calls;
//     return layer->forward(x);
//   }, x);
//
// Not for choosing between operators on tensors that require gradients: a recomputation must save
// the same tensors as forward.
//
// Thread-safety: thread-safe; refers to the calling thread.
#ifndef REPRISE_ENGINE_RECOMPUTING_H_
#define REPRISE_ENGINE_RECOMPUTING_H_

#include "reprise/base/export.h"

namespace reprise {

// Returns whether this thread is recomputing a region. Costs one thread-local read.
[[nodiscard]] REPRISE_API bool is_recomputing() noexcept;

}  // namespace reprise

#endif  // REPRISE_ENGINE_RECOMPUTING_H_
