// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// A set of numbers, as a flag for each. Small sets, as most regions have, allocate no memory.
#ifndef REPRISE_BASE_IDS_ID_SET_H_
#define REPRISE_BASE_IDS_ID_SET_H_

#include "absl/container/inlined_vector.h"
#include "reprise/base/ids/strong_id.h"

namespace reprise::base_internal {

template <class Id>
using IdSet = IdVector<Id, bool, absl::InlinedVector<bool, 40>>;

}  // namespace reprise::base_internal

#endif  // REPRISE_BASE_IDS_ID_SET_H_
