// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/watch/wrapped_memory.h"

#include <ATen/core/grad_mode.h>

#include "reprise/engine/operators/operator_traits.h"

namespace reprise::engine_internal {

bool is_dense_cpu(const at::Tensor& tensor) {
  return tensor.is_cpu() && ProvenanceMap::is_followed(tensor) &&
         storage_of(tensor)->nbytes() > 0 && !is_beyond_storage(tensor);
}

bool is_wrapped(const at::Tensor& tensor) {
  const c10::StorageImpl* const storage = storage_of(tensor);
  return storage != nullptr && storage->allocator() == nullptr && is_dense_cpu(tensor);
}

std::vector<at::Tensor> WrappedWrites::targets(const OperatorCall& call,
                                               const ProvenanceMap& made) {
  std::vector<at::Tensor> targets;
  if (!call.traits.is_aten || call.traits.undeclared) {  // they count no writes
    return targets;
  }
  const auto arguments = call.arguments();
  for (const std::uint32_t index : call.traits.written(arguments)) {
    for_each_tensor(arguments[index], [&](const at::Tensor& tensor) {
      const StorageId memory = storage_id_of(tensor);
      if (made.find(memory) != nullptr || !is_wrapped(tensor)) {
        return;
      }
      if (is_unwritten(tensor)) {
        written_.insert(memory);
      }
      if (written_.contains(memory)) {
        targets.push_back(tensor);
      }
    });
  }
  return targets;
}

std::vector<Fingerprint> WrappedWrites::fingerprints(const std::vector<at::Tensor>& targets) {
  const at::NoGradGuard no_grad;
  const InterceptionScope unseen(nullptr);
  std::vector<Fingerprint> fingerprints;
  for (const at::Tensor& target : targets) {
    fingerprints.push_back(Fingerprint::of(target));
  }
  return fingerprints;
}

}  // namespace reprise::engine_internal
