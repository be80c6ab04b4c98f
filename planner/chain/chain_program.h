// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The dynamic programme over a chain of stages, for a range of memory sizes at once.
//
// Note [Cost of a stretch]: after Beaumont, Eyraud-Dubois, Herrmann, Joly and Shilova, "Optimal
// checkpointing for heterogeneous chains", 2019, with several options per stage as in Zhao et al.,
// "Rockmate", 2023. Let cost(s, t, m) be the seconds that recomputation adds to the backward of the
// stages s..t, if the input of s is there and m bytes are left. The first operator of it sweeps
// over stages again, unless t is the last stage: then forward itself is the sweep, and free. The
// least of
//   - the sweep retains what an option k of s says, and the input of s + 1:
//       sweep(s) + seconds(k) + cost(s + 1, t, m - bytes(k) - input(s + 1))
//   - the sweep passes s..c-1, and keeps nothing but the input of c:
//       sweep(s) + ... + sweep(c - 1) + cost(c, t, m - input(c)) + cost(s, c - 1, m)
#ifndef REPRISE_PLANNER_CHAIN_CHAIN_PROGRAM_H_
#define REPRISE_PLANNER_CHAIN_CHAIN_PROGRAM_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "reprise/planner/trace.h"

namespace reprise::planner_internal {

// Bytes that are needed do not count the stage's input, unless it is passed.
struct StageOption {
  std::vector<planner::ValueId> retained;
  std::int64_t retained_bytes = 0;
  double seconds = 0;              // that recomputation adds to the stage's backward
  std::int64_t forward_need = 0;   // bytes, when forward itself is the sweep
  std::int64_t sweep_need = 0;     // bytes, when stages are run again
  std::int64_t backward_need = 0;  // bytes, in the stage's backward
};

struct Stage {
  std::int64_t input_bytes = 0;
  double sweep_seconds = 0;
  std::int64_t passed_in_forward_need = 0;  // after another stage that was not kept
  std::int64_t passed_need = 0;
  std::int64_t resident_bytes = 0;   // beside a sweep that its backward asks for
  std::vector<StageOption> options;  // the first one retains nothing
};

// What is retained from when on: once backward has come to a stage, or from forward on, which is
// the number of stages.
struct ChainSchedule {
  std::vector<std::int32_t> input_since;   // by stage
  std::vector<std::int32_t> option;        // by stage
  std::vector<std::int32_t> option_since;  // by stage
};

class ChainProgram {
 public:
  // For memory of 0 to `slots` times `slot_bytes`. Time: stages^2 * slots * (stages + options).
  // `stages` must outlive the programme.
  ChainProgram(const std::vector<Stage>& stages, std::int64_t slot_bytes, std::int32_t slots);

  // Returns the least seconds that recomputation adds; infinity if that memory is too little.
  double seconds(std::int32_t slots) const;

  // The memory must be enough.
  ChainSchedule schedule(std::int32_t slots) const;

 private:
  // What remains of a stretch once one choice is made; added up where both have enough memory.
  struct Rest {
    std::size_t row = 0;
    std::int64_t shift = 0;  // slots that the choice takes from it
  };

  std::int32_t last() const { return static_cast<std::int32_t>(stages_.size()) - 1; }
  std::size_t row(std::int32_t s, std::int32_t t) const;
  std::int64_t slots_for_need(std::int64_t bytes) const;
  std::int64_t slots_for_kept(std::int64_t bytes) const;
  void solve_one(std::int32_t s);
  void solve(std::int32_t s, std::int32_t t);
  void consider(std::size_t row, std::int64_t need, double seconds, std::int32_t move, Rest right,
                Rest left);
  void follow(std::int32_t s, std::int32_t t, std::int64_t slots, ChainSchedule& schedule) const;

  const std::vector<Stage>& stages_;
  std::int64_t slot_bytes_;
  std::int32_t slots_;
  std::vector<float> seconds_;       // by row and slots
  std::vector<std::int32_t> moves_;  // a stage whose input is kept; ~k: option k
};

}  // namespace reprise::planner_internal

#endif  // REPRISE_PLANNER_CHAIN_CHAIN_PROGRAM_H_
