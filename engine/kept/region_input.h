// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// A tensor argument of a region, retained until the replay.
#ifndef REPRISE_ENGINE_KEPT_REGION_INPUT_H_
#define REPRISE_ENGINE_KEPT_REGION_INPUT_H_

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>
#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "reprise/hooks/stored/store_hooks.h"

namespace reprise::engine_internal {

class RegionInput {
 public:
  // Retains `tensor` in the packed form of the surrounding saved-tensor hooks (in an enclosing
  // region, a slot), or, without hooks, as an alias. Does not modify the caller's tensor, and
  // retains no more of its graph than its node.
  explicit RegionInput(const at::Tensor& tensor);

  // The same for all inputs of a region with this name; in `store`, unless that is null.
  static std::vector<RegionInput> keep_all(const std::vector<at::Tensor>& tensors,
                                           const std::shared_ptr<ActivationStore>& store,
                                           const std::string& region);

  // Returns null unless it is in a store.
  std::shared_ptr<StoredTensor> stored() const { return stored_ ? stored_->stored() : nullptr; }

  // Returns a separate tensor with the values of the original, without graph. May trigger the
  // replay of an enclosing region.
  at::Tensor restore();

  // Returns where the gradient of the original goes; invalid if it requires none.
  const torch::autograd::Edge& edge() const { return edge_; }
  bool is_leaf() const { return is_leaf_; }

  // Returns whether the result of restore() shares the memory of forward's tensor.
  bool is_original(const at::Tensor& restored) const;

  // Returns whether it is in a store, of its own or of a guard, that returns the bytes that it has
  // read.
  bool is_in_exact_store() const;

  // Returns an error message if the result of restore() is in the original memory and that has been
  // modified since forward.
  std::optional<std::string> in_place_change(const at::Tensor& restored) const;

  // Returns whether hooks or a store have to fetch it.
  bool is_packed() const { return packed_ != nullptr; }
  // Either form in which it is retained; null or undefined if it is the other one.
  const torch::autograd::SavedVariableHooks* packed() const { return packed_.get(); }
  const at::Tensor& alias() const { return alias_; }

  std::int64_t kept_bytes() const { return kept_bytes_; }
  // Returns null if the tensor has no storage.
  const void* storage() const { return storage_._unsafe_get_target(); }

 private:
  // stored: the tensor in its store, or null.
  RegionInput(const at::Tensor& tensor, std::unique_ptr<hooks_internal::StoreHooks> stored);

  std::unique_ptr<torch::autograd::SavedVariableHooks> packed_;
  hooks_internal::StoreHooks* stored_ = nullptr;  // is `packed_`, if there is a store
  at::Tensor alias_;
  torch::autograd::Edge edge_;
  // Weak, so that a tensor returned by hooks is not mistaken for it by its address.
  c10::weak_intrusive_ptr<c10::StorageImpl> storage_;
  std::int64_t kept_bytes_ = 0;
  // Of the original. A tensor returned by hooks may have a new counter.
  c10::VariableVersion counter_;
  std::int64_t version_ = 0;
  bool is_leaf_ = false;
  bool has_version_ = false;
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_KEPT_REGION_INPUT_H_
