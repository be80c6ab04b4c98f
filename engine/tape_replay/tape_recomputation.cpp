// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/tape_replay/tape_recomputation.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "reprise/engine/errors.h"
#include "reprise/engine/operators/storage_id.h"
#include "reprise/engine/tape/tape.h"
#include "reprise/engine/tape/tape_uses.h"
#include "reprise/engine/tape_recording/tape_recorder.h"
#include "reprise/engine/tape_replay/tape_eviction.h"
#include "reprise/engine/tape_replay/tape_replay.h"

namespace reprise::engine_internal {
namespace {

class TapeSession final : public SessionRecomputation {
  using Reach = TapeReplay::Reach;

 public:
  // fills_region: fill all wanted slots at the first request.
  // recorder: null when forward has ended.
  TapeSession(RegionRecord& record, Tape& tape, TapeRecorder* const& recorder, bool fills_region,
              std::shared_ptr<TapeRetention> retention)
      : record_(record),
        tape_(tape),
        recorder_(recorder),
        replay_(record, tape, *retention),
        fills_region_(fills_region),
        retention_(std::move(retention)) {
    retention_->begin_backward(tape);
  }
  TapeSession(const TapeSession&) = delete;
  TapeSession& operator=(const TapeSession&) = delete;
  ~TapeSession() override { retention_->end_backward(); }

  TapeReplay& replay() { return replay_; }

  FilledSlots fill(const SlotRequest& request) override {
    retention_->begin_replay();
    const absl::Cleanup is_over = [this] { retention_->end_replay(); };
    const auto start = std::chrono::steady_clock::now();
    FilledSlots filled = fill_from_tape(request);
    if (recorder_ != nullptr && recorder_->is_on_its_thread()) {
      note_supplied(filled);
    }
    retention_->after_recomputed();
    if (record_.stats) {
      const std::chrono::nanoseconds time = std::chrono::steady_clock::now() - start;
      record_.stats->replays.fetch_add(1);
      record_.stats->replay_nanoseconds.fetch_add(time.count());
    }
    return filled;
  }

  void restart() override { replay_.restart_session(); }

 private:
  FilledSlots fill_from_tape(const SlotRequest& request) {
    const Reach reach = reach_now();
    try {
      return replay_.fill(request.asked, reach, request.wants);
    } catch (const c10::OutOfMemoryError&) {
      throw;  // a memory budget's, say, which has ended the step
    } catch (const c10::Error&) {
      // The cause may concern other slots alone, for which nobody will ask. Transfers must not be
      // repeated: other ranks would not repeat theirs.
      if (!request.asked || reach == Reach::kSlot || tape_.has_required) {
        throw;
      }
      fills_asked_only_ = true;
    }
    return replay_.fill(request.asked, Reach::kSlot, request.wants);
  }

  // A backward inside the region reads them next.
  void note_supplied(const FilledSlots& filled) {
    for (const auto& [slot, supplied] : filled) {
      if (const Tape::Tensor& place = tape_.slots[slot]; place.value != Tape::kNone) {
        recorder_->add_supplied(place, supplied.tensor);
        retention_->note_supplied(place.value, supplied.tensor);
      }
    }
  }

  Reach reach_now() const {
    if (fills_asked_only_) {
      return Reach::kSlot;
    }
    const Reach on_demand = retention_->plans() ? Reach::kNode : Reach::kSlot;
    return fills_region_ ? Reach::kRegion : on_demand;
  }

  RegionRecord& record_;
  const Tape& tape_;
  TapeRecorder* const& recorder_;
  TapeReplay replay_;
  const bool fills_region_;
  bool fills_asked_only_ = false;
  const std::shared_ptr<TapeRetention> retention_;
};

struct ReleasedTapeInputs final : ReleasedValues {
  std::vector<Tape::Given> values;
};

class TapeRecomputation final : public Recomputation {
 public:
  TapeRecomputation(RegionRecord& record, const RegionEntry& entry)
      : record_(record),
        options_{.preserves_rng = entry.options.preserve_rng_state,
                 .is_nested = entry.is_nested,
                 .through_hooks = entry.through_hooks,
                 .input_store = record.input_store,
                 .needs_transfers = !record.early_stop,
                 .follows_parameters = record.allow_external_mutation,
                 .state_limit_bytes = record.copied_state_limit_bytes,
                 .statistics = record.statistics.get(),
                 .retention = entry.retention ? entry.retention : TapeRetention::none()},
        fills_region_(!record.early_stop) {
    tape_.allow_mutation = entry.options.allow_cache_entry_mutation;
  }

  std::unique_ptr<ForwardRecording> begin_forward(std::shared_ptr<Policy> policy,
                                                  PolicyRegion* enclosing) override;

  SlotProvenance locate(const at::Tensor& tensor, bool is_input) override {
    SlotProvenance provenance;
    if (is_recorded()) {
      provenance.is_unset =
          record_.check == DeterminismCheck::kValues && recorder_->is_unset(tensor);
      place_of_next_ = recorder_->slot(tensor, is_input);
    }
    return provenance;
  }

  void add_slot(SlotId slot, const at::Tensor& tensor) override {
    if (is_recorded()) {
      tape_.slots.push_back(place_of_next_);
    } else {
      tape_.held.emplace(slot, KeptResult(tensor));
      tape_.slots.push_back({});
    }
  }

  // All ranks repeat transfers alike.
  bool may_share() const override { return !options_.retention->plans() && !tape_.has_required; }
  bool keeps_supplied() const override { return options_.retention->keeps_supplied(); }

  void end_forward(const SlotSet& alive, bool may_pack) override {
    may_evict_ = false;
    std::exchange(recorder_, nullptr)->complete(alive, may_pack, record_.stats.get());
    uses_.emplace(tape_, alive);
    if (options_.retention->plans()) {
      used_slots_ = alive;
      count_direct_uses();
    }
    options_.retention->end_forward([&] { return reads_of_nodes(alive); });
    may_evict_ = options_.retention->plans();
  }

  std::unique_ptr<SessionRecomputation> begin_session() override {
    auto session =
        std::make_unique<TapeSession>(record_, tape_, recorder_, fills_region_, options_.retention);
    if (options_.retention->plan_backward(tape_) && direct_uses_) {
      count_direct_uses();
    }
    return session;
  }

  std::unique_ptr<ReleasedValues> drop_slots(std::span<const SlotId> slots) override;

  void note_read(SlotId slot) override {
    tape_.for_each_value_of(tape_.slots[slot],
                            [this](TapeValueId value) { options_.retention->note_read(value); });
  }
  std::vector<at::Tensor> evict(std::int64_t bytes, c10::Device device,
                                std::span<const SessionHoldings> sessions) override;

  std::span<const RegionInput> inputs() const override { return {}; }
  void append_held(HeldValues& held) const override {
    append_given(tape_.given, tape_, held);
    for (const auto& [slot, result] : tape_.held) {
      engine_internal::append_held(result, "saved on another thread", held);
    }
  }

  bool has_stored() const override {
    return std::any_of(tape_.given.begin(), tape_.given.end(),
                       [](const auto& entry) { return entry.second.kept.stored != nullptr; });
  }

  void append_stored(std::vector<std::shared_ptr<StoredTensor>>& stored) const override {
    for (const TapeValueId value : sorted_keys(tape_.given)) {
      const Tape::Given& given = tape_.given.at(value);
      if (given.input) {
        stored.push_back(given.input->stored());
      }
      stored.push_back(given.kept.stored);
    }
  }

 private:
  class Recording;

  // Retained values on which only operators depend that do not run are freed: they are there to
  // make another retained value again.
  void count_direct_uses() { direct_uses_.emplace(tape_, used_slots_, TapeUses::Kind::kDirect); }

  // Returns the values that each node of backward will read, in the order of backward.
  TapeRetention::ReadsOfNodes reads_of_nodes(const SlotSet& alive) const {
    std::map<std::uint64_t, std::vector<TapeValueId>, std::greater<>> reads;
    for (const SlotId slot : tape_.slots.ids()) {
      if (alive[slot] && tape_.slots[slot].value != Tape::kNone) {
        auto& values = reads[record_.slots[slot].saved.node_number()];
        tape_.for_each_value_of(tape_.slots[slot],
                                [&values](TapeValueId value) { values.push_back(value); });
      }
    }
    TapeRetention::ReadsOfNodes nodes;
    for (auto& [number, values] : reads) {
      nodes.push_back({number - 1, std::move(values)});  // the node's is the last one given out
    }
    return nodes;
  }

  // False for a tensor that a backward inside the region saves on another thread.
  bool is_recorded() const { return recorder_ != nullptr && recorder_->is_on_its_thread(); }

  RegionRecord& record_;
  const TapeRecorder::Options options_;
  const bool fills_region_;
  Tape tape_;
  TapeRecorder* recorder_ = nullptr;  // in forward
  bool may_evict_ = options_.retention->plans();
  Tape::Tensor place_of_next_;           // from locate() to add_slot(), on the recorder's thread
  std::optional<TapeUses> uses_;         // when forward has ended
  std::optional<TapeUses> direct_uses_;  // likewise, of a planned tape
  SlotSet used_slots_;                   // likewise: that have not been dropped
};

class TapeRecomputation::Recording final : public ForwardRecording {
 public:
  Recording(TapeRecomputation& owner, std::shared_ptr<Policy> policy, PolicyRegion* enclosing)
      : owner_(owner),
        recorder_(owner.tape_, memory_, std::move(policy), owner.record_.name, owner.options_,
                  InterceptionScope::current(), enclosing),
        recording_(std::in_place, &recorder_) {
    owner.recorder_ = &recorder_;
  }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
  ~Recording() override { owner_.recorder_ = nullptr; }

  PolicyRegion* policy_region() override { return &recorder_.policy_region(); }
  void stop() override { recording_.reset(); }

 private:
  TapeRecomputation& owner_;
  MemoryTable memory_;
  TapeRecorder recorder_;
  std::optional<InterceptionScope> recording_;
};

std::unique_ptr<ForwardRecording> TapeRecomputation::begin_forward(std::shared_ptr<Policy> policy,
                                                                   PolicyRegion* enclosing) {
  return std::make_unique<Recording>(*this, std::move(policy), enclosing);
}

std::vector<at::Tensor> TapeRecomputation::evict(std::int64_t bytes, c10::Device device,
                                                 std::span<const SessionHoldings> sessions) {
  if (!may_evict_ || (recorder_ != nullptr && !recorder_->is_on_its_thread())) {
    return {};
  }
  std::size_t position = tape_.operators.size();
  for (const SessionHoldings& session : sessions) {
    if (session.recomputation != nullptr) {
      position = static_cast<TapeSession*>(session.recomputation)->replay().position();
    }
  }
  TapeEviction eviction(tape_, position, device);
  for (const SessionHoldings& session : sessions) {
    if (session.recomputation != nullptr) {
      static_cast<TapeSession*>(session.recomputation)->replay().add_holdings(eviction);
    }
    for (const auto& [slot, tensor] : session.supplied) {
      if (const TapeValueId value = tape_.slots[slot].value; value != Tape::kNone) {
        eviction.add(value, *tensor);
      }
    }
  }
  std::vector<at::Tensor> evicted = eviction.evict(bytes);
  if (direct_uses_) {
    count_direct_uses();
  }
  return evicted;
}

std::unique_ptr<ReleasedValues> TapeRecomputation::drop_slots(std::span<const SlotId> slots) {
  std::unique_ptr<ReleasedTapeInputs> released;
  const auto drop = [&](TapeUses& uses, SlotId slot) {
    auto unneeded = uses.drop_slot(tape_, slot);
    if (!unneeded.empty() && released == nullptr) {
      released = std::make_unique<ReleasedTapeInputs>();
    }
    for (Tape::Given& value : unneeded) {
      released->values.push_back(std::move(value));
    }
  };
  for (const SlotId slot : slots) {
    if (direct_uses_) {
      drop(*direct_uses_, slot);
      used_slots_[slot] = false;
    }
    drop(*uses_, slot);
  }
  return released;
}

}  // namespace

std::unique_ptr<Recomputation> make_tape_recomputation(RegionRecord& record,
                                                       const RegionEntry& entry) {
  return std::make_unique<TapeRecomputation>(record, entry);
}

}  // namespace reprise::engine_internal
