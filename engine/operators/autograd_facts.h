// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Autograd's record of a tensor, read directly: LibTorch's accessors are virtual calls that look
// the record up again, and Tensor::grad_fn() may rebuild the history of a view.
#ifndef REPRISE_ENGINE_OPERATORS_AUTOGRAD_FACTS_H_
#define REPRISE_ENGINE_OPERATORS_AUTOGRAD_FACTS_H_

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

namespace reprise::engine_internal {

// Returns null for a leaf. A view whose base has been written to since has its earlier node here.
inline torch::autograd::Node* node_of(const at::Tensor& tensor) {
  const auto* const meta = torch::autograd::impl::get_autograd_meta(tensor);
  return meta == nullptr ? nullptr : meta->grad_fn_.get();
}

// Returns Tensor::is_leaf().
inline bool is_leaf(const at::Tensor& tensor) { return node_of(tensor) == nullptr; }

// Returns whether the tensor is a leaf that requires grad, like a parameter.
inline bool is_leaf_with_gradient(const at::Tensor& tensor) {
  const auto* const meta = torch::autograd::impl::get_autograd_meta(tensor);
  return meta != nullptr && meta->requires_grad_ && meta->grad_fn_ == nullptr;
}

// Returns Tensor::is_view().
inline bool is_view(const at::Tensor& tensor) {
  const auto* const meta = torch::autograd::impl::get_autograd_meta(tensor);
  return meta != nullptr && meta->is_view_ && tensor.is_view();
}

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_OPERATORS_AUTOGRAD_FACTS_H_
