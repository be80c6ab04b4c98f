// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The replay of a region under a policy: follows the operators of forward, supplies the results
// that were kept, and sets each random operator's generator to where it stood.
#ifndef REPRISE_ENGINE_FUNCTION_SELECTIVE_REPLAY_H_
#define REPRISE_ENGINE_FUNCTION_SELECTIVE_REPLAY_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "reprise/engine/effects/replay_effects.h"
#include "reprise/engine/function/operator_trace.h"
#include "reprise/engine/operators/interception.h"
#include "reprise/engine/operators/operator_traits.h"
#include "reprise/engine/operators/storage_id.h"
#include "reprise/engine/report/region_stats.h"

namespace reprise::engine_internal {

// Lives for one replay, on its thread.
class SelectiveReplay final : public OperatorInterceptor {
 public:
  // effects: what runs the operators. stats: null if nobody collects. All must outlive this.
  SelectiveReplay(const OperatorTrace& trace, const std::string& region, ReplayEffects& effects,
                  RegionStats* stats);

  // Throws DeterminismError or MutationError.
  void intercept(const OperatorCall& call) override;
  void settle() override { effects_.settle(); }

  // The replay has all it needs: whatever runs from now on makes no difference.
  void stop() { has_stopped_ = true; }

  // Throws again what intercept() has thrown, if the region's code has kept it to itself.
  void check() const;

 private:
  void replay(const OperatorCall& call, const TracedOperator& op);
  void run(const OperatorCall& call, const TracedOperator& op);
  void run_timed(const OperatorCall& call, const TracedOperator& op);
  void supply(const OperatorCall& call, const ResultList::Range& range);
  void copy(const OperatorCall& call);
  void replace_kept(const OperatorCall& call);
  // The `ordinal`th tensor that the operator has kept; undefined if it has not.
  at::Tensor kept_tensor(const OperatorCall& call, std::size_t ordinal);
  bool has_all(const TracedOperator& op) const;
  // Forward, which runs still, has not come here yet.
  bool is_ahead_of_forward() const;
  void check_reads(const OperatorCall& call);
  [[noreturn]] void fail_other_operator(const OperatorCall& call);

  const OperatorTrace& trace_;
  const std::string& region_;
  ReplayEffects& effects_;
  RegionStats* const stats_;
  const std::shared_ptr<const OperatorTrace::Kept> kept_;
  const int backward_;
  std::uint32_t next_ = 0;
  bool has_stopped_ = false;
  // What has been supplied and forward has still, while it runs.
  std::vector<StorageId> shared_;
  // What has been supplied without its elements. Held weakly, which keeps addresses from being used
  // again.
  absl::flat_hash_map<StorageId, c10::weak_intrusive_ptr<c10::StorageImpl>> unset_;
  std::optional<std::string> other_operator_;
  std::optional<std::string> mutation_;
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_FUNCTION_SELECTIVE_REPLAY_H_
