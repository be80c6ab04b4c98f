// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// A dense tensor that others own, to be looked at later.
#ifndef REPRISE_ENGINE_KEPT_WEAK_ALIAS_H_
#define REPRISE_ENGINE_KEPT_WEAK_ALIAS_H_

#include <ATen/core/Tensor.h>
#include <c10/core/DispatchKeySet.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>
#include <c10/util/intrusive_ptr.h>

#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "reprise/engine/operators/storage_id.h"

namespace reprise::engine_internal {

// References the storage weakly: retains no memory, but prevents the reuse of the address.
class WeakAlias {
 public:
  explicit WeakAlias(const at::Tensor& tensor);

  StorageId memory() const { return storage_._unsafe_get_target(); }
  bool exists() const { return !storage_.expired(); }
  // Returns whether its owner has freed the bytes and still has the storage.
  bool is_freed() const;
  // Returns the version of its memory now.
  std::int64_t version() const { return counter_.current_version(); }
  // Returns the storage; null if it no longer exists.
  c10::intrusive_ptr<c10::StorageImpl> storage() const { return storage_.lock(); }

  // Returns the tensor without graph, with its version counter; undefined if its memory no longer
  // exists or is freed.
  at::Tensor lock() const;

 private:
  using Dims = absl::InlinedVector<std::int64_t, 4>;

  c10::weak_intrusive_ptr<c10::StorageImpl> storage_;
  c10::DispatchKeySet keys_;
  c10::VariableVersion counter_;
  c10::ScalarType dtype_;
  Dims sizes_;
  Dims strides_;
  std::int64_t offset_;
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_KEPT_WEAK_ALIAS_H_
