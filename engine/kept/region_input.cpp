// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/kept/region_input.h"

#include <c10/util/StringUtil.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "reprise/engine/checks/saved_tensor_record.h"
#include "reprise/engine/kept/graphless_alias.h"
#include "reprise/engine/operators/storage_id.h"
#include "reprise/hooks/seam/forwarding_engine.h"
#include "reprise/hooks/seam/hook_stack.h"
#include "reprise/hooks/seam/unseen_scope.h"
#include "reprise/hooks/stored/exact_tensor.h"
#include "reprise/hooks/stored/store_hooks.h"

namespace reprise::engine_internal {

using hooks_internal::detached_alias;

namespace {

bool goes_through_hooks(const at::Tensor& tensor) {
  // Like autograd, does not pass numbers that LibTorch has wrapped into tensors to hooks.
  return tensor.defined() && !tensor.unsafeGetTensorImpl()->is_wrapped_number() &&
         !tensor.is_inference();
}

}  // namespace

RegionInput::RegionInput(const at::Tensor& tensor) : RegionInput(tensor, nullptr) {}

RegionInput::RegionInput(const at::Tensor& tensor,
                         std::unique_ptr<hooks_internal::StoreHooks> stored)
    : storage_(weak_storage_of(tensor)) {
  if (!tensor.defined()) {
    return;
  }
  kept_bytes_ = tensor.has_storage() ? static_cast<std::int64_t>(tensor.storage().nbytes()) : 0;
  is_leaf_ = tensor.is_leaf();
  has_version_ = !tensor.is_inference();
  if (has_version_) {
    counter_ = tensor.unsafeGetTensorImpl()->version_counter();
    version_ = counter_.current_version();
  }
  if (tensor.requires_grad()) {
    edge_ = torch::autograd::impl::gradient_edge(tensor);
  }
  if (stored) {
    stored_ = stored.get();
    packed_ = std::move(stored);
    return;
  }
  if (goes_through_hooks(tensor)) {
    packed_ = hooks_internal::make_ambient_hooks();
  }
  if (packed_) {
    const hooks_internal::UnseenScope unseen;
    packed_->call_pack_hook(tensor);
  } else {
    alias_ = graphless_alias(tensor);
  }
}

std::vector<RegionInput> RegionInput::keep_all(const std::vector<at::Tensor>& tensors,
                                               const std::shared_ptr<ActivationStore>& store,
                                               const std::string& region) {
  std::vector<RegionInput> inputs;
  inputs.reserve(tensors.size());
  if (store == nullptr) {
    for (const at::Tensor& tensor : tensors) {
      inputs.emplace_back(tensor);
    }
    return inputs;
  }
  std::vector<at::Tensor> to_store;
  std::copy_if(tensors.begin(), tensors.end(), std::back_inserter(to_store), goes_through_hooks);
  auto stored = hooks_internal::StoreHooks::pack_all(store, to_store, region);
  auto next = stored.begin();
  for (const at::Tensor& tensor : tensors) {
    inputs.push_back(
        RegionInput(tensor, goes_through_hooks(tensor) ? std::move(*next++) : nullptr));
  }
  return inputs;
}

at::Tensor RegionInput::restore() {
  at::Tensor data = alias_;
  if (packed_) {
    const hooks_internal::UnseenScope unseen;
    data = packed_->call_unpack_hook();
  }
  if (!data.defined()) {
    return data;
  }
  at::Tensor restored = detached_alias(data);
  if (has_version_ && is_original(restored)) {
    torch::autograd::impl::set_version_counter(restored, counter_);
  }
  return restored;
}

bool RegionInput::is_original(const at::Tensor& restored) const {
  if (restored.defined() && !restored.has_storage()) {
    return storage() == nullptr && !packed_;  // an alias of the original
  }
  return restored.defined() && restored.storage().unsafeGetStorageImpl() == storage();
}

bool RegionInput::is_in_exact_store() const {
  const auto* const hooks = dynamic_cast<const hooks_internal::StoreHooks*>(packed_.get());
  return hooks != nullptr && hooks_internal::is_exact(*hooks->stored());
}

std::optional<std::string> RegionInput::in_place_change(const at::Tensor& restored) const {
  if (!has_version_ || !is_original(restored) || counter_.current_version() == version_) {
    return std::nullopt;
  }
  return c10::str(TensorMetadata(restored).to_string(), ", at version ", counter_.current_version(),
                  ", expected version ", version_);
}

}  // namespace reprise::engine_internal
