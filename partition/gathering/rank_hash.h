// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// A hash of tensors' bytes, for ranks to compare.
#ifndef REPRISE_PARTITION_GATHERING_RANK_HASH_H_
#define REPRISE_PARTITION_GATHERING_RANK_HASH_H_

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace reprise::partition_internal {

// Returns a hash of rows of bytes; different values almost surely have different hashes.
// Synchronises.
std::string rank_hash(const std::vector<at::Tensor>& rows);

}  // namespace reprise::partition_internal

#endif  // REPRISE_PARTITION_GATHERING_RANK_HASH_H_
