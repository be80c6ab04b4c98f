// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The random numbers of one operator.
#ifndef REPRISE_ENGINE_OPERATORS_RANDOM_DRAW_H_
#define REPRISE_ENGINE_OPERATORS_RANDOM_DRAW_H_

#include <ATen/core/Generator.h>

#include <cstdint>
#include <optional>
#include <string>

#include "reprise/rng/rng_state.h"

namespace reprise::engine_internal {

// Returns a hash of a generator's state; 0 if it is unavailable. Costs a few hundred instructions.
std::uint64_t position_of(const at::Generator& generator);

// The states of a generator before and after an operator that draws from it.
//
// Note [Shared generators]
// Another thread may draw from the same generator between the capture of its state and the
// operator, in forward or in the replay. The operator then draws other numbers, and leaves the
// generator in another state, which reveals this.
struct RandomDraw {
  RngState before;
  std::optional<RngState> after;  // none while the operator runs

  bool is_repeated() const { return !after || after->is_current(); }
};

// Records the draws of a region's operators in their order.
class DrawRecorder {
 public:
  // The operator that draws from `generator` is about to run.
  RandomDraw begin(const at::Generator& generator);
  void end(RandomDraw& draw);

 private:
  std::optional<RngState> last_;  // shared with the draw that starts there
};

// Returns the end of an error message, after the name of the operator.
std::string describe_shared_draw(const at::Generator& generator);

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_OPERATORS_RANDOM_DRAW_H_
