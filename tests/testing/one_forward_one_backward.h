// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The 1F1B order of a pipeline's stage.
#ifndef REPRISE_TESTS_TESTING_ONE_FORWARD_ONE_BACKWARD_H_
#define REPRISE_TESTS_TESTING_ONE_FORWARD_ONE_BACKWARD_H_

#include <cstddef>
#include <string>

namespace reprise::testing {

// Returns the order of a stage's work: "F" for the forward of the next micro-batch, "B" for the
// backward of the oldest one in flight.
inline std::string one_forward_one_backward(int micro_batches, int in_flight) {
  std::string order(static_cast<std::size_t>(in_flight), 'F');
  for (int i = in_flight; i < micro_batches; ++i) {
    order += "BF";
  }
  return order + std::string(static_cast<std::size_t>(in_flight), 'B');
}

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_TESTING_ONE_FORWARD_ONE_BACKWARD_H_
