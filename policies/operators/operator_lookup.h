// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Operators by the names that users write.
#ifndef REPRISE_POLICIES_OPERATORS_OPERATOR_LOOKUP_H_
#define REPRISE_POLICIES_OPERATORS_OPERATOR_LOOKUP_H_

#include <ATen/core/dispatch/Dispatcher.h>

#include <string_view>

namespace reprise::policies_internal {

// Returns the operator named "aten::add.Tensor", or, if there is only one overload or one without a
// name, "aten::mm". Throws std::invalid_argument, on behalf of `caller`
// ("policies.save_operators"), if there is none: it lists the closest names, or the overloads.
[[nodiscard]] c10::OperatorHandle find_operator(std::string_view name, std::string_view caller);

}  // namespace reprise::policies_internal

#endif  // REPRISE_POLICIES_OPERATORS_OPERATOR_LOOKUP_H_
