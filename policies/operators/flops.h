// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The arithmetic of an operator, from the shapes of its inputs and outputs.
#ifndef REPRISE_POLICIES_OPERATORS_FLOPS_H_
#define REPRISE_POLICIES_OPERATORS_FLOPS_H_

#include <cstdint>
#include <span>
#include <string_view>

namespace c10 {
struct IValue;
}  // namespace c10

namespace reprise::policies_internal {

// Returns two per multiplication with its addition:
//   2 b n k m            (n, k) by (k, m), in a batch of b
//   2 b h lq lk (d + e)  attention, q (b, h, lq, d), v (b, hv, lk, e)
//   2 x output elements x weights per output channel, for a convolution
//   2 x input elements x weights per input channel, for a transposed convolution
//
// Biases, scaling, softmax and masks count nothing, and a causal mask halves nothing. 0 for any
// other operator, backward ones among them, and for nested tensors.
[[nodiscard]] std::int64_t flops(std::string_view op, std::span<const c10::IValue> arguments,
                                 std::span<const c10::IValue> outputs);

}  // namespace reprise::policies_internal

#endif  // REPRISE_POLICIES_OPERATORS_FLOPS_H_
