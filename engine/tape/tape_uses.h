// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// What of a tape the slots that are alive depend on, found by counting uses. Autograd lets go of a
// slot when the node that saved it has run for the last time: then what was kept for the slot's
// sake is freed, while the rest of the backward goes on.
#ifndef REPRISE_ENGINE_TAPE_TAPE_USES_H_
#define REPRISE_ENGINE_TAPE_TAPE_USES_H_

#include <cstdint>
#include <vector>

#include "reprise/engine/tape/tape.h"

namespace reprise::engine_internal {

class TapeUses {
 public:
  TapeUses(const Tape& tape, const std::vector<bool>& alive);

  // To be called once a slot, when it has died. Takes out of the tape what nobody needs any more,
  // and returns it.
  std::vector<Tape::Given> drop_slot(Tape& tape, std::uint32_t slot);

 private:
  std::vector<std::uint32_t> of_values_;     // by slots, and by operators that are in use
  std::vector<std::uint32_t> of_operators_;  // by those of the values it makes that are in use
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_TAPE_TAPE_USES_H_
