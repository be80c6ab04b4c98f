// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Identity of the memory behind arguments and results of operators.
#ifndef REPRISE_ENGINE_OPERATORS_STORAGE_ID_H_
#define REPRISE_ENGINE_OPERATORS_STORAGE_ID_H_

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/core/StorageImpl.h>
#include <c10/util/intrusive_ptr.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <typeinfo>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "reprise/hooks/storage/alias.h"
#include "reprise/hooks/storage/memory_layout.h"

namespace reprise::engine_internal {

using hooks_internal::version_of;

// A storage, or a tensor without one, by address.
using StorageId = const void*;
using StorageIdList = absl::InlinedVector<StorageId, 8>;

// Returns null for a tensor without a storage.
inline c10::StorageImpl* storage_of(const at::Tensor& tensor) {
  return tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
}

inline StorageId storage_id_of(const at::Tensor& tensor) {
  const c10::StorageImpl* const storage = storage_of(tensor);
  return storage != nullptr ? static_cast<StorageId>(storage) : tensor.unsafeGetTensorImpl();
}

// Returns whether the tensor does not own its memory, as from from_blob(). For tensors with a
// storage.
inline bool is_non_owning(const at::Tensor& tensor) {
  const c10::StorageImpl& storage = *storage_of(tensor);
  const c10::DataPtr& data = storage.data_ptr();
  return storage.nbytes() > 0 && data.get() != nullptr && data.get_context() == nullptr;
}

// Identity of a version counter, by address. Aliases of one memory may have several, as after
// Tensor::data and set_data(): versions of different counters do not compare.
using CounterId = const void*;

inline CounterId counter_id_of(const at::Tensor& tensor) {
  const c10::VariableVersion& counter = tensor.unsafeGetTensorImpl()->version_counter();
  static_assert(sizeof(counter) == sizeof(CounterId), "consists of a pointer");
  CounterId id = nullptr;
  std::memcpy(&id, static_cast<const void*>(&counter), sizeof(id));
  return id;
}

// Returns whether no write to the tensor has been counted, and it is not an alias with a counter of
// its own (Tensor::data).
inline bool is_unwritten(const at::Tensor& tensor) {
  return !tensor.is_inference() && version_of(tensor) == 0 &&
         (tensor.is_view() || !tensor.has_storage() || tensor.storage().use_count() == 1);
}

// Returns whether the tensor extends beyond its storage, like a parameter that an outside manager
// has freed by resizing its storage.
inline bool is_beyond_storage(const at::Tensor& tensor) {
  if (!hooks_internal::is_dense(tensor) || tensor.numel() == 0) {
    return false;
  }
  std::int64_t last = tensor.storage_offset();
  for (std::int64_t dim = 0; dim < tensor.dim(); ++dim) {
    last += (tensor.size(dim) - 1) * tensor.stride(dim);
  }
  const auto bytes = static_cast<std::int64_t>(storage_of(tensor)->nbytes());
  return (last + 1) * static_cast<std::int64_t>(tensor.itemsize()) > bytes;
}

// Returns whether the elements of the tensor, in row-major order, are all of its storage.
inline bool covers_storage(const at::Tensor& tensor) {
  return hooks_internal::is_dense(tensor) && tensor.storage_offset() == 0 &&
         tensor.is_contiguous() && tensor.nbytes() == tensor.storage().nbytes();
}

// state: of `tensor`, as OperatorInterceptor::state_before() returns it. Returns false if it is of
// the tensor's elements alone.
inline bool has_whole_storage(const at::Tensor& state, const at::Tensor& tensor) {
  return hooks_internal::is_dense(tensor) &&
         state.storage().nbytes() == tensor.storage().nbytes() &&
         state.storage_offset() == tensor.storage_offset();
}

// Returns whether the elements of a tensor of another class, in Python like DTensor or in C++, are
// elsewhere, or nowhere.
inline bool is_wrapper(const at::Tensor& tensor) {
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  const bool is_of_other_class = impl.key_set().has(c10::DispatchKey::Python) ||
                                 (typeid(impl) != typeid(c10::TensorImpl) &&
                                  impl.layout() == at::kStrided && !impl.is_nested());
  return is_of_other_class && tensor.numel() > 0 &&
         (!impl.has_storage() ||
          storage_of(tensor)->_mutable_data_ptr_no_checks().get() == nullptr);
}

// Returns whether the tensor is one of those in C++: no operator tells in which tensors.
inline bool is_wrapper_in_cpp(const at::Tensor& tensor) {
  return is_wrapper(tensor) &&
         !tensor.unsafeGetTensorImpl()->key_set().has(c10::DispatchKey::Python);
}

inline c10::weak_intrusive_ptr<c10::StorageImpl> no_storage() {
  return c10::weak_intrusive_ptr<c10::StorageImpl>(c10::intrusive_ptr<c10::StorageImpl>());
}

// Returns null for a tensor without a storage. The weak pointer prevents the reuse of its address.
inline c10::weak_intrusive_ptr<c10::StorageImpl> weak_storage_of(const at::Tensor& tensor) {
  if (!tensor.defined() || storage_of(tensor) == nullptr) {
    return no_storage();
  }
  return tensor.unsafeGetTensorImpl()->unsafe_storage().getWeakStorageImpl();
}

inline c10::weak_intrusive_ptr<c10::StorageImpl> weak_storage_of(c10::StorageImpl& storage) {
  return c10::weak_intrusive_ptr<c10::StorageImpl>(
      c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(&storage));
}

// Returns a map's keys in order: stores and hooks must receive tensors in the same order in each
// run.
template <class Map>
auto sorted_keys(const Map& map) {
  std::vector<typename Map::key_type> keys;
  keys.reserve(map.size());
  for (const auto& entry : map) {
    keys.push_back(entry.first);
  }
  std::sort(keys.begin(), keys.end());
  return keys;
}

// Calls `visitor` with each defined tensor in an argument or result, lists and dictionaries
// included.
template <class Visitor>
void for_each_tensor(const c10::IValue& value, Visitor&& visitor) {
  if (value.isTensor()) {
    if (const at::Tensor& tensor = value.toTensor(); tensor.defined()) {
      visitor(tensor);
    }
  } else if (value.isList()) {
    for (const c10::IValue& element : value.toListRef()) {
      for_each_tensor(element, visitor);
    }
  } else if (value.isGenericDict()) {
    for (const auto& entry : value.toGenericDict()) {
      for_each_tensor(entry.value(), visitor);
    }
  }
}

inline void append_storage_ids(const c10::IValue& value, StorageIdList& list) {
  for_each_tensor(value, [&](const at::Tensor& tensor) { list.push_back(storage_id_of(tensor)); });
}

// Returns the storage of a sparse tensor's values, which its aliases share; null for other tensors.
c10::StorageImpl* values_of_sparse(const at::Tensor& tensor);

// Also appends the storages of sparse tensors' values.
inline void append_value_ids(const c10::IValue& value, StorageIdList& list) {
  for_each_tensor(value, [&](const at::Tensor& tensor) {
    list.push_back(storage_id_of(tensor));
    if (list.back() == tensor.unsafeGetTensorImpl()) {
      if (const StorageId values = values_of_sparse(tensor)) {
        list.push_back(values);
      }
    }
  });
}

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_OPERATORS_STORAGE_ID_H_
