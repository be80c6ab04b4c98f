// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// A tensor that stays where it is.
#ifndef REPRISE_HOOKS_STORED_KEPT_TENSOR_H_
#define REPRISE_HOOKS_STORED_KEPT_TENSOR_H_

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>

#include "reprise/base/export.h"
#include "reprise/hooks/activation_store.h"

namespace reprise::hooks_internal {

class KeptTensor final : public StoredTensor {
 public:
  explicit KeptTensor(const at::Tensor& tensor);

  // Throws c10::Error, with autograd's message, if the tensor was modified in place since.
  at::Tensor get() override;
  [[nodiscard]] std::int64_t device_bytes() const override;
  const at::Tensor& alias() const { return alias_; }

 private:
  at::Tensor alias_;
  std::int64_t version_;
  bool requires_grad_;
};

// Returns the tensor that `stored` keeps where it is; an undefined one if it keeps none.
REPRISE_API at::Tensor kept_alias(const StoredTensor& stored);

// Throws c10::Error, with autograd's message, unless the tensor is at this version.
void check_version(const at::Tensor& tensor, std::int64_t version);

// Returns the bytes of the tensor's storage; 0 without one.
std::int64_t memory_bytes(const at::Tensor& tensor);

// Returns whether it is a leaf that requires grad, or a view of one: it outlives the graph anyway.
bool is_parameter(const at::Tensor& tensor);

}  // namespace reprise::hooks_internal

#endif  // REPRISE_HOOKS_STORED_KEPT_TENSOR_H_
