// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The tape of a region as a policy sees it when forward has ended.
#ifndef REPRISE_ENGINE_TAPE_TRACE_OF_TAPE_H_
#define REPRISE_ENGINE_TAPE_TRACE_OF_TAPE_H_

#include "absl/functional/function_ref.h"
#include "reprise/engine/tape/tape.h"
#include "reprise/policies/region_trace.h"

namespace reprise::engine_internal {

// tape: of all that forward ran. alive: the slots that autograd still holds. may_keep: whether
// replays can be supplied with a value.
RegionTrace trace_of_tape(const Tape& tape, const SlotSet& alive,
                          absl::FunctionRef<bool(TapeValueId)> may_keep);

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_TAPE_TRACE_OF_TAPE_H_
