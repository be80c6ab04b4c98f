// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// What of a tape replays can ask for, found when forward has ended.
#include <algorithm>

#include "reprise/engine/tape_recording/tape_recorder.h"
#include "reprise/hooks/seam/forwarding_engine.h"
#include "reprise/hooks/seam/unseen_scope.h"

namespace reprise::engine_internal {
namespace {

using Why = Tape::Given::Why;

using IsAtHand = absl::FunctionRef<bool(TapeValueId)>;

// No replay computes it.
bool is_always_at_hand(const Tape& tape, TapeValueId value) {
  const auto found = tape.given.find(value);
  return found != tape.given.end() && !(tape.allow_mutation && found->second.why == Why::kPolicy);
}

bool is_operator_needed(const Tape& tape, const Tape::Operator& op, const std::vector<bool>& needed,
                        IsAtHand is_at_hand) {
  const auto is_wanted = [&](TapeValueId value) {
    return value != Tape::kNone && needed[value] && !is_at_hand(value);
  };
  for (std::uint32_t i = op.first_made; i < op.end_made; ++i) {
    if (is_wanted(tape.made[i].value)) {
      return true;
    }
  }
  for (std::uint32_t i = op.first_write; i < op.end_write; ++i) {
    if (is_wanted(tape.writes[i].after)) {
      return true;
    }
  }
  return false;
}

// Of what is needed already. An operator makes values later than all that it reads, so one pass
// from the end finds them all.
std::vector<bool> needed_operators(const Tape& tape, std::vector<bool>& needed,
                                   IsAtHand is_at_hand) {
  std::vector<bool> operators(tape.operators.size());
  for (std::size_t index = tape.operators.size(); index-- > 0;) {
    const Tape::Operator& op = tape.operators[index];
    if (!op.is_required && !is_operator_needed(tape, op, needed, is_at_hand)) {
      continue;
    }
    operators[index] = true;
    tape.for_each_use(op, [&](TapeValueId value) { needed[value] = true; });
  }
  return operators;
}

// What transfers bring, where nothing is to be waited for any more.
void need_transfers(const Tape& tape, std::vector<bool>& needed) {
  for (const Tape::Operator& op : tape.operators) {
    if (op.transfer == Transfer::kNone) {
      continue;
    }
    for (std::uint32_t i = op.first_made; i < op.end_made; ++i) {
      needed[tape.made[i].value] = true;
    }
    for (std::uint32_t i = op.first_write; i < op.end_write; ++i) {
      if (tape.writes[i].after != Tape::kNone) {
        needed[tape.writes[i].before] = false;
        needed[tape.writes[i].after] = true;
      }
    }
  }
}

}  // namespace

std::vector<bool> needed_values(const Tape& tape, const std::vector<bool>& slots,
                                std::vector<bool>& operators, IsAtHand is_at_hand) {
  std::vector<bool> needed(tape.values.size());
  for (std::size_t slot = 0; slot < slots.size(); ++slot) {
    if (slots[slot] && tape.slots[slot].value != Tape::kNone) {
      needed[tape.slots[slot].value] = true;
    }
  }
  operators = needed_operators(tape, needed, is_at_hand);
  return needed;
}

// Those that a slot needs, be it alive or not: see Note [Transfers].
void TapeRecorder::require_transfers() {
  if (!has_transfers_) {
    return;
  }
  std::vector<bool> needed(tape_.values.size());
  if (options_.needs_transfers) {
    need_transfers(tape_, needed);
  }
  for (const Tape::Tensor& slot : tape_.slots) {
    if (slot.value != Tape::kNone) {
      needed[slot.value] = true;
    }
  }
  const std::vector<bool> operators = needed_operators(
      tape_, needed, [this](TapeValueId value) { return is_always_at_hand(tape_, value); });
  for (std::size_t index = 0; index < operators.size(); ++index) {
    Tape::Operator& op = tape_.operators[index];
    op.is_required = op.transfer != Transfer::kNone && operators[index];
    tape_.has_required = tape_.has_required || op.is_required;
  }
}

// The tape has seen each write of the region's, so a version that it does not know of has been
// counted without one, as by mark_dirty().
void TapeRecorder::note_final_versions() {
  for (auto& [value, given] : tape_.given) {
    if (given.why == Why::kPolicy && given.kept.alias.defined()) {
      given.kept.version = version_of(given.kept.alias);
    }
  }
}

void TapeRecorder::complete(const std::vector<bool>& alive, bool may_pack, RegionStats* stats) {
  tape_.recomputes_kept = false;
  note_versions();
  note_final_versions();
  require_transfers();
  std::vector<bool> operators;
  const std::vector<bool> needed =
      needed_values(tape_, alive, operators,
                    [this](TapeValueId value) { return is_always_at_hand(tape_, value); });
  if (stats != nullptr) {
    report(needed, *stats);
  }
  // What the policy keeps and who still holds something differs between forward and the replay of
  // an enclosing region, which has to save the same.
  std::vector<bool> otherwise;
  if (options_.is_nested) {
    otherwise = looked_at_otherwise(std::vector<bool>(tape_.slots.size(), true));
  }
  drop_operators_but(operators);
  if (!options_.is_nested) {
    otherwise = looked_at_otherwise(alive);
  }
  give_inputs(needed, otherwise, may_pack);
  give_kept(needed, may_pack);
  if (stats != nullptr) {
    stats->tape_bytes.fetch_add(static_cast<std::int64_t>(tape_.bytes()));
    stats->tape_operators.fetch_add(static_cast<std::int64_t>(tape_.operators.size()));
  }
}

void TapeRecorder::drop_operators_but(const std::vector<bool>& needed) {
  Tape kept;
  std::vector<std::uint32_t> numbers(tape_.operators.size(), Tape::kNone);
  const auto take = [](auto& to, const auto& from, std::uint32_t& first, std::uint32_t& end) {
    const auto start = static_cast<std::uint32_t>(to.size());
    to.insert(to.end(), from.begin() + first, from.begin() + end);
    first = start;
    end = static_cast<std::uint32_t>(to.size());
  };
  for (std::size_t index = 0; index < tape_.operators.size(); ++index) {
    if (!needed[index]) {
      continue;
    }
    Tape::Operator op = tape_.operators[index];
    take(kept.arguments, tape_.arguments, op.first_argument, op.end_argument);
    take(kept.made, tape_.made, op.first_made, op.end_made);
    take(kept.writes, tape_.writes, op.first_write, op.end_write);
    if (op.random != Tape::kNone) {
      kept.random.push_back(std::move(tape_.random[op.random]));
      op.random = static_cast<std::uint32_t>(kept.random.size() - 1);
    }
    numbers[index] = static_cast<std::uint32_t>(kept.operators.size());
    kept.operators.push_back(std::move(op));
  }
  for (Tape::Value& value : tape_.values) {
    value.op = value.op == Tape::kNone ? Tape::kNone : numbers[value.op];
  }
  tape_.operators = std::move(kept.operators);
  tape_.arguments = std::move(kept.arguments);
  tape_.made = std::move(kept.made);
  tape_.writes = std::move(kept.writes);
  tape_.random = std::move(kept.random);
  tape_.values.shrink_to_fit();
  tape_.geometries.shrink_to_fit();
  tape_.constants.shrink_to_fit();
  ++tape_.generation;
}

// Those that an operator or one of `slots` looks at otherwise than the tensor that is at hand can
// be looked at.
std::vector<bool> TapeRecorder::looked_at_otherwise(const std::vector<bool>& slots) const {
  std::vector<bool> otherwise(tape_.values.size());
  std::vector<std::uint32_t> given_as(tape_.values.size(), Tape::kNone);  // geometries
  for (const auto& [value, given] : tape_.given) {
    given_as[value] = given.geometry;
  }
  const auto look = [&](const Tape::Tensor& tensor) {
    if (given_as[tensor.value] == Tape::kNone || tensor.geometry == Tape::kNone) {
      return;
    }
    const auto& geometries = tape_.geometries;
    if (!covers(geometries[given_as[tensor.value]], geometries[tensor.geometry])) {
      otherwise[tensor.value] = true;
    }
  };
  for (const Tape::Operator& op : tape_.operators) {
    tape_.for_each_tensor_argument(op, look);
  }
  for (std::size_t slot = 0; slot < slots.size(); ++slot) {
    if (slots[slot] && tape_.slots[slot].value != Tape::kNone) {
      look(tape_.slots[slot]);
    }
  }
  return otherwise;
}

// Each tensor from outside goes to the surrounding hooks, needed or not: an enclosing region counts
// what its code saves, and its replay must count the same. A store gets those that are needed.
void TapeRecorder::give_inputs(const std::vector<bool>& needed, const std::vector<bool>& otherwise,
                               bool may_pack) {
  std::vector<TapeValueId> to_pack;
  std::vector<at::Tensor> tensors;
  for (const TapeValueId value : outside_) {
    Tape::Given& input = tape_.given.at(value);
    if (input.why == Why::kOutside && input.kept.is_mutated() && !input.lost) {
      input.lost = lost_words(input);
    }
    if (otherwise[value] && !input.parameter.defined()) {
      input.kept.alias = flat(input.kept.alias);
      input.geometry = geometry_of(input.kept.alias);
    }
    // Nobody uses what batch-norm has saved of its statistics: as something that an enclosing
    // region has saved it would be compared.
    const bool is_packed = (options_.input_store == nullptr || needed[value]) &&
                           !input.is_parameter && !info_[value].is_statistics;
    if (may_pack && is_packed && input.why == Why::kOutside && !input.lost) {
      to_pack.push_back(value);
      tensors.push_back(input.kept.alias);
    }
  }
  std::vector<RegionInput> inputs = RegionInput::keep_all(tensors, options_.input_store, region());
  for (std::size_t i = 0; i < to_pack.size(); ++i) {
    Tape::Given& input = tape_.given.at(to_pack[i]);
    input.input.emplace(std::move(inputs[i]));
    input.kept.alias.reset();
  }
  for (const TapeValueId value : outside_) {
    if (!needed[value]) {
      tape_.given.erase(value);
    }
  }
}

void TapeRecorder::give_kept(const std::vector<bool>& needed, bool may_pack) {
  absl::erase_if(tape_.given, [&](const auto& entry) {
    return entry.second.why == Why::kPolicy && !needed[entry.first];
  });
  if (!may_pack) {
    return;
  }
  const hooks_internal::UnseenScope unseen;
  for (const TapeValueId value : sorted_keys(tape_.given)) {
    Tape::Given& given = tape_.given.at(value);
    KeptResult& kept = given.kept;
    kept.put_away();
    if (!options_.through_hooks || given.why != Why::kPolicy || !kept.alias.defined() ||
        kept.is_in_flight || kept.alias.is_inference()) {
      continue;
    }
    if (auto hooks = hooks_internal::make_ambient_hooks()) {
      hooks->call_pack_hook(kept.alias);
      kept.packed = std::move(hooks);
      kept.alias.reset();
    }
  }
}

void TapeRecorder::report(const std::vector<bool>& needed, RegionStats& stats) const {
  for (const Tape::Operator& op : tape_.operators) {
    std::int64_t kept_bytes = 0;
    std::int64_t dropped_bytes = 0;
    const auto count = [&](TapeValueId value) {
      const bool is_kept = needed[value] && tape_.given.contains(value);
      kept_bytes += is_kept ? info_[value].bytes : 0;
      return is_kept;
    };
    for (std::uint32_t i = op.first_made; i < op.end_made; ++i) {
      dropped_bytes += count(tape_.made[i].value) ? 0 : info_[tape_.made[i].value].bytes;
    }
    for (std::uint32_t i = op.first_write; i < op.end_write; ++i) {
      if (tape_.writes[i].after != Tape::kNone) {
        count(tape_.writes[i].after);
      }
    }
    stats.kept_bytes.fetch_add(kept_bytes);
    if (op.is_asked) {
      stats.add_call(op.op.operator_name(), op.decision, kept_bytes, dropped_bytes);
    }
  }
  for (const TapeValueId value : outside_) {
    const Tape::Given& given = tape_.given.at(value);
    if (needed[value] && !given.is_parameter && given.why != Why::kScratch) {
      stats.kept_bytes.fetch_add(info_[value].bytes);
    }
    if (needed[value] && given.why == Why::kOutOfSight) {
      stats.out_of_sight_bytes.fetch_add(info_[value].bytes);
    }
  }
}

}  // namespace reprise::engine_internal
