// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/tape_recording/refilled_reads.h"

#include <algorithm>

namespace reprise::engine_internal {

void RefilledReads::add(const Refill& refill) {
  if (std::find(now_.begin(), now_.end(), refill) == now_.end()) {
    now_.push_back(refill);
  }
}

void RefilledReads::note_used(TapeValueId value) {
  if (const auto found = of_.find(value); found != of_.end()) {
    std::for_each(found->second.begin(), found->second.end(),
                  [this](const Refill& refill) { add(refill); });
  }
}

void RefilledReads::note_made(TapeValueId value) {
  if (!now_.empty()) {
    of_.insert_or_assign(value, now_);
  }
}

bool RefilledReads::is_within_reach(TapeValueId value) const {
  const auto found = of_.find(value);
  return found == of_.end() ||
         std::all_of(found->second.begin(), found->second.end(),
                     [](const Refill& refill) { return refill->is_in_use.load(); });
}

}  // namespace reprise::engine_internal
