// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The part of a region's record that every form of recomputation reads.
#ifndef REPRISE_ENGINE_RECOMPUTATION_REGION_RECORD_H_
#define REPRISE_ENGINE_RECOMPUTATION_REGION_RECORD_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "reprise/engine/ambient/region_state.h"
#include "reprise/engine/checks/saved_statistics.h"
#include "reprise/engine/checks/saved_tensor_record.h"
#include "reprise/engine/checks/slot_id.h"
#include "reprise/engine/kept/weak_alias.h"
#include "reprise/engine/report/operator_log.h"
#include "reprise/engine/report/region_stats.h"

namespace reprise {
class ActivationStore;
}  // namespace reprise

namespace reprise::engine_internal {

struct RegionRecord {
  RecordOptions check_options() const { return {check, &describe}; }
  bool is_in_hooks() const { return statistics != nullptr; }  // see HookProvider::may_copy()

  std::string name;
  std::int64_t copied_state_limit_bytes = 0;
  bool early_stop = true;
  bool allow_external_mutation = false;
  DeterminismCheck check = DeterminismCheck::kMetadata;
  std::function<std::string(const at::Tensor&)> describe;
  std::shared_ptr<ActivationStore> input_store;  // or null
  int prefetch_depth = 0;
  bool synchronizes = false;  // wait_at_boundary()
  RegionState state;

  struct Slot {
    Slot(SavedTensorRecord of_saved, std::uint32_t group, std::unique_ptr<const WeakAlias> alias)
        : saved(std::move(of_saved)), input_group(group), input(std::move(alias)) {}

    SavedTensorRecord saved;
    bool is_alive = true;          // whether autograd holds it; guarded by the frame's lock
    bool outlives_forward = true;  // autograd held it when forward had ended
    std::uint32_t input_group;     // see InputGroup; 0: saved by autograd
    std::unique_ptr<const WeakAlias> input;  // likewise, if it has bytes
  };
  // In the order in which autograd saved them. Grows in forward, under the frame's lock.
  base_internal::IdVector<SlotId, Slot> slots;
  bool forward_completed = false;
  bool is_read_in_forward = false;              // a backward inside has asked for a slot; likewise
  std::unique_ptr<SavedStatistics> statistics;  // in hooks; otherwise null

  std::unique_ptr<OperatorLog> operators;  // in debug mode only
  std::shared_ptr<RegionStats> stats;      // while a report is collected
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_RECOMPUTATION_REGION_RECORD_H_
