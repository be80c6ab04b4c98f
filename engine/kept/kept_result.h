// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// A result of an operator that is kept between forward and the replays.
#ifndef REPRISE_ENGINE_KEPT_KEPT_RESULT_H_
#define REPRISE_ENGINE_KEPT_KEPT_RESULT_H_

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <cstdint>
#include <memory>

#include "reprise/engine/checks/saved_tensor_record.h"
#include "reprise/engine/watch/memory_sample.h"
#include "reprise/hooks/activation_store.h"
#include "reprise/hooks/storage/kept_tensor.h"
#include "reprise/hooks/storage/memory_layout.h"
#include "reprise/policies/checkpoint_policy.h"

namespace reprise::engine_internal {

using hooks_internal::is_dense;
using hooks_internal::version_of;

// An alias without graph that shares the version counter, what a store holds, or what the
// surrounding saved-tensor hooks have made of it.
struct KeptResult {
  KeptResult() = default;
  // An alias. place: where put_away() puts it; null for nowhere else.
  explicit KeptResult(const at::Tensor& tensor, std::shared_ptr<ActivationStore> place = nullptr);

  at::Tensor alias;
  std::int64_t version = 0;
  std::shared_ptr<ActivationStore> store;
  std::shared_ptr<StoredTensor> stored;
  std::unique_ptr<torch::autograd::SavedVariableHooks> packed;

  MemorySample sample = 0;      // of the alias, when it was made
  bool is_overwritten = false;  // by an operator that replays run again
  bool is_snapshot = false;     // of memory that such an operator has written since
  bool is_in_flight = false;    // see OperatorTraits

  // To its store, if it has one and is not there, and is not in flight. To be called when autograd
  // has counted the last write.
  void put_away();
  // Copies the values, which `tensor` holds still, before an operator that replays run again writes
  // to their memory. Does nothing if that has been done before.
  void take_snapshot(const at::Tensor& tensor);
  // A copy of the caller's own of a snapshot; otherwise not to be changed in place.
  at::Tensor get() const;

  bool is_defined() const { return alias.defined() || stored || packed; }
  bool is_mutated() const {
    return is_overwritten ||
           (alias.defined() && !alias.is_inference() && alias._version() != version);
  }
};

// Where a result of the operator that has been answered for lives. Null for where it is.
std::shared_ptr<ActivationStore> store_of(const PolicyAnswer& answer, const at::Tensor& result);

// False for sparse, nested and quantized tensors and those of lazy conjugation.
bool is_keepable(const at::Tensor& tensor);

// The geometry of a result.
struct MadeTensor {
  explicit MadeTensor(const at::Tensor& tensor)
      : metadata(tensor), storage_offset(tensor.storage_offset()) {}

  TensorMetadata metadata;
  std::int64_t storage_offset;
};

// The whole of a result, given a tensor in its memory.
at::Tensor whole_result(const at::Tensor& tensor, const MadeTensor& made);

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_KEPT_KEPT_RESULT_H_
