// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/modules/checkpointed_element.h"

#include <cstddef>
#include <utility>
#include <vector>

namespace reprise::engine_internal {
namespace {

using torch::nn::AnyModule;
using torch::nn::AnyValue;

constexpr std::size_t kMaxArguments = 8;

template <std::size_t... I>
AnyValue call_with(AnyModule& module, std::vector<AnyValue>& values, std::index_sequence<I...>) {
  return module.any_forward(std::move(values[I])...);
}

// AnyModule takes its arguments only one by one.
template <std::size_t N = kMaxArguments>
AnyValue call(AnyModule& module, std::vector<AnyValue>& values) {
  if constexpr (N > 1) {
    if (values.size() < N) {
      return call<N - 1>(module, values);
    }
  }
  return call_with(module, values, std::make_index_sequence<N>{});
}

}  // namespace

AnyValue CheckpointedElement::forward(Arguments arguments) {
  // A copy of the AnyModule, which keeps the module alive.
  return checkpoint_region(
      [inner = inner_](Arguments values) mutable { return call(inner, values.values); },
      std::move(arguments));
}

CheckpointedElement* wrapper_in(AnyModule& element) {
  return !element.is_empty() && element.type_info() == typeid(CheckpointedElement)
             ? &element.get<CheckpointedElement>()
             : nullptr;
}

}  // namespace reprise::engine_internal
