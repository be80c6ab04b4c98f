// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Note [Wrapped memory]: a function region that calls from_blob() makes a new tensor in each run,
// of version 0, and a replay writes to it again. That is right for a buffer of the region's own,
// and wrong for one that outlives the region, which forward's writes have modified already. Only
// the contents distinguish them. The watch therefore compares, on the CPU, some bytes of wrapped
// tensors from outside that an operator reads, and after each write the written elements.
#ifndef REPRISE_ENGINE_WATCH_WRAPPED_MEMORY_H_
#define REPRISE_ENGINE_WATCH_WRAPPED_MEMORY_H_

#include <ATen/core/Tensor.h>

#include <vector>

#include "absl/container/flat_hash_set.h"
#include "reprise/engine/checks/fingerprint.h"
#include "reprise/engine/checks/provenance.h"
#include "reprise/engine/operators/interception.h"
#include "reprise/engine/operators/storage_id.h"

namespace reprise::engine_internal {

// Returns true for tensors with elements that the host can read: strided, of the CPU.
bool is_dense_cpu(const at::Tensor& tensor);
// Returns true for such tensors whose memory was not allocated by LibTorch.
bool is_wrapped(const at::Tensor& tensor);

// One per run of a region.
class WrappedWrites {
 public:
  // The operator is about to run: records the targets that this run appears to have wrapped itself.
  // made: the memory that its operators have made.
  std::vector<at::Tensor> targets(const OperatorCall& call, const ProvenanceMap& made);

  static std::vector<Fingerprint> fingerprints(const std::vector<at::Tensor>& targets);

 private:
  absl::flat_hash_set<StorageId> written_;
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_WATCH_WRAPPED_MEMORY_H_
