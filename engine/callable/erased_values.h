// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Arguments of a region from LibTorch's type-erased containers (torch::nn::AnyValue). Tensors in
// them are found for the types that such containers hold in practice; values of other types are
// retained as they are.
#ifndef REPRISE_ENGINE_CALLABLE_ERASED_VALUES_H_
#define REPRISE_ENGINE_CALLABLE_ERASED_VALUES_H_

#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>
#include <utility>
#include <vector>

namespace reprise::engine_internal {

// `Any` is torch::nn::AnyValue; a parameter, so that this file does not include torch/nn.
template <class Any>
struct ErasedValues {
  std::vector<Any> values;
};

template <class Any>
ErasedValues<Any> erased(Any value) {
  ErasedValues<Any> result;
  result.values.push_back(std::move(value));
  return result;
}

template <class... Types, class Any, class Visitor>
void visit_erased_as(Any& value, Visitor& visitor) {
  const auto visit_as = [&](auto* held) {
    if (held != nullptr) {
      visitor(*held);
    }
    return held != nullptr;
  };
  static_cast<void>((visit_as(value.template try_get<Types>()) || ...));
}

// The extension point of `checkpoint()`, see engine/checkpoint.h.
template <class Any, class Visitor>
void reprise_visit_tensors(ErasedValues<Any>& erased, Visitor&& visitor) {
  using at::Tensor;
  using TensorPair = std::tuple<Tensor, Tensor>;
  for (Any& value : erased.values) {
    visit_erased_as<Tensor, std::vector<Tensor>, std::optional<Tensor>, TensorPair,
                    std::tuple<Tensor, TensorPair>, std::optional<TensorPair>,
                    std::tuple<Tensor, Tensor, Tensor>>(value, visitor);
  }
}

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_CALLABLE_ERASED_VALUES_H_
