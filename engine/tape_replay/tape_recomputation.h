// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Recomputation by tape replay: dispatches recorded operators again, for the slots that ask.
#ifndef REPRISE_ENGINE_TAPE_REPLAY_TAPE_RECOMPUTATION_H_
#define REPRISE_ENGINE_TAPE_REPLAY_TAPE_RECOMPUTATION_H_

#include <memory>

#include "reprise/engine/recomputation/recomputation.h"

namespace reprise::engine_internal {

// `record` must outlive the result.
std::unique_ptr<Recomputation> make_tape_recomputation(RegionRecord& record,
                                                       const RegionEntry& entry);

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_TAPE_REPLAY_TAPE_RECOMPUTATION_H_
