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

}  // namespace

ChainProgram::ChainProgram(const std::vector<Stage>& stages, std::int64_t slot_bytes,
                           std::int32_t slots, std::int32_t reach)
    : stages_(stages),
      stretches_(prices_of(stages), reach),
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
  const auto [s, t, is_in_forward] = stretch;
  const bool is_single = s == t;
  const std::int64_t resident = is_in_forward ? 0 : stages_[t].resident_bytes;
  const std::vector<StageOption>& options = stages_[s].options;
  const std::size_t usable = is_single && !is_in_forward ? 1 : options.size();
  for (std::size_t k = is_single ? 0 : 1; k < usable; ++k) {
    const StageOption& option = options[k];
    const bool is_swept = is_in_forward || !is_single;
    const std::int64_t sweep_need =
        is_in_forward ? option.forward_need : resident + option.sweep_need;
    Choice choice{
        .first = slots_for_need(std::max(option.backward_need, is_swept ? sweep_need : 0)),
        .seconds = static_cast<float>(option.seconds),
        .move = ~static_cast<std::int32_t>(k),
        .right = {nothing()},
        .left = {nothing()}};
    if (!is_single) {
      const std::int64_t kept = option.retained_bytes + stages_[s + 1].input_bytes;
      choice.seconds =
          static_cast<float>((is_in_forward ? 0.0 : stages_[s].sweep_seconds) + option.seconds);
      choice.right = {row({s + 1, t, is_in_forward}), slots_for_kept(kept)};
    }
    const bool needs_evicted =
        option.retains_evicted || (!is_single && stages_[s + 1].is_input_evicted);
    if (!is_in_forward || !needs_evicted) {
      visit(choice);
    }
  }
}

// The stages whose input is kept; in forward, none at all as well.
template <typename Visit>
void ChainProgram::for_each_kept(const Stretch& stretch, const Visit& visit) const {
  const auto [s, t, is_in_forward] = stretch;
  const std::int64_t resident = is_in_forward ? 0 : stages_[t].resident_bytes;
  const StageOption& first = stages_[s].options[0];
  std::int64_t need = is_in_forward ? first.forward_need : resident + first.sweep_need;
  double seconds = is_in_forward ? 0.0 : stages_[s].sweep_seconds;
  for (std::int32_t c = s + 1; c <= t; ++c) {
    if (!is_in_forward || !stages_[c].is_input_evicted) {
      visit({.first = slots_for_need(need),
             .seconds = static_cast<float>(seconds),
             .move = c,
             .right = {row({c, t, is_in_forward}), slots_for_kept(stages_[c].input_bytes)},
             .left = {row({s, c - 1})}});
    }
    need = std::max(need, is_in_forward ? stages_[c].passed_in_forward_need
                                        : resident + stages_[c].passed_need);
    seconds += is_in_forward ? 0.0 : stages_[c].sweep_seconds;
  }
  if (is_in_forward) {
    visit({.first = slots_for_need(need),
           .move = kSweepAgain,
           .right = {row({s, t})},
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
std::int32_t ChainProgram::best_move(const Stretch& stretch, std::int64_t slots) const {
  float best = kInfinite;
  std::int32_t move = 0;
  for_each_choice(stretch, [&](const Choice& choice) {
    if (slots < choice.first) {
      return;
    }
    const float seconds = choice.seconds + choice.right.seconds[slots - choice.right.shift] +
                          choice.left.seconds[slots - choice.left.shift];
    if (seconds < best) {
      best = seconds;
      move = choice.move;
    }
  });
  return move;
}

ChainSchedule ChainProgram::schedule(std::int32_t slots) const {
  ChainSchedule schedule;
  schedule.input_since.assign(stages_.size(), planner::kNone);
  schedule.option.assign(stages_.size(), 0);
  schedule.option_since.assign(stages_.size(), planner::kNone);
  std::vector<std::pair<Stretch, std::int64_t>> pending{{{0, last(), true}, slots}};
  while (!pending.empty()) {
    const auto [stretch, left] = pending.back();
    pending.pop_back();
    const auto [s, t, is_in_forward] = stretch;
    const std::int32_t since = is_in_forward ? last() + 1 : t;
    const std::int32_t move = best_move(stretch, left);
    if (move == kSweepAgain) {
      pending.push_back({{s, t}, left});
    } else if (move >= 0) {
      schedule.input_since[move] = since;
      const std::int64_t kept = slots_for_kept(stages_[move].input_bytes);
      pending.push_back({{move, t, is_in_forward}, left - kept});
      pending.push_back({{s, move - 1}, left});
    } else {
      schedule.option[s] = ~move;
      schedule.option_since[s] = since;
      if (s < t) {
        schedule.input_since[s + 1] = since;
        const std::int64_t bytes =
            stages_[s].options[~move].retained_bytes + stages_[s + 1].input_bytes;
        pending.push_back({{s + 1, t, is_in_forward}, left - slots_for_kept(bytes)});
      }
    }
  }
  return schedule;
}

}  // namespace reprise::planner_internal
