// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: memory_limit.h
//
// The largest batches that fit below a limit on the bytes of all tensors.
#ifndef RESNET_MEMORY_LIMIT_H_
#define RESNET_MEMORY_LIMIT_H_

#include <cstdint>

#include "images.h"
#include "options.h"

namespace resnet {

enum class StepKind { kPlain, kCheckpointed, kBudgeted };

// Returns the most images whose step fits, found by trying: forward and backward below the limit,
// or out of memory. A multiple of an eighth of `--batch`, up to the number of `images`.
std::int64_t find_largest_batch(const Options& options, const ImageSet& images, StepKind kind,
                                std::int64_t limit_bytes);

}  // namespace resnet

#endif  // RESNET_MEMORY_LIMIT_H_
