// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/planner/chain/chain_program.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace reprise::planner_internal {
namespace {

constexpr float kInfinite = std::numeric_limits<float>::infinity();
constexpr std::int32_t kSweepAgain = std::numeric_limits<std::int32_t>::max();

// Stretches are to begin where little is to be kept, and first of all where forward has left it.
std::vector<std::int64_t> prices_of(const std::vector<Stage>& stages) {
  std::int64_t bytes = 1;
  for (const Stage& stage : stages) {
    bytes += stage.input_bytes;
  }
  std::vector<std::int64_t> prices;
  prices.reserve(stages.size());
  for (const Stage& stage : stages) {
    prices.push_back(stage.input_bytes + (stage.is_input_evicted ? bytes : 0));
  }
  return prices;
}

bool has_stores(const std::vector<Stage>& stages) {
  return std::any_of(stages.begin(), stages.end(),
                     [](const Stage& stage) { return stage.store != planner::kNone; });
}

}  // namespace

ChainProgram::ChainProgram(const std::vector<Stage>& stages, std::int64_t slot_bytes,
                           std::int32_t slots, std::int32_t reach)
    : stages_(stages),
      stretches_(prices_of(stages), reach, has_stores(stages)),
      slot_bytes_(slot_bytes),
      slots_(slots) {
  seconds_.assign((static_cast<std::size_t>(stretches_.rows()) + 1) * (slots_ + 1), kInfinite);
  std::fill(seconds_.end() - (slots_ + 1), seconds_.end(), 0.0F);
  stretches_.for_each([this](const Stretch& stretch) { solve(stretch); });
}

const float* ChainProgram::row(const Stretch& stretch) const {
  const std::int32_t row = stretches_.row(stretch);
  return row == Stretches::kNoRow ? nullptr
                                  : &seconds_[static_cast<std::size_t>(row) * (slots_ + 1)];
}

// Rounded up.
std::int64_t ChainProgram::slots_for_need(std::int64_t bytes) const {
  return bytes <= 0 ? 0 : (bytes - 1) / slot_bytes_ + 1;
}

// Rounded to the nearest: of many that are kept, the errors even out.
std::int64_t ChainProgram::slots_for_kept(std::int64_t bytes) const {
  return (bytes + slot_bytes_ / 2) / slot_bytes_;
}

// Of the first stage's input, when backward has come to it.
std::int64_t ChainProgram::bytes_that_return(const Stretch& stretch) const {
  const Stage& stage = stages_[stretch.s];
  return stretch.is_input_stored ? stage.input_bytes - stage.stored_input_bytes : 0;
}

std::int64_t ChainProgram::bytes_kept(std::int32_t stage, bool is_stored) const {
  return is_stored ? stages_[stage].stored_input_bytes : stages_[stage].input_bytes;
}

template <typename Visit>
void ChainProgram::for_each_choice(const Stretch& stretch, const Visit& visit) const {
  const auto if_solved = [&](Choice choice) {
    if (choice.right.seconds != nullptr && choice.left.seconds != nullptr) {
      choice.first = std::max({choice.first, choice.right.shift, choice.left.shift});
      visit(choice);
    }
  };
  for_each_option(stretch, if_solved);
  for_each_kept(stretch, if_solved);
}

// The options of the first stage. In the backward of a single stage its own does what the first
// option says, unless forward has swept over it.
template <typename Visit>
void ChainProgram::for_each_option(const Stretch& stretch, const Visit& visit) const {
  const std::int32_t s = stretch.s;
  const std::int32_t t = stretch.t;
  const bool is_in_forward = stretch.is_in_forward;
  const bool is_single = s == t;
  const std::int64_t resident = is_in_forward ? 0 : stages_[t].resident_bytes;
  const std::int64_t returning = bytes_that_return(stretch);
  const std::vector<StageOption>& options = stages_[s].options;
  const std::size_t usable = is_single && !is_in_forward ? 1 : options.size();
  for (std::size_t k = is_single ? 0 : 1; k < usable; ++k) {
    const StageOption& option = options[k];
    const bool is_swept = is_in_forward || !is_single;
    const std::int64_t sweep_need =
        is_in_forward ? option.forward_need + returning : resident + option.sweep_need;
    Choice choice{.first = slots_for_need(
                      std::max(option.backward_need + returning, is_swept ? sweep_need : 0)),
                  .seconds = static_cast<float>(option.seconds),
                  .move = ~static_cast<std::int32_t>(k),
                  .right = {nothing()},
                  .left = {nothing()}};
    if (is_single) {
      if (!is_in_forward || !option.retains_evicted) {
        visit(choice);
      }
      continue;
    }
    choice.seconds += static_cast<float>(is_in_forward ? 0.0 : stages_[s].sweep_seconds);
    for_each_place(stretch, s + 1, [&](bool is_stored, double copy_seconds, const float* right) {
      if (!is_in_forward || !option.retains_evicted) {
        Choice with_next = choice;
        with_next.seconds += static_cast<float>(copy_seconds);
        with_next.is_stored = is_stored;
        with_next.right = {right,
                           slots_for_kept(option.retained_bytes + bytes_kept(s + 1, is_stored))};
        visit(with_next);
      }
    });
  }
}

// Where the input of stage c can be: in memory, or, if forward keeps it, in its store.
template <typename Visit>
void ChainProgram::for_each_place(const Stretch& stretch, std::int32_t c,
                                  const Visit& visit) const {
  const bool is_in_forward = stretch.is_in_forward;
  if (is_in_forward && stages_[c].is_input_evicted) {
    return;
  }
  visit(false, 0.0, row({c, stretch.t, is_in_forward}));
  if (is_in_forward && stages_[c].store != planner::kNone) {
    visit(true, stages_[c].copy_seconds, row({c, stretch.t, true, true}));
  }
}

// The stages whose input is kept; in forward, none at all as well.
template <typename Visit>
void ChainProgram::for_each_kept(const Stretch& stretch, const Visit& visit) const {
  const std::int32_t s = stretch.s;
  const std::int32_t t = stretch.t;
  const bool is_in_forward = stretch.is_in_forward;
  const std::int64_t resident = is_in_forward ? 0 : stages_[t].resident_bytes;
  const std::int64_t returning = slots_for_kept(bytes_that_return(stretch));
  const StageOption& first = stages_[s].options[0];
  std::int64_t need =
      is_in_forward ? first.forward_need + bytes_that_return(stretch) : resident + first.sweep_need;
  double seconds = is_in_forward ? 0.0 : stages_[s].sweep_seconds;
  for (std::int32_t c = s + 1; c <= t; ++c) {
    for_each_place(stretch, c, [&](bool is_stored, double copy_seconds, const float* right) {
      visit({.first = slots_for_need(need),
             .seconds = static_cast<float>(seconds + copy_seconds),
             .move = c,
             .is_stored = is_stored,
             .right = {right, slots_for_kept(bytes_kept(c, is_stored))},
             .left = {row({s, c - 1}), returning}});
    });
    need = std::max(need, is_in_forward ? stages_[c].passed_in_forward_need
                                        : resident + stages_[c].passed_need);
    seconds += is_in_forward ? 0.0 : stages_[c].sweep_seconds;
  }
  if (is_in_forward) {
    visit({.first = slots_for_need(need),
           .move = kSweepAgain,
           .right = {row({s, t}), returning},
           .left = {nothing()}});
  }
}

void ChainProgram::solve(const Stretch& stretch) {
  float* const seconds =
      &seconds_[static_cast<std::size_t>(stretches_.row(stretch)) * (slots_ + 1)];
  for_each_choice(stretch, [&](const Choice& choice) {
    const std::int64_t count = slots_ + 1 - choice.first;
    const float* const to_right = choice.right.seconds + (choice.first - choice.right.shift);
    const float* const to_left = choice.left.seconds + (choice.first - choice.left.shift);
    float* const best = seconds + choice.first;
    for (std::int64_t i = 0; i < count; ++i) {
      best[i] = std::min(best[i], choice.seconds + to_right[i] + to_left[i]);
    }
  });
}

// Found again rather than kept: the tables are half as large.
ChainProgram::Choice ChainProgram::best_choice(const Stretch& stretch, std::int64_t slots) const {
  float best = kInfinite;
  Choice found;
  for_each_choice(stretch, [&](const Choice& choice) {
    if (slots < choice.first) {
      return;
    }
    const float seconds = choice.seconds + choice.right.seconds[slots - choice.right.shift] +
                          choice.left.seconds[slots - choice.left.shift];
    if (seconds < best) {
      best = seconds;
      found = choice;
    }
  });
  return found;
}

ChainSchedule ChainProgram::schedule(std::int32_t slots) const {
  ChainSchedule schedule;
  schedule.input_since.assign(stages_.size(), planner::kNone);
  schedule.is_input_stored.assign(stages_.size(), false);
  schedule.option.assign(stages_.size(), 0);
  schedule.option_since.assign(stages_.size(), planner::kNone);
  std::vector<std::pair<Stretch, std::int64_t>> pending{{{0, last(), true}, slots}};
  while (!pending.empty()) {
    const auto [stretch, left] = pending.back();
    pending.pop_back();
    const std::int32_t s = stretch.s;
    const std::int32_t t = stretch.t;
    const bool is_in_forward = stretch.is_in_forward;
    const std::int32_t since = is_in_forward ? last() + 1 : t;
    const Choice choice = best_choice(stretch, left);
    const std::int64_t left_behind = left - choice.right.shift;
    const auto keep = [&](std::int32_t stage) {
      schedule.input_since[stage] = since;
      schedule.is_input_stored[stage] = choice.is_stored;
      pending.push_back({{stage, t, is_in_forward, choice.is_stored}, left_behind});
    };
    if (choice.move == kSweepAgain) {
      pending.push_back({{s, t}, left_behind});
    } else if (choice.move >= 0) {
      keep(choice.move);
      pending.push_back({{s, choice.move - 1}, left - choice.left.shift});
    } else {
      schedule.option[s] = ~choice.move;
      schedule.option_since[s] = since;
      if (s < t) {
        keep(s + 1);
      }
    }
  }
  return schedule;
}

}  // namespace reprise::planner_internal
