// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Values stay as a plan has it: see Note [Planned tapes].
#ifndef REPRISE_ENGINE_TAPE_REPLAY_PLANNED_LIVENESS_H_
#define REPRISE_ENGINE_TAPE_REPLAY_PLANNED_LIVENESS_H_

#include <cstdint>
#include <vector>

#include "reprise/engine/tape_replay/liveness.h"

namespace reprise::engine_internal {

class TapeReplay;

class PlannedLiveness final : public Liveness {
 public:
  // replay: that asks this, and outlives it.
  explicit PlannedLiveness(TapeReplay& replay) : replay_(replay) {}

  void restart() override;
  void begin_pass(const std::vector<TapeOperatorId>& operators, const std::vector<SlotId>& slots,
                  Wants wants) override;
  bool computes_slots_in_turn() const override { return true; }
  void before_run(const Tape::Operator& op, Wants wants) override;
  void note_made(TapeValueId value) override;
  void after_run(const Tape::Operator& op) override;
  bool runs_again(TapeOperatorId op) const override;
  bool stays(TapeValueId value) const override;
  bool is_awaited(TapeValueId value) const override;
  void fill_asked_slots(TapeValueId value, Wants wants) override;
  bool may_defer() const override { return false; }
  bool may_refill() const override { return false; }
  void add_holdings(TapeEviction& eviction) override;

 private:
  struct State {
    std::uint8_t times_made = 0;    // in this session
    std::uint32_t ending_uses = 0;  // that end in this pass
    std::uint32_t pins = 0;         // by operators that run now, or whose inputs are recovered
  };

  bool is_made_again(TapeValueId value, Wants wants) const;
  void recover(TapeValueId value, Wants wants);

  TapeReplay& replay_;
  base_internal::IdVector<TapeValueId, State> states_;
  // The pass in which an operator runs, and not for the last time.
  base_internal::IdVector<TapeOperatorId, std::uint32_t> runs_again_in_;
  std::vector<SlotId> asked_;  // in this pass
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_TAPE_REPLAY_PLANNED_LIVENESS_H_
