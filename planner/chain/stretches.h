// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The stretches of a chain that the dynamic programme solves.
//
// Note [Stretches at several scales]: a chain of n stages consists of n^2 / 2 stretches: too many
// if n is a thousand. Of the long ones only those are solved that begin and end at places of a
// grid, coarser the longer they are. Each grid has half of the places of the finer one: of two
// neighbours the one with the lower price. A stretch spans at most `reach` steps of its grid, which
// leaves about 2 * reach * n of them, and as many places to divide each. Stretches over which
// forward itself sweeps, up to the end of the chain, begin anywhere: with the first stage's input
// in memory, or in a store.
#ifndef REPRISE_PLANNER_CHAIN_STRETCHES_H_
#define REPRISE_PLANNER_CHAIN_STRETCHES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace reprise::planner_internal {

// The stages s..t. In forward, t is the last one, and forward itself the first sweep over them.
struct Stretch {
  std::int32_t s = 0;
  std::int32_t t = 0;
  bool is_in_forward = false;
  bool is_input_stored = false;  // of s; only in forward
};

class Stretches {
 public:
  static constexpr std::int32_t kNoRow = -1;

  // price: by stage, of keeping its input. With a reach of as many stages or more, all stretches
  // are solved. has_stores: whether inputs may be in a store.
  Stretches(const std::vector<std::int64_t>& price, std::int32_t reach, bool has_stores = false);

  std::int32_t rows() const { return rows_; }
  // Returns the number of the stretch, or none if it is not solved.
  std::int32_t row(const Stretch& stretch) const;

  // Calls visit(stretch) for each that is solved, after those inside it, and soon after most of
  // them.
  template <typename Visit>
  void for_each(const Visit& visit) const {
    for (const Grid& grid : grids_) {
      const auto places = static_cast<std::int32_t>(grid.places.size());
      for (std::int32_t end = 1; end < places; ++end) {
        for (std::int32_t steps = 1; steps <= std::min(reach_, end); ++steps) {
          if (grid.rows[index(end - steps, steps)] != kNoRow) {
            visit(Stretch{grid.places[end - steps], grid.places[end] - 1});
          }
        }
      }
    }
    for (std::int32_t s = stages_ - 1; s >= 0; --s) {
      visit(Stretch{s, stages_ - 1, true});
      if (has_stores_) {
        visit(Stretch{s, stages_ - 1, true, true});
      }
    }
  }

 private:
  struct Grid {
    std::vector<std::int32_t> places;    // stages that a stretch may begin at or end before
    std::vector<std::int32_t> place_of;  // by stage, and the end; none: not on the grid
    std::vector<std::int32_t> rows;      // by place and steps
  };

  std::size_t index(std::int32_t place, std::int32_t steps) const {
    return static_cast<std::size_t>(place) * reach_ + (steps - 1);
  }
  void add_grid(std::vector<std::int32_t> places);

  const std::int32_t stages_;
  const std::int32_t reach_;
  const bool has_stores_;
  std::int32_t rows_;  // those in forward come first, by stage; then those with a stored input
  std::vector<Grid> grids_;
};

}  // namespace reprise::planner_internal

#endif  // REPRISE_PLANNER_CHAIN_STRETCHES_H_
