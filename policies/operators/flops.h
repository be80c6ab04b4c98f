// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// How much arithmetic an operator does, from the shapes of what it takes and gives.
#ifndef REPRISE_POLICIES_OPERATORS_FLOPS_H_
#define REPRISE_POLICIES_OPERATORS_FLOPS_H_

#include <cstdint>
#include <span>
#include <string_view>

namespace c10 {
struct IValue;
}  // namespace c10

namespace reprise::policies_internal {

// Two for each multiplication with its addition:
//   (n, k) by (k, m), and b of them in a batch   2 b n k m
//   convolution                                  2 x output elements x weights of one output
//   channel transposed convolution                       2 x input elements x weights of one input
//   channel attention, q (b, h, lq, d), v (b, hv, lk, e) 2 b h lq lk (d + e)
// Biases, scaling, softmax and masks count nothing, and a causal mask halves nothing. 0 for any
// other operator, backward ones among them, and for nested tensors.
[[nodiscard]] std::int64_t flops(std::string_view op, std::span<const c10::IValue> arguments,
                                 std::span<const c10::IValue> outputs);

}  // namespace reprise::policies_internal

#endif  // REPRISE_POLICIES_OPERATORS_FLOPS_H_
