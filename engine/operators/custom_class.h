// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Objects of classes that C++ code registers (torch::class_) as arguments of operators.
#ifndef REPRISE_ENGINE_OPERATORS_CUSTOM_CLASS_H_
#define REPRISE_ENGINE_OPERATORS_CUSTOM_CLASS_H_

#include <ATen/core/ivalue.h>

#include <string_view>

namespace reprise::engine_internal {

// Returns whether the value is an object of a class registered in this namespace.
bool is_of_classes_in(const c10::IValue& value, std::string_view name_space);

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_OPERATORS_CUSTOM_CLASS_H_
