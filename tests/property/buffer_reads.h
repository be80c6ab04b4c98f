// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// What pieces do with a buffer that they have filled.
#ifndef REPRISE_TESTS_PROPERTY_BUFFER_READS_H_
#define REPRISE_TESTS_PROPERTY_BUFFER_READS_H_

#include <torch/torch.h>

#include <cstddef>

namespace reprise::testing {

// Reads that save nothing of the buffer, so that plain code may fill it again.
// variant: below kReads.
inline at::Tensor read(std::size_t variant, const at::Tensor& x, const at::Tensor& from) {
  switch (variant) {
    case 0:
      return x * from.clone();
    case 1:
      return (x + from).sin();
    case 2:
      return x * (from + 1);
    case 3:
      return at::cat({from.narrow(0, 0, 2), x.narrow(0, 2, 2)}).exp();
    case 4:
      return x * from.sum();
    default:
      return x * from.narrow(1, 1, 3).repeat({1, 2}) + from.max();
  }
}
inline constexpr std::size_t kReads = 6;

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_PROPERTY_BUFFER_READS_H_
