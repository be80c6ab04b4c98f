// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The part of a region's record that function replay alone reads.
#ifndef REPRISE_ENGINE_FUNCTION_FUNCTION_RECORD_H_
#define REPRISE_ENGINE_FUNCTION_FUNCTION_RECORD_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "reprise/engine/callable/region_code.h"
#include "reprise/engine/checks/slot_id.h"
#include "reprise/engine/function/kept_calls.h"
#include "reprise/engine/kept/region_input.h"
#include "reprise/engine/tape/function_tape.h"
#include "reprise/engine/watch/watched_forward.h"

namespace reprise::engine_internal {

struct FunctionRecord {
  std::unique_ptr<RegionCode> code;
  std::vector<RegionInput> inputs;             // each tensor once
  std::vector<std::uint32_t> argument_inputs;  // for each tensor argument, its place in `inputs`
  std::unique_ptr<WatchedForward> watched;     // null if its operators are not watched
  std::unique_ptr<FunctionTape> tape;          // null without a policy
  KeptCalls kept_calls;
  // The first slot behind all transfers that forward ran in front of a slot: see Note [Transfers].
  SlotId slot_behind_transfers{0};
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_FUNCTION_FUNCTION_RECORD_H_
