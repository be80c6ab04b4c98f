// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The 1F1B order of a pipeline's stage.
#ifndef BUDGETS_ON_RANKS_ONE_FORWARD_ONE_BACKWARD_H_
#define BUDGETS_ON_RANKS_ONE_FORWARD_ONE_BACKWARD_H_

#include <cstddef>
#include <string>

namespace budgets_on_ranks {

// Returns the order of a stage's work: "F" for the forward of the next micro-batch, "B" for the
// backward of the oldest one in flight.
inline std::string one_forward_one_backward(int micro_batches, int in_flight) {
  std::string order(static_cast<std::size_t>(in_flight), 'F');
  for (int i = in_flight; i < micro_batches; ++i) {
    order += "BF";
  }
  return order + std::string(static_cast<std::size_t>(in_flight), 'B');
}

}  // namespace budgets_on_ranks

#endif  // BUDGETS_ON_RANKS_ONE_FORWARD_ONE_BACKWARD_H_
