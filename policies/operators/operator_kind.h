// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The kinds of operators that ready policies distinguish.
#ifndef REPRISE_POLICIES_OPERATORS_OPERATOR_KIND_H_
#define REPRISE_POLICIES_OPERATORS_OPERATOR_KIND_H_

#include <cstdint>
#include <string_view>

#include "reprise/policies/checkpoint_policy.h"

namespace reprise::policies_internal {

enum class OperatorKind : std::uint8_t {
  kOther = 1,
  kMatmul = 2,
  kConvolution = 4,
  kAttention = 8
};

// By name without overload, "aten::mm". The attention operators of LibTorch are those with
// "attention" in their name; other libraries' also any with "attn". None that computes gradients.
[[nodiscard]] OperatorKind kind_of(std::string_view op);

// The same, cached per operator. Takes no lock.
[[nodiscard]] OperatorKind kind_of(const PolicyContext& context);

}  // namespace reprise::policies_internal

#endif  // REPRISE_POLICIES_OPERATORS_OPERATOR_KIND_H_
