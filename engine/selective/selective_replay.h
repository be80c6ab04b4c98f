// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The replay of a region under a policy: follows the operators of forward, supplies retained
// results, and restores the generator state of each random operator.
#ifndef REPRISE_ENGINE_SELECTIVE_SELECTIVE_REPLAY_H_
#define REPRISE_ENGINE_SELECTIVE_SELECTIVE_REPLAY_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "reprise/engine/effects/replay_effects.h"
#include "reprise/engine/operators/interception.h"
#include "reprise/engine/operators/operator_traits.h"
#include "reprise/engine/operators/storage_id.h"
#include "reprise/engine/report/region_stats.h"
#include "reprise/engine/selective/operator_trace.h"
#include "reprise/engine/selective/unset_memory.h"

namespace reprise::engine_internal {

// Lives for one replay, on its thread.
class SelectiveReplay final : public OperatorInterceptor {
 public:
  // is_last: no later replay will ask, so that retained results are released as they are supplied.
  // may_lose_trace: the code may run other operators than forward, see Note [Stand-ins]. effects:
  // runs the operators. stats: null if no report is collected. All must outlive this.
  SelectiveReplay(OperatorTrace& trace, bool is_last, bool may_lose_trace,
                  const std::string& region, ReplayEffects& effects, RegionStats* stats);

  // Throws DeterminismError or MutationError.
  void intercept(const OperatorCall& call) override;
  void settle() override { effects_.settle(); }

  // The replay is complete: operators that still run make no difference.
  void stop() { has_stopped_ = true; }

  // After the replay: the memory of tensors that stand for results and exist outside of it.
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> left_stand_ins() const;

  // Whether the code has run, or read, what it has not in forward. Its operators run from then on,
  // as it must not be left at any place; what it saves is of no use, and check() throws.
  bool has_lost_trace() const { return has_lost_trace_; }

  // Rethrows an exception of intercept() that the region's code has swallowed.
  void check() const;

 private:
  void replay(const OperatorCall& call, const TracedOperator& op);
  void run(const OperatorCall& call, const TracedOperator& op);
  void run_timed(const OperatorCall& call, const TracedOperator& op);
  void supply(const OperatorCall& call, const ResultList::Range& range);
  void copy(const OperatorCall& call);
  void replace_kept(const OperatorCall& call);
  // Returns the `ordinal`th retained tensor of the operator; undefined if there is none.
  at::Tensor kept_tensor(const OperatorCall& call, std::size_t ordinal);
  bool has_all(const TracedOperator& op) const;
  void note_left_out(const OperatorCall& call);
  std::size_t kept_aliases_of(StorageId memory) const;
  // Forward still runs and has not reached this operator.
  bool is_ahead_of_forward() const;
  void check_reads(const OperatorCall& call);
  void disown_shared();
  void lose_trace(std::string why);
  std::string describe_other_operator(const OperatorCall& call) const;

  const OperatorTrace& trace_;
  const bool may_lose_trace_;
  const std::string& region_;
  ReplayEffects& effects_;
  RegionStats* const stats_;
  const std::shared_ptr<OperatorTrace::Kept> taken_;  // null unless this is the last replay
  const std::shared_ptr<const OperatorTrace::Kept> kept_;
  const int backward_;
  TracedOperatorId next_{0};
  bool has_stopped_ = false;
  bool has_lost_trace_ = false;
  UnsetMemory unset_memory_;
  // Tensors that have been supplied while forward runs, and that forward still owns.
  std::vector<StorageId> shared_;
  // Memory without forward's contents, see Note [Stand-ins].
  struct Unset {
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;  // prevents the reuse of its address
    bool is_stand_in = false;                           // otherwise writes to it were left out
  };
  absl::flat_hash_map<StorageId, Unset> unset_;
  std::optional<std::string> other_operator_;
  std::optional<std::string> mutation_;
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_SELECTIVE_SELECTIVE_REPLAY_H_
