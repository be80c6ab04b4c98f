// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/planner/chain/stretches.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace reprise::planner_internal {
namespace {

// Returns the first place and the last, and of each two in between the one with the lower price.
std::vector<std::int32_t> half_of(const std::vector<std::int32_t>& places,
                                  const std::vector<std::int64_t>& price) {
  std::vector<std::int32_t> half{places.front()};
  const std::size_t end = places.size() - 1;
  for (std::size_t i = 1; i < end; i += 2) {
    const std::size_t second = std::min(i + 1, end - 1);
    const bool is_first = price[places[i]] < price[places[second]];
    half.push_back(places[is_first ? i : second]);
  }
  half.push_back(places.back());
  return half;
}

}  // namespace

Stretches::Stretches(const std::vector<std::int64_t>& price, std::int32_t reach, bool has_stores)
    : stages_(static_cast<std::int32_t>(price.size())),
      reach_(std::min(reach, stages_)),
      has_stores_(has_stores),
      rows_(has_stores ? 2 * stages_ : stages_) {
  std::vector<std::int32_t> places(price.size() + 1);
  std::iota(places.begin(), places.end(), 0);
  add_grid(std::move(places));
  while (static_cast<std::int32_t>(grids_.back().places.size()) > reach_ + 1) {
    add_grid(half_of(grids_.back().places, price));
  }
}

void Stretches::add_grid(std::vector<std::int32_t> places) {
  Grid grid{.places = std::move(places),
            .place_of = std::vector<std::int32_t>(stages_ + 1, kNoRow),
            .rows = {}};
  const auto size = static_cast<std::int32_t>(grid.places.size());
  for (std::int32_t i = 0; i < size; ++i) {
    grid.place_of[grid.places[i]] = i;
  }
  grid.rows.assign(static_cast<std::size_t>(size) * reach_, kNoRow);
  for (std::int32_t i = 0; i < size; ++i) {
    for (std::int32_t steps = 1; steps <= reach_ && i + steps < size; ++steps) {
      const bool is_on_finer = row({grid.places[i], grid.places[i + steps] - 1}) != kNoRow;
      grid.rows[index(i, steps)] = is_on_finer ? kNoRow : rows_++;
    }
  }
  grids_.push_back(std::move(grid));
}

std::int32_t Stretches::row(const Stretch& stretch) const {
  if (stretch.is_in_forward) {
    return stretch.is_input_stored ? stages_ + stretch.s : stretch.s;
  }
  for (const Grid& grid : grids_) {
    const std::int32_t first = grid.place_of[stretch.s];
    const std::int32_t end = grid.place_of[stretch.t + 1];
    if (first == kNoRow || end == kNoRow) {
      return kNoRow;
    }
    if (end - first <= reach_) {
      return grid.rows[index(first, end - first)];
    }
  }
  return kNoRow;
}

}  // namespace reprise::planner_internal
