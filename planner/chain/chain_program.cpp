// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/planner/chain/chain_program.h"

#include <algorithm>
#include <limits>

namespace reprise::planner_internal {
namespace {

constexpr float kInfinite = std::numeric_limits<float>::infinity();

}  // namespace

ChainProgram::ChainProgram(const std::vector<Stage>& stages, std::int64_t slot_bytes,
                           std::int32_t slots)
    : stages_(stages), slot_bytes_(slot_bytes), slots_(slots) {
  // The last row is of nothing: it costs nothing.
  const std::size_t rows = stages.size() * (stages.size() + 1) / 2 + 1;
  seconds_.assign(rows * (slots_ + 1), kInfinite);
  std::fill(seconds_.end() - (slots_ + 1), seconds_.end(), 0.0F);
  moves_.assign(seconds_.size(), 0);
  for (std::int32_t s = last(); s >= 0; --s) {
    solve_one(s);
    for (std::int32_t t = s + 1; t <= last(); ++t) {
      solve(s, t);
    }
  }
}

double ChainProgram::seconds(std::int32_t slots) const { return seconds_[row(0, last()) + slots]; }

std::size_t ChainProgram::row(std::int32_t s, std::int32_t t) const {
  const auto first = static_cast<std::size_t>(t) * (t + 1) / 2;
  return (first + s) * (slots_ + 1);
}

// Rounded up.
std::int64_t ChainProgram::slots_for_need(std::int64_t bytes) const {
  return bytes <= 0 ? 0 : (bytes - 1) / slot_bytes_ + 1;
}

// Rounded to the nearest: of many that are kept, the errors even out.
std::int64_t ChainProgram::slots_for_kept(std::int64_t bytes) const {
  return (bytes + slot_bytes_ / 2) / slot_bytes_;
}

void ChainProgram::solve_one(std::int32_t s) {
  const bool is_in_forward = s == last();
  const std::vector<StageOption>& options = stages_[s].options;
  const std::size_t usable = is_in_forward ? options.size() : 1;
  const Rest nothing{.row = row(0, last() + 1)};
  for (std::size_t k = 0; k < usable; ++k) {
    const std::int64_t need =
        std::max(options[k].backward_need, is_in_forward ? options[k].forward_need : 0);
    consider(row(s, s), slots_for_need(need), options[k].seconds, ~static_cast<std::int32_t>(k),
             nothing, nothing);
  }
}

void ChainProgram::solve(std::int32_t s, std::int32_t t) {
  const bool is_in_forward = t == last();
  const std::int64_t resident = is_in_forward ? 0 : stages_[t].resident_bytes;
  const auto sweep_seconds = [&](std::int32_t stage) {
    return is_in_forward ? 0.0 : stages_[stage].sweep_seconds;
  };
  const auto sweep_need = [&](const StageOption& option) {
    return is_in_forward ? option.forward_need : resident + option.sweep_need;
  };
  for (std::size_t k = 1; k < stages_[s].options.size(); ++k) {
    const StageOption& option = stages_[s].options[k];
    const std::int64_t kept = option.retained_bytes + stages_[s + 1].input_bytes;
    consider(row(s, t), slots_for_need(std::max(sweep_need(option), option.backward_need)),
             sweep_seconds(s) + option.seconds, ~static_cast<std::int32_t>(k),
             {.row = row(s + 1, t), .shift = slots_for_kept(kept)}, {.row = row(0, last() + 1)});
  }
  std::int64_t need = sweep_need(stages_[s].options[0]);
  double seconds = sweep_seconds(s);
  for (std::int32_t c = s + 1; c <= t; ++c) {
    consider(row(s, t), slots_for_need(need), seconds, c,
             {.row = row(c, t), .shift = slots_for_kept(stages_[c].input_bytes)},
             {.row = row(s, c - 1)});
    need = std::max(need, is_in_forward ? stages_[c].passed_in_forward_need
                                        : resident + stages_[c].passed_need);
    seconds += sweep_seconds(c);
  }
}

void ChainProgram::consider(std::size_t row, std::int64_t need, double seconds, std::int32_t move,
                            Rest right, Rest left) {
  const std::int64_t first = std::max({need, right.shift, left.shift});
  const std::int64_t count = slots_ + 1 - first;
  const auto own = static_cast<float>(seconds);
  const float* const to_right = &seconds_[right.row] + (first - right.shift);
  const float* const to_left = &seconds_[left.row] + (first - left.shift);
  float* const best = &seconds_[row] + first;
  std::int32_t* const moves = &moves_[row] + first;
  for (std::int64_t i = 0; i < count; ++i) {
    const float sum = own + to_right[i] + to_left[i];
    const bool is_better = sum < best[i];
    best[i] = is_better ? sum : best[i];
    moves[i] = is_better ? move : moves[i];
  }
}

ChainSchedule ChainProgram::schedule(std::int32_t slots) const {
  ChainSchedule schedule;
  schedule.input_since.assign(stages_.size(), planner::kNone);
  schedule.option.assign(stages_.size(), 0);
  schedule.option_since.assign(stages_.size(), planner::kNone);
  follow(0, last(), slots, schedule);
  return schedule;
}

void ChainProgram::follow(std::int32_t s, std::int32_t t, std::int64_t slots,
                          ChainSchedule& schedule) const {
  const std::int32_t since = t == last() ? last() + 1 : t;
  const std::int32_t move = moves_[row(s, t) + slots];
  if (move >= 0) {
    schedule.input_since[move] = since;
    follow(move, t, slots - slots_for_kept(stages_[move].input_bytes), schedule);
    follow(s, move - 1, slots, schedule);
    return;
  }
  const std::int32_t k = ~move;
  schedule.option[s] = k;
  schedule.option_since[s] = since;
  if (s < t) {
    schedule.input_since[s + 1] = since;
    const std::int64_t bytes = stages_[s].options[k].retained_bytes + stages_[s + 1].input_bytes;
    follow(s + 1, t, slots - slots_for_kept(bytes), schedule);
  }
}

}  // namespace reprise::planner_internal
