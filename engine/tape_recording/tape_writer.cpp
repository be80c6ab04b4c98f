// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/tape_recording/tape_writer.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "reprise/engine/operators/operator_facts.h"
#include "reprise/engine/tape/trace_of_tape.h"
#include "reprise/hooks/seam/forwarding_engine.h"
#include "reprise/hooks/seam/unseen_scope.h"

namespace reprise::engine_internal {
namespace {

using Why = Tape::Given::Why;

}  // namespace

constinit thread_local base_internal::SizeHint TapeWriter::t_operators_;
constinit thread_local base_internal::SizeHint TapeWriter::t_values_;

TapeWriter::TapeWriter(Tape& tape, MemoryTable& memory, std::shared_ptr<Policy> policy,
                       const std::string& region, TapeValues::Options options,
                       OperatorInterceptor* next, PolicyRegion* enclosing)
    : ChainedInterceptor(next),
      tape_(tape),
      tables_(tape),
      values_(tape, tables_, memory, options),
      pending_writes_(tape, values_),
      policy_region_(std::move(policy), region, *this, enclosing),
      backward_(hooks_internal::current_backward()) {
  t_operators_.reserve(tape_.operators);
  t_values_.reserve(tape_.values);
  t_values_.reserve(tape_.made);
  values_.reserve(tape_.values.capacity());
}

void TapeWriter::note_versions(bool is_part) {
  settle();
  pending_writes_.settle(is_part);
  values_.advance_frontier(/*is_over=*/false);
}

void TapeWriter::end_policy(const SlotSet& alive) {
  const auto may_keep = [this](TapeValueId value) {
    return values_[value].may_keep && !values_[value].is_constant;
  };
  policy_region_.end([&] { return trace_of_tape(tape_, alive, may_keep); });
}

void TapeWriter::end_recording() {
  note_versions();
  t_operators_.complete(tape_.operators);
  t_values_.complete(tape_.values);
}

void TapeWriter::note_final_versions() {
  for (auto& [value, given] : tape_.given) {
    if (given.why == Why::kPolicy && given.kept.alias.defined()) {
      given.kept.version = version_of(given.kept.alias);
    }
  }
}

void TapeWriter::note_target(const at::Tensor& tensor, TapeValueId value) {
  const bool is_known =
      std::any_of(targets_now_.begin(), targets_now_.end(),
                  [value](const Written& other) { return other.before == value; });
  if (!is_known) {
    targets_now_.push_back({TapeValues::key_of(tensor), tensor, value});
  }
}

std::optional<RandomDraw> TapeWriter::begin_draw(const OperatorCall& call, bool preserves_rng) {
  const at::Generator generator = preserves_rng ? generator_of(call) : at::Generator();
  return generator.defined() ? std::optional(draws_.begin(generator)) : std::nullopt;
}

void TapeWriter::note_draw(std::optional<RandomDraw> draw, const OperatorTraits& traits) {
  if (draw && (traits.is_random || !draw->before.is_current())) {
    draws_.end(*draw);
    tape_.operators.back().random = static_cast<std::uint32_t>(tape_.random.size());
    tape_.random.push_back(std::move(*draw));
  }
}

void TapeWriter::push_operator(const Tape::Operator& op) {
  tape_.operators.push_back(op);
  tape_.operators.back().end_made = static_cast<std::uint32_t>(tape_.made.size());
  tape_.operators.back().end_write = static_cast<std::uint32_t>(tape_.writes.size());
}

void TapeWriter::note_results(const OperatorCall& call, const StorageIdList& arguments) {
  const TapeOperatorId index = tape_.operators.next_id();
  std::uint16_t ordinal = 0;
  for (const c10::IValue& result : call.results()) {
    for_each_tensor(result, [&](const at::Tensor& tensor) {
      const std::uint16_t place = ordinal++;
      if (!is_keepable(tensor)) {
        return;
      }
      const StorageId memory = storage_id_of(tensor);
      if (std::find(arguments.begin(), arguments.end(), memory) != arguments.end()) {
        return;  // becomes a tape input at its first read
      }
      if (place > 0 && values_.is_result_of(index, memory)) {  // two results in one storage
        values_[values_.current(memory)].geometry = tables_.geometry_of(flat(tensor));
        return;
      }
      const TapeValueId value = values_.add_made(memory, tensor, index);
      TapeValues::Info& info = values_[value];
      info.has_unset_parts = leaves_parts_unset(call, tensor);
      values_.note_version(value, tensor);
      info.is_in_transfer = call.traits.delivers_later();
      info.unfilled_bytes = call.traits.leaves_memory_as_it_is ? info.bytes : 0;
      info.is_factorys =
          call.traits.makes_constants || (arguments.empty() && !call.traits.is_random);
      info.sample = samples_now_ ? sample_memory(tensor, info.is_factorys) : 0;
      tape_.made.push_back({value, info.geometry, place, tensor.device()});
      note_made(call, value, tensor);
    });
  }
}

void TapeWriter::prepare_stored(const Written& write) {
  if (Tape::Given* const kept = values_.input(write.before); kept != nullptr && kept->kept.stored) {
    kept->kept.take_snapshot(values_.whole(write.before, write.tensor));
    kept->geometry = values_[write.before].geometry;
  }
}

// A retained result follows the write, unless the earlier state is needed.
void TapeWriter::prepare_write_inside(Written& write) {
  prepare_stored(write);
  write.follows = write.follows && (write.is_arrival || !values_.is_needed_itself(write.before));
  Tape::Given* const kept = values_.input(write.before);
  if (kept == nullptr || !kept->kept.alias.defined() || write.follows) {
    return;
  }
  const Tape::Operator& creator = tape_.operators[tape_.values[write.before].op];
  if (creator.is_forced || is_must(creator.decision)) {
    kept->kept = KeptResult(TapeValues::copy_of(kept->kept.alias), kept->kept.store);
    kept->geometry = tables_.geometry_of(kept->kept.alias);
  } else {
    values_.forget(write.before);
  }
}

// Returns whether the memory, now filled with a constant, is as likely to be filled through a
// pointer. A large one that is filled in many parts would take long to compare each time.
bool TapeWriter::stays_factorys(const TapeValues::Info& before, const TapeValues::Info& now,
                                const at::Tensor& written) {
  constexpr std::int64_t kQuicklyCompared = 4096;
  const bool is_written_whole = static_cast<std::int64_t>(written.nbytes()) == now.bytes;
  const bool is_never_compared = !written.is_cpu();
  return is_written_whole || ((before.is_factorys || before.unfilled_bytes > 0) &&
                              (is_never_compared || now.bytes <= kQuicklyCompared));
}

void TapeWriter::note_write_inside(const OperatorCall& call, const Written& write) {
  const TapeOperatorId index = tape_.operators.next_id();
  const TapeValues::Info before = values_[write.before];
  const TapeValueId after = values_.add_made(write.memory, write.tensor, index);
  TapeValues::Info& info = values_[after];
  const std::int64_t grown_bytes = info.bytes - before.bytes;  // an out= argument may be resized
  info.geometry = grown_bytes == 0 ? before.geometry : tables_.geometry_of(flat(write.tensor));
  // Written again and again, a part is one part.
  info.last_filled_at = write.tensor.storage_offset();
  const auto target_bytes = static_cast<std::int64_t>(write.tensor.nbytes());
  const bool is_again = before.last_filled_at == info.last_filled_at && target_bytes < info.bytes;
  const std::int64_t written_bytes = is_again ? 0 : target_bytes;
  info.unfilled_bytes =
      std::max<std::int64_t>(0, before.unfilled_bytes + grown_bytes - written_bytes);
  info.is_factorys = call.traits.fills_with_constant && stays_factorys(before, info, write.tensor);
  info.is_in_transfer = call.traits.delivers_later();
  info.sample =
      samples_now_ && is_dense(write.tensor) ? sample_memory(write.tensor, info.is_factorys) : 0;
  tape_.writes.push_back({write.scratch == Tape::kNone ? write.before : write.scratch, after});
  if (write.is_refill) {
    values_.note_refilled(after, write.tensor);
  }
  const Tape::Given* const kept = values_.input(write.before);
  if (kept != nullptr && kept->why == Why::kPolicy && kept->kept.alias.defined() && write.follows) {
    std::shared_ptr<ActivationStore> store = kept->kept.store;
    values_.forget(write.before);
    values_[write.before].is_released = true;
    values_[write.before].is_kept_as_written = true;
    keep(after, write.tensor, std::move(store));
    values_[after].keeper = before.keeper;
    pending_writes_.add_input(after);
  }
}

void TapeWriter::keep(TapeValueId value, const at::Tensor& tensor,
                      std::shared_ptr<ActivationStore> store) {
  values_.keep(value, values_.whole(value, tensor), std::move(store),
               (has_transfers_ && values_.is_in_flight(value)) || arrives_later_now_);
}

bool TapeWriter::forget_lost(bool with_stored) {
  bool is_any_written = false;
  absl::erase_if(tape_.given, [&](const auto& entry) {
    const auto& [value, given] = entry;
    const at::Tensor& kept = given.kept.alias;
    if (given.why != Why::kPolicy || (!kept.defined() && !with_stored)) {
      return false;
    }
    const bool is_freed = kept.defined() && kept.has_storage() &&
                          static_cast<std::int64_t>(kept.storage().nbytes()) < values_[value].bytes;
    const bool is_written = given.kept.is_written_through_pointer();
    is_any_written = is_any_written || is_written;
    return is_freed || is_written;
  });
  return is_any_written;
}

void TapeWriter::give_kept(bool through_hooks) {
  std::vector<TapeValueId> to_go;
  for (const auto& [value, given] : tape_.given) {
    if (through_hooks || given.kept.store != nullptr) {
      to_go.push_back(value);
    }
  }
  std::sort(to_go.begin(), to_go.end());  // in the same order in each process
  for (const TapeValueId value : to_go) {
    Tape::Given& given = tape_.given.at(value);
    KeptResult& kept = given.kept;
    kept.put_away();
    if (!through_hooks || given.why != Why::kPolicy || !kept.alias.defined() || kept.is_in_flight ||
        kept.alias.is_inference()) {
      continue;
    }
    if (auto hooks = hooks_internal::make_ambient_hooks()) {
      const hooks_internal::UnseenScope unseen;
      hooks->call_pack_hook(kept.alias);
      kept.packed = std::move(hooks);
      kept.alias.reset();
    }
  }
}

void TapeWriter::report_operators(const TapeValueSet& needed, RegionStats& stats) const {
  base_internal::IdVector<TapeOperatorId, std::int64_t> kept_bytes(tape_.operators.size());
  for (const auto& [value, given] : tape_.given) {
    if (given.why == Why::kPolicy && needed[value]) {
      kept_bytes[values_[value].keeper] += values_[value].bytes;
    }
  }
  for (const TapeOperatorId index : tape_.operators.ids()) {
    const Tape::Operator& op = tape_.operators[index];
    std::int64_t dropped_bytes = 0;
    for (const Tape::Made& each : tape_.made_by(op)) {
      const TapeValueId made = each.value;
      const bool is_kept = needed[made] && tape_.given.contains(made);
      dropped_bytes += is_kept || values_[made].is_kept_as_written ? 0 : values_[made].bytes;
    }
    stats.kept_bytes.fetch_add(kept_bytes[index]);
    if (op.is_asked) {
      stats.add_call(op.op.operator_name(), op.decision, kept_bytes[index], dropped_bytes);
    }
  }
}

}  // namespace reprise::engine_internal
