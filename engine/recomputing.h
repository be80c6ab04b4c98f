// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: recomputing.h
//
// Tells a region's code whether it runs for the first time or in a replay, so that a side effect
// (a counter, a log line, a metric) can be kept to once.
//
// Example:
//
//   auto y = reprise::checkpoint([&](const at::Tensor& x) {
//     if (!reprise::is_recomputing()) ++calls;
//     return layer->forward(x);
//   }, x);
//
// Do not let it change which operators run on tensors that need gradients: the replay must save
// what forward saved.
//
// Thread-safety: thread-safe; the answer is about the calling thread.
#ifndef REPRISE_ENGINE_RECOMPUTING_H_
#define REPRISE_ENGINE_RECOMPUTING_H_

#include "reprise/base/export.h"

namespace reprise {

// True on a thread that is replaying a region, false otherwise. Costs one thread-local read.
[[nodiscard]] REPRISE_API bool is_recomputing() noexcept;

}  // namespace reprise

#endif  // REPRISE_ENGINE_RECOMPUTING_H_
