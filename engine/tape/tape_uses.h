// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The part of a tape that the live slots depend on, determined by counting uses. Autograd releases
// a slot after the last run of the node that saved it: values retained for that slot alone are then
// freed while the rest of the backward continues.
#ifndef REPRISE_ENGINE_TAPE_TAPE_USES_H_
#define REPRISE_ENGINE_TAPE_TAPE_USES_H_

#include <cstdint>
#include <vector>

#include "reprise/engine/tape/tape.h"

namespace reprise::engine_internal {

class TapeUses {
 public:
  enum class Kind : std::uint8_t {
    kAll,     // by all operators of the tape
    kDirect,  // by operators that run as long as what is retained stays so; for retained values
  };
  TapeUses(const Tape& tape, const SlotSet& alive, Kind kind = Kind::kAll);

  // To be called once per slot, when it has died. Removes from the tape the inputs that are no
  // longer needed, and returns them.
  std::vector<Tape::Given> drop_slot(Tape& tape, SlotId slot);

 private:
  bool may_drop(const Tape::Given& given) const {
    return kind_ == Kind::kAll || given.why == Tape::Given::Why::kPolicy;
  }

  Kind kind_;
  // By slots, and by operators that are in use.
  base_internal::IdVector<TapeValueId, std::uint32_t> of_values_;
  // By the values that it makes and that are in use.
  base_internal::IdVector<TapeOperatorId, std::uint32_t> of_operators_;
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_TAPE_TAPE_USES_H_
