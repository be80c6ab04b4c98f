// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The replay of a function region under a policy: does with each operator what the tape of forward
// says, and restores the generator state of each random operator.
#ifndef REPRISE_ENGINE_FUNCTION_TAPE_FOLLOWER_H_
#define REPRISE_ENGINE_FUNCTION_TAPE_FOLLOWER_H_

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>
#include <c10/util/intrusive_ptr.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "reprise/engine/effects/replay_effects.h"
#include "reprise/engine/function/stand_ins.h"
#include "reprise/engine/operators/interception.h"
#include "reprise/engine/operators/operator_traits.h"
#include "reprise/engine/operators/storage_id.h"
#include "reprise/engine/report/region_stats.h"
#include "reprise/engine/tape/function_tape.h"
#include "reprise/engine/watch/replay_watch.h"

namespace reprise::engine_internal {

// Lives for one replay, on its thread.
class TapeFollower final : public OperatorInterceptor {
 public:
  struct Options {
    bool is_last;  // the graph is being freed: saved results are released as they are supplied
    bool may_lose_tape;  // the code may run other operators than forward, see Note [Stand-ins]
  };
  // watch: has matched the operator that runs. effects: runs the operators. stats: null if no
  // report is collected. All must outlive this.
  TapeFollower(FunctionTape& tape, Options options, const std::string& region,
               const ReplayWatch& watch, ReplayEffects& effects, RegionStats* stats);

  // Throws DeterminismError or MutationError.
  void intercept(const OperatorCall& call) override;
  void settle() override { effects_.settle(); }

  // The replay is complete: operators that still run make no difference.
  void stop() { has_stopped_ = true; }

  // After the replay: the memory of tensors that stand for results and exist outside of it.
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> left_stand_ins() const {
    return stand_ins_.left([this](StorageId memory) { return saved_aliases_of(memory); });
  }

  // Whether the code has run, or read, what it has not in forward. Its operators run from then on,
  // as it must not be left at any place; what it saves is of no use, and check() throws.
  bool has_lost_tape() const { return has_lost_tape_; }
  // Whether the exception of check() may explain an error of a replay without the tape. A call of
  // the same operator with other tensors does not: the error says better how they differ.
  bool may_explain() const { return !is_other_call_; }

  // Rethrows an exception of intercept() that the region's code has swallowed.
  void check() const;

 private:
  bool is_ahead_of_forward() const;
  bool is_next(std::optional<std::uint32_t> matched) const;
  bool is_on_tape(std::uint32_t ordinal) const;
  bool is_same_operator(const OperatorCall& call) const;
  void skip_hidden();

  void follow(const OperatorCall& call, TapeOperatorId index);
  void run(const OperatorCall& call, TapeOperatorId index);
  void run_timed(const OperatorCall& call, const Tape::Operator& op);
  void supply(const OperatorCall& call, TapeOperatorId index);
  at::Tensor result_for(const OperatorCall& call, TapeOperatorId index, std::uint32_t ordinal);
  void skip_writes(const OperatorCall& call, TapeOperatorId index);
  void copy(const OperatorCall& call, const at::Tensor& target, const Tape::Write& write);
  void replace_results(const OperatorCall& call, TapeOperatorId index);
  // Returns a saved value for the code; undefined if there is none.
  at::Tensor saved(const OperatorCall& call, TapeValueId value);

  std::size_t saved_aliases_of(StorageId memory) const;
  void check_reads(const OperatorCall& call);
  void disown_shared();
  void lose_tape(std::string why);
  std::string describe_other_operator(const OperatorCall& call,
                                      std::optional<std::uint32_t> matched) const;

  const FunctionTape& tape_;
  const Options options_;
  const std::string& region_;
  const ReplayWatch& watch_;
  ReplayEffects& effects_;
  RegionStats* const stats_;
  const std::shared_ptr<FunctionTape::Saved> taken_;  // null unless this is the last replay
  const std::shared_ptr<const FunctionTape::Saved> saved_;
  const std::optional<ReplayActions> actions_now_;  // while forward runs
  const ReplayActions& actions_;
  const int backward_;
  TapeOperatorId next_{0};
  bool has_stopped_ = false;
  bool has_lost_tape_ = false;
  bool is_other_call_ = false;  // likewise, of the operator that forward ran
  StandIns stand_ins_;
  // Tensors that have been supplied while forward runs, and that forward still owns.
  std::vector<StorageId> shared_;
  std::optional<std::string> other_operator_;
  std::optional<std::string> mutation_;
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_FUNCTION_TAPE_FOLLOWER_H_
