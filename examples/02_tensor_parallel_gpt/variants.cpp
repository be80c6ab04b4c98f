// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "variants.h"

#include <utility>

#include "reprise/engine/checkpoint.h"
#include "reprise/hooks/host_store.h"
#include "reprise/partition/partitioned_store.h"

namespace tensor_parallel_gpt {
namespace {

BlockRunner checkpointed(const reprise::CheckpointOptions& options) {
  return [options](const Callable& block, const std::string& region, const at::Tensor& h) {
    reprise::CheckpointOptions named = options;
    named.name = region;
    return reprise::checkpoint(std::move(named), block, h);
  };
}

}  // namespace

std::vector<std::string> variant_names() {
  return {kNone, kCheckpoint, kPartition, kPartitionHost};
}

Variant make_variant(const std::string& name, const Ranks& ranks) {
  namespace stores = reprise::stores;
  if (name == kNone) {
    return {name, [](const Callable& block, const std::string& /*region*/, const at::Tensor& h) {
              return block(h);
            }};
  }
  if (name == kCheckpoint) {
    return {name, checkpointed({})};
  }
  const auto parts = stores::partitioned(ranks.group);
  if (name == kPartition) {
    return {name, checkpointed({.input_store = parts})};
  }
  // Two steps ahead: one brings a rank's part from the host, the next gathers.
  return {name, checkpointed({.input_store = parts | stores::host(), .prefetch_depth = 2})};
}

}  // namespace tensor_parallel_gpt
