// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// What a frame keeps of its forward run, for replays to read.
#ifndef REPRISE_ENGINE_RECOMPUTATION_REGION_RECORD_H_
#define REPRISE_ENGINE_RECOMPUTATION_REGION_RECORD_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "reprise/engine/ambient/region_state.h"
#include "reprise/engine/callable/region_code.h"
#include "reprise/engine/checks/saved_tensor_record.h"
#include "reprise/engine/function/operator_trace.h"
#include "reprise/engine/function/trace_recorder.h"
#include "reprise/engine/kept/region_input.h"
#include "reprise/engine/report/operator_log.h"
#include "reprise/engine/report/region_stats.h"
#include "reprise/engine/tape/tape.h"
#include "reprise/engine/watch/watched_forward.h"

namespace reprise::engine_internal {

class TapeRecorder;

struct RegionRecord {
  RecordOptions check_options() const { return {check, &describe}; }

  std::string name;
  bool early_stop = true;
  bool allow_external_mutation = false;
  DeterminismCheck check = DeterminismCheck::kMetadata;
  std::function<std::string(const at::Tensor&)> describe;

  std::unique_ptr<RegionCode> code;              // null if the region has a tape
  std::shared_ptr<ActivationStore> input_store;  // or null
  int prefetch_depth = 0;
  bool synchronizes = false;                   // wait_at_boundary()
  std::vector<RegionInput> inputs;             // each tensor once
  std::vector<std::uint32_t> argument_inputs;  // for each tensor argument, its place in `inputs`
  RegionState state;

  std::unique_ptr<WatchedForward> watched;  // of function replays, unless nothing is checked

  std::unique_ptr<OperatorTrace> trace;           // of function replays under a policy
  std::unique_ptr<TraceRecorder> trace_recorder;  // in forward

  std::unique_ptr<Tape> tape;        // of tape replays
  TapeRecorder* recorder = nullptr;  // in forward
  bool fills_region = false;         // at the first request

  std::vector<SavedTensorRecord> slots;
  // The first behind all transfers that forward ran in front of a slot: see Note [Transfers].
  std::uint32_t slot_behind_transfers = 0;
  bool forward_completed = false;

  std::unique_ptr<OperatorLog> operators;  // in debug mode only
  std::shared_ptr<RegionStats> stats;      // while somebody collects
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_RECOMPUTATION_REGION_RECORD_H_
