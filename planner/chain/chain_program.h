// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The dynamic programme over a chain of stages, for a range of memory sizes at once.
//
// Note [Cost of a stretch]: after Beaumont, Eyraud-Dubois, Herrmann, Joly and Shilova, "Optimal
// checkpointing for heterogeneous chains", 2019, with several options per stage as in Zhao et al.,
// "Rockmate", 2023. Let cost(s, t, m) be the seconds that recomputation adds to the backward of the
// stages s..t, if the input of s is there and m bytes are left. The first operator of it sweeps
// over stages again, unless forward itself is the sweep, up to the last stage, and free. The least
// of
//   - the sweep retains what an option k of s says, and the input of s + 1:
//       sweep(s) + seconds(k) + cost(s + 1, t, m - bytes(k) - input(s + 1))
//   - the sweep passes s..c-1, and keeps nothing but the input of c:
//       sweep(s) + ... + sweep(c - 1) + cost(c, t, m - input(c)) + cost(s, c - 1, m)
//   - forward keeps nothing, and what is not evicted already goes: the cost of another sweep
// for the stretches of Note [Stretches at several scales]. Where forward keeps an input, it may put
// it into a store instead: then the copies take their seconds, and the input takes memory when
// backward has come back to its stage, not before.
#ifndef REPRISE_PLANNER_CHAIN_CHAIN_PROGRAM_H_
#define REPRISE_PLANNER_CHAIN_CHAIN_PROGRAM_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "reprise/planner/chain/stretches.h"
#include "reprise/planner/trace.h"

namespace reprise::planner_internal {

// Bytes that are needed do not count the stage's input, unless it is passed.
struct StageOption {
  std::vector<planner::ValueId> retained;
  std::int64_t retained_bytes = 0;
  bool retains_evicted = false;    // which forward can no longer do
  double seconds = 0;              // that recomputation adds to the stage's backward
  std::int64_t forward_need = 0;   // bytes, when forward itself is the sweep
  std::int64_t sweep_need = 0;     // bytes, when stages are run again
  std::int64_t backward_need = 0;  // bytes, in the stage's backward
};

struct Stage {
  std::int64_t input_bytes = 0;
  bool is_input_evicted = false;        // not there when backward begins
  int store = planner::kNone;           // that its input may be put into
  double copy_seconds = 0;              // to the store and back
  std::int64_t stored_input_bytes = 0;  // in memory while the rest is in the store
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
  std::vector<bool> is_input_stored;       // by stage
  std::vector<std::int32_t> option;        // by stage
  std::vector<std::int32_t> option_since;  // by stage
};

class ChainProgram {
 public:
  // For memory of 0 to `slots` times `slot_bytes`. Of up to `reach` stages all stretches are
  // considered. Time: stages * reach * slots * (reach + options). `stages` must outlive the
  // programme.
  ChainProgram(const std::vector<Stage>& stages, std::int64_t slot_bytes, std::int32_t slots,
               std::int32_t reach);

  // Returns the least seconds that recomputation adds; infinity if that memory is too little.
  double seconds(std::int32_t slots) const { return row({0, last(), true})[slots]; }

  // The memory must be enough.
  ChainSchedule schedule(std::int32_t slots) const;

 private:
  // What remains of a stretch once one choice is made; added up where both have enough memory.
  struct Rest {
    const float* seconds = nullptr;  // by slots
    std::int64_t shift = 0;          // slots that the choice takes from it
  };
  struct Choice {
    std::int64_t first = 0;  // slots, the least that are enough
    float seconds = 0;
    std::int32_t move = 0;   // a stage whose input is kept; ~k: option k; kSweepAgain
    bool is_stored = false;  // the input that is kept, of that stage or of the next one
    Rest right = {};
    Rest left = {};
  };

  std::int32_t last() const { return static_cast<std::int32_t>(stages_.size()) - 1; }
  // Returns the seconds by slots; null if the stretch is not solved.
  const float* row(const Stretch& stretch) const;
  const float* nothing() const { return &seconds_[seconds_.size() - (slots_ + 1)]; }
  std::int64_t slots_for_need(std::int64_t bytes) const;
  std::int64_t slots_for_kept(std::int64_t bytes) const;
  void solve(const Stretch& stretch);
  template <typename Visit>
  void for_each_choice(const Stretch& stretch, const Visit& visit) const;
  template <typename Visit>
  void for_each_option(const Stretch& stretch, const Visit& visit) const;
  template <typename Visit>
  void for_each_place(const Stretch& stretch, std::int32_t c, const Visit& visit) const;
  template <typename Visit>
  void for_each_kept(const Stretch& stretch, const Visit& visit) const;
  Choice best_choice(const Stretch& stretch, std::int64_t slots) const;
  std::int64_t bytes_that_return(const Stretch& stretch) const;
  std::int64_t bytes_kept(std::int32_t stage, bool is_stored) const;

  const std::vector<Stage>& stages_;
  const Stretches stretches_;
  std::int64_t slot_bytes_;
  std::int32_t slots_;
  std::vector<float> seconds_;  // by row and slots; the last row is of nothing
};

}  // namespace reprise::planner_internal

#endif  // REPRISE_PLANNER_CHAIN_CHAIN_PROGRAM_H_
