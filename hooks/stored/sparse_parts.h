// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The dense components of sparse tensors, for stores of dense tensors.
#ifndef REPRISE_HOOKS_STORED_SPARSE_PARTS_H_
#define REPRISE_HOOKS_STORED_SPARSE_PARTS_H_

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "reprise/base/export.h"
#include "reprise/hooks/activation_store.h"

namespace reprise::hooks_internal {

// COO, CSR, CSC, BSR and BSC.
REPRISE_API bool is_sparse(const at::Tensor& tensor);

// Returns its indices and, last, its values.
REPRISE_API std::vector<at::Tensor> sparse_parts(const at::Tensor& tensor);

// Puts the indices and the values of a sparse tensor into `store`. The restored tensor is coalesced
// if the original was.
REPRISE_API std::unique_ptr<StoredTensor> put_parts(ActivationStore& store,
                                                    const at::Tensor& tensor);

}  // namespace reprise::hooks_internal

#endif  // REPRISE_HOOKS_STORED_SPARSE_PARTS_H_
