// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// A tensor argument of a region, kept until the replay.
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

#include "reprise/hooks/storage/store_hooks.h"

namespace reprise::engine_internal {

class RegionInput {
 public:
  // Keeps `tensor` as the surrounding saved-tensor hooks want it (an enclosing region makes a slot
  // of it), or an alias without them. The caller's tensor is not touched, and its graph is not held
  // beyond the node that it comes from.
  explicit RegionInput(const at::Tensor& tensor);

  // The same of all inputs of a region, by its name; in `store`, unless that is null.
  static std::vector<RegionInput> keep_all(const std::vector<at::Tensor>& tensors,
                                           const std::shared_ptr<ActivationStore>& store,
                                           const std::string& region);

  // Null unless it is in a store.
  std::shared_ptr<StoredTensor> stored() const { return stored_ ? stored_->stored() : nullptr; }

  // What the region's code gets in a replay: the values, the requires-grad, the leaf-ness and the
  // edge to the graph of the original, in a tensor of its own. May trigger the replay of an
  // enclosing region.
  at::Tensor restore();

  // True if what restore() gave shares the memory of the tensor that forward got.
  bool is_original(const at::Tensor& restored) const;

  // Words for an error if what restore() gave is no longer what forward got.
  std::optional<std::string> in_place_change(const at::Tensor& restored) const;

  // True if hooks or a store have to bring it back.
  bool is_packed() const { return packed_ != nullptr; }

  std::int64_t kept_bytes() const { return kept_bytes_; }
  // Null if the tensor has no storage.
  const void* storage() const { return storage_._unsafe_get_target(); }

 private:
  // stored: the tensor in its store, or null.
  RegionInput(const at::Tensor& tensor, std::unique_ptr<hooks_internal::StoreHooks> stored);

  std::unique_ptr<torch::autograd::SavedVariableHooks> packed_;
  hooks_internal::StoreHooks* stored_ = nullptr;  // is `packed_`, if there is a store
  at::Tensor alias_;
  torch::autograd::Edge edge_;
  // Held weakly, so that what the hooks bring back is not taken for it by its address.
  c10::weak_intrusive_ptr<c10::StorageImpl> storage_;
  std::int64_t kept_bytes_ = 0;
  // Of the original. What the hooks bring back may count anew.
  c10::VariableVersion counter_;
  std::int64_t version_ = 0;
  bool requires_grad_ = false;
  bool has_version_ = false;
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_KEPT_REGION_INPUT_H_
