// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The frontier of a tape: see Note [Frontier].
#include <algorithm>
#include <utility>

#include "reprise/engine/operators/operator_traits.h"
#include "reprise/engine/tape_recording/tape_values.h"

namespace reprise::engine_internal {
namespace {

using Why = Tape::Given::Why;
using Frontier = KeptFrontier<TapeValueId, TapeOperatorId>;

}  // namespace

void TapeValues::note_frontier(c10::ArrayRef<c10::IValue> results) {
  const TapeOperatorId index = tape_.operators.last_id();
  const Tape::Operator& op = tape_.operators[index];
  bool reads_kept = false;
  tape_.for_each_use(op, [&](TapeValueId value) {
    if (const Tape::Given* const given = input(value);
        given != nullptr && given->why == Why::kPolicy) {
      frontier_.add_reader(value, index);
      reads_kept = true;
    }
  });
  if (!reads_kept || is_served(index) || op.first_write != op.end_write) {
    return;
  }
  Frontier::Results made;
  for (const c10::IValue& result : results) {
    for_each_tensor(result, [&](const at::Tensor& tensor) {
      const Memory* const memory = find(key_of(tensor));
      if (memory != nullptr && tape_.values[memory->current].op == index) {
        made.push_back({memory->current, c10::weak_intrusive_ptr(tensor.getIntrusivePtr())});
      }
    });
  }
  frontier_.add_results(index, std::move(made));
}

at::Tensor TapeValues::replaceable(TapeValueId value) const {
  const auto found = tape_.given.find(value);
  if (found == tape_.given.end() || found->second.why != Why::kPolicy) {
    return {};
  }
  const KeptResult& kept = found->second.kept;
  const bool is_fixed = kept.is_in_flight || kept.is_snapshot ||
                        info_[value].saved_at_version >= 0 ||
                        tape_.operators[tape_.values[value].op].is_forced;
  return is_fixed ? at::Tensor() : kept.alias;
}

bool TapeValues::is_served(TapeOperatorId index) const {
  const Tape::Operator& op = tape_.operators[index];
  bool is_served = op.first_made < op.end_made || op.first_write < op.end_write;
  const auto is_supplied = [this](TapeValueId value) {
    return value == Tape::kNone || is_kept(value) || info_[value].is_released;
  };
  for (std::uint32_t i = op.first_made; i < op.end_made; ++i) {
    is_served = is_served && is_supplied(tape_.made[i].value);
  }
  for (std::uint32_t i = op.first_write; i < op.end_write; ++i) {
    is_served = is_served && is_supplied(tape_.writes[i].after);
  }
  return is_served;
}

bool TapeValues::may_keep(TapeOperatorId index, TapeValueId value, const at::Tensor& tensor) const {
  const Tape::Operator& op = tape_.operators[index];
  const Memory* const memory = find(key_of(tensor));
  const bool is_unchanged = memory != nullptr && memory->current == value && !memory->is_others;
  return is_unchanged && op.decision != CheckpointPolicy::MUST_RECOMPUTE && !op.is_forced &&
         op.transfer == Transfer::kNone && info_[value].unfilled_bytes == 0 &&
         !info_[value].is_factorys && is_keepable(tensor);
}

void TapeValues::keep_instead(TapeOperatorId /*index*/, TapeValueId value,
                              const at::Tensor& tensor) {
  keep(value, whole(value, tensor), nullptr, /*is_in_flight=*/false);
}

std::int64_t TapeValues::dropped_bytes() const {
  std::int64_t bytes = 0;
  for (const TapeValueId value : info_.ids()) {
    const bool is_made = tape_.values[value].op != Tape::kNone;
    bytes += is_made && info_[value].saved_at_version >= 0 && !is_kept(value) ? bytes_of(value) : 0;
  }
  return bytes;
}

bool TapeValues::may_drop(TapeValueId value) const {
  return replaceable(value).defined() && !is_must(tape_.operators[tape_.values[value].op].decision);
}

void TapeValues::release(TapeValueId value, const std::vector<TapeOperatorId>& readers) {
  const CheckpointPolicy decision = tape_.operators[tape_.values[value].op].decision;
  for (const TapeOperatorId reader : readers) {
    inherit_decision(tape_.operators[reader].decision, decision);
  }
  info_[value].is_released = true;
  forget(value);
}

}  // namespace reprise::engine_internal
