// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/hooks/storage/storage_origin.h"

#include <torch/csrc/autograd/variable.h>

#include <utility>

#include "reprise/hooks/storage/alias.h"
#include "reprise/hooks/storage/memory_layout.h"

namespace reprise::hooks_internal {
namespace {

std::optional<c10::VariableVersion> counter_of(const at::Tensor& tensor) {
  return tensor.is_inference() ? std::nullopt
                               : std::optional(tensor.unsafeGetTensorImpl()->version_counter());
}

}  // namespace

StorageOrigin::StorageOrigin(const at::Tensor& bytes)
    : size_(bytes.nbytes()),
      keys_(bytes.key_set()),
      original_(bytes.storage().getWeakStorageImpl()),
      counter_(counter_of(bytes)),
      version_(version_of(bytes)),
      given_(c10::intrusive_ptr<c10::StorageImpl>()) {}

bool StorageOrigin::is_unchanged() const {
  return !counter_ || counter_->current_version() == version_;
}

bool StorageOrigin::is_of(const at::Tensor& bytes) const {
  return address() == bytes.storage().unsafeGetStorageImpl() && size_ == byte_count(bytes) &&
         version_ == version_of(bytes) && is_unchanged();
}

at::Tensor StorageOrigin::find_alive() const {
  if (is_unchanged()) {
    if (at::Tensor original = alias_of(original_); original.defined()) {
      if (counter_) {
        torch::autograd::impl::set_version_counter(original, *counter_);
      }
      return original;
    }
  }
  return alias_of(given_);
}

at::Tensor StorageOrigin::alias_of(const WeakStorage& storage) const {
  const c10::StorageImpl* const known = storage._unsafe_get_target();
  if (known == nullptr || static_cast<std::int64_t>(known->nbytes()) != size_) {
    return {};
  }
  auto locked = storage.lock();
  if (!locked) {
    return {};
  }
  at::Tensor bytes = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(std::move(locked)), keys_, c10::scalarTypeToTypeMeta(at::kByte));
  bytes.unsafeGetTensorImpl()->set_sizes_contiguous({static_cast<std::int64_t>(size_)});
  return bytes;
}

}  // namespace reprise::hooks_internal
