// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The tensors that the derivative of an operator reads.
#ifndef REPRISE_POLICIES_BUDGET_AUTOGRAD_SAVES_H_
#define REPRISE_POLICIES_BUDGET_AUTOGRAD_SAVES_H_

#include <cstddef>
#include <cstdint>

#include "reprise/policies/checkpoint_policy.h"

namespace reprise::policies_internal {

struct AutogradSaves {
  std::uint32_t arguments = ~std::uint32_t{0};  // a bit for each
  bool results = true;

  [[nodiscard]] bool has_argument(std::size_t index) const noexcept {
    return index >= 32 || (arguments >> index & 1U) != 0;
  }
};

// Returns the arguments and results of the call that autograd may save: by a table of common
// operators, in place or not; all of an operator that is not in it.
[[nodiscard]] AutogradSaves autograd_saves(const PolicyContext& context);

}  // namespace reprise::policies_internal

#endif  // REPRISE_POLICIES_BUDGET_AUTOGRAD_SAVES_H_
