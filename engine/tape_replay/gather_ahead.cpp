// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/tape_replay/gather_ahead.h"

#include <algorithm>
#include <utility>

#include "reprise/engine/operators/storage_id.h"
#include "reprise/hooks/seam/unseen_scope.h"

namespace reprise::engine_internal {
namespace {

// Returns the tensor from outside, or one over its memory; undefined for other values.
at::Tensor outside_memory(const Tape& tape, TapeValueId value) {
  const auto found = tape.given.find(value);
  if (found == tape.given.end()) {
    return {};
  }
  const Tape::Given& given = found->second;
  return given.parameter.defined() ? given.parameter : given.kept.alias;
}

}  // namespace

GatherAhead::GatherAhead(const Tape& tape, const std::vector<TapeOperatorId>& operators,
                         bool may_refill) {
  if (!may_refill || !has_refillable()) {
    return;
  }
  for (std::size_t position = 0; position < operators.size(); ++position) {
    tape.for_each_tensor_argument(tape.operators[operators[position]], [&](const auto& argument) {
      const at::Tensor memory = outside_memory(tape, argument.value);
      Refill refill = memory.defined() ? refill_of(memory) : nullptr;
      const bool is_known = std::any_of(gathers_.begin(), gathers_.end(),
                                        [&](const auto& each) { return each.refill == refill; });
      if (refill != nullptr && !is_known) {
        gathers_.push_back({position, memory, std::move(refill)});
      }
    });
  }
}

// An operator may be the first one to read the memory of several owners.
void GatherAhead::gather_next() {
  const hooks_internal::UnseenScope unseen;
  const std::size_t position = gathers_[next_].position;
  for (; next_ < gathers_.size() && gathers_[next_].position == position; ++next_) {
    if (is_beyond_storage(gathers_[next_].memory)) {
      gathers_[next_].refill->fill();
    }
  }
  if (next_ < gathers_.size() && is_beyond_storage(gathers_[next_].memory)) {
    gathers_[next_].refill->start();
  }
}

}  // namespace reprise::engine_internal
