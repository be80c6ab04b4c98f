// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The number of a slot: of a tensor among all that autograd saved in a region's forward.
#ifndef REPRISE_ENGINE_CHECKS_SLOT_ID_H_
#define REPRISE_ENGINE_CHECKS_SLOT_ID_H_

#include "reprise/base/ids/id_set.h"
#include "reprise/base/ids/strong_id.h"

namespace reprise::engine_internal {

using SlotId = base_internal::StrongId<class SlotTag>;
using SlotSet = base_internal::IdSet<SlotId>;

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_CHECKS_SLOT_ID_H_
