// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#ifndef REPRISE_ENGINE_BILL_OPERATOR_NAMES_H_
#define REPRISE_ENGINE_BILL_OPERATOR_NAMES_H_

#include <string>
#include <string_view>

namespace reprise::engine_internal {

// Returns the operator whose node has this name: "aten::gelu" for "GeluBackward0". Empty if there
// is none.
std::string operator_of_node(std::string_view node);

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_BILL_OPERATOR_NAMES_H_
