// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/tape_replay/tape_recomputation.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "reprise/engine/operators/storage_id.h"
#include "reprise/engine/tape/tape.h"
#include "reprise/engine/tape/tape_uses.h"
#include "reprise/engine/tape_recording/tape_recorder.h"
#include "reprise/engine/tape_replay/tape_replay.h"

namespace reprise::engine_internal {
namespace {

class TapeSession final : public SessionRecomputation {
 public:
  // fills_region: fill all wanted slots at the first request.
  TapeSession(RegionRecord& record, Tape& tape, bool fills_region)
      : record_(record), replay_(record, tape), fills_region_(fills_region) {}

  FilledSlots fill(const SlotRequest& request) override {
    const auto start = std::chrono::steady_clock::now();
    FilledSlots filled = replay_.fill(fills_region_ ? std::nullopt : request.asked, request.wants);
    if (record_.stats) {
      const std::chrono::nanoseconds time = std::chrono::steady_clock::now() - start;
      record_.stats->replays.fetch_add(1);
      record_.stats->replay_nanoseconds.fetch_add(time.count());
    }
    return filled;
  }

  void restart() override { replay_.restart_session(); }

 private:
  RegionRecord& record_;
  TapeReplay replay_;
  const bool fills_region_;
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
                 .follows_parameters = record.allow_external_mutation},
        fills_region_(entry.options.fill == TapeFill::kRegion || !record.early_stop) {
    tape_.allow_mutation = entry.options.allow_cache_entry_mutation;
  }

  std::unique_ptr<ForwardRecording> begin_forward(std::shared_ptr<Policy> policy,
                                                  PolicyRegion* enclosing) override;

  SlotProvenance locate(const at::Tensor& tensor) override {
    SlotProvenance provenance;
    if (is_recorded()) {
      provenance.is_unset =
          record_.check == DeterminismCheck::kValues && recorder_->is_unset(tensor);
      place_of_next_ = recorder_->slot(tensor);
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

  void end_forward(const SlotSet& alive, bool may_pack) override {
    std::exchange(recorder_, nullptr)->complete(alive, may_pack, record_.stats.get());
    uses_.emplace(tape_, alive);
  }

  std::unique_ptr<SessionRecomputation> begin_session() override {
    return std::make_unique<TapeSession>(record_, tape_, fills_region_);
  }

  std::unique_ptr<ReleasedValues> drop_slots(std::span<const SlotId> slots) override;

  std::span<const RegionInput> inputs() const override { return {}; }

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

  // False for a tensor that a backward inside the region saves on another thread.
  bool is_recorded() const { return recorder_ != nullptr && recorder_->is_on_its_thread(); }

  RegionRecord& record_;
  const TapeRecorder::Options options_;
  const bool fills_region_;
  Tape tape_;
  TapeRecorder* recorder_ = nullptr;  // in forward
  Tape::Tensor place_of_next_;        // from locate() to add_slot(), on the recorder's thread
  std::optional<TapeUses> uses_;      // when forward has ended
};

class TapeRecomputation::Recording final : public ForwardRecording {
 public:
  Recording(TapeRecomputation& owner, std::shared_ptr<Policy> policy, PolicyRegion* enclosing)
      : owner_(owner),
        recorder_(owner.tape_, std::move(policy), owner.record_.name, owner.options_,
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
  TapeRecorder recorder_;
  std::optional<InterceptionScope> recording_;
};

std::unique_ptr<ForwardRecording> TapeRecomputation::begin_forward(std::shared_ptr<Policy> policy,
                                                                   PolicyRegion* enclosing) {
  return std::make_unique<Recording>(*this, std::move(policy), enclosing);
}

std::unique_ptr<ReleasedValues> TapeRecomputation::drop_slots(std::span<const SlotId> slots) {
  std::unique_ptr<ReleasedTapeInputs> released;
  for (const SlotId slot : slots) {
    auto unneeded = uses_->drop_slot(tape_, slot);
    if (!unneeded.empty() && released == nullptr) {
      released = std::make_unique<ReleasedTapeInputs>();
    }
    for (Tape::Given& value : unneeded) {
      released->values.push_back(std::move(value));
    }
  }
  return released;
}

}  // namespace

std::unique_ptr<Recomputation> make_tape_recomputation(RegionRecord& record,
                                                       const RegionEntry& entry) {
  return std::make_unique<TapeRecomputation>(record, entry);
}

}  // namespace reprise::engine_internal
