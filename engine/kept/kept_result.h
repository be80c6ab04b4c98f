// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// An operator's result that is retained between forward and the replays.
#ifndef REPRISE_ENGINE_KEPT_KEPT_RESULT_H_
#define REPRISE_ENGINE_KEPT_KEPT_RESULT_H_

#include <ATen/core/Tensor.h>
#include <c10/core/TensorImpl.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "reprise/engine/checks/saved_tensor_record.h"
#include "reprise/engine/operators/uncounted_writes.h"
#include "reprise/engine/watch/memory_sample.h"
#include "reprise/hooks/activation_store.h"
#include "reprise/hooks/storage/alias.h"
#include "reprise/hooks/storage/memory_layout.h"
#include "reprise/hooks/storage/storage_origin.h"
#include "reprise/policies/checkpoint_policy.h"

namespace reprise::engine_internal {

using hooks_internal::is_dense;

// An alias without graph that shares the version counter, a tensor in a store, or the packed form
// of the surrounding saved-tensor hooks.
struct KeptResult {
  KeptResult() = default;
  // Makes an alias. place: the store that put_away() uses, or null.
  explicit KeptResult(const at::Tensor& tensor, std::shared_ptr<ActivationStore> place = nullptr);

  at::Tensor alias;
  std::int64_t version = 0;
  WriteMoment moment = 0;  // when that was the version, see Note [Uncounted writes]
  std::shared_ptr<ActivationStore> store;
  std::shared_ptr<StoredTensor> stored;
  std::unique_ptr<const hooks_internal::StorageOrigin> origin;  // of a stored result
  std::unique_ptr<torch::autograd::SavedVariableHooks> packed;

  // Of a part of a tensor of a class of the embedding language: writes to that are counted there.
  struct Whole {
    c10::VariableVersion counter;
    std::int64_t version;
  };
  std::unique_ptr<const Whole> whole;  // null for any other

  MemorySample sample = 0;    // of its storage, when it was made
  bool is_snapshot = false;   // of memory that such an operator has written since
  bool is_in_flight = false;  // see OperatorTraits

  // Puts the result into its store, if it has one, is not there yet, and is not in flight. To be
  // called after autograd has counted the last write.
  void put_away();
  // Copies the values, which `tensor` still holds, before an operator that replays run again writes
  // to their memory. No effect the second time.
  void take_snapshot(const at::Tensor& tensor);
  // Returns a copy of a snapshot that belongs to the caller; any other result must not be modified.
  at::Tensor get() const;

  bool is_defined() const { return alias.defined() || stored || packed; }
  // Returns nullopt if the result has been mutated or written through a pointer; a stored one,
  // before its store was done with its memory.
  std::optional<at::Tensor> get_unless_mutated() const;
  // "<the tensor>, kept at version 2, is now at version 3", "<the tensor> was written through a
  // pointer"
  std::string describe_mutation() const;

  bool is_mutated() const {
    return is_written_as_part() ||
           (alias.defined() && !alias.is_inference() && version_of(alias) != version) ||
           (origin && !origin->is_unchanged());
  }
  bool is_written_as_part() const {
    return whole && whole->counter.current_version() != whole->version;
  }
  // As far as a sample of the bytes tells.
  bool is_written_through_pointer() const;
  // result: as fetched from the store.
  bool is_read_too_late(const at::Tensor& result) const;
  bool has_sample() const { return sample != 0 && !is_in_flight && !is_snapshot; }
  // As far as the sample tells.
  bool holds_other_bytes(const at::Tensor& memory) const;
};

// Returns the store for a result with this answer. Null: it stays where it is.
std::shared_ptr<ActivationStore> store_of(const PolicyAnswer& answer, const at::Tensor& result);

// Returns false for sparse, nested, quantized and lazily conjugated tensors.
bool is_keepable(const at::Tensor& tensor);

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_KEPT_KEPT_RESULT_H_
