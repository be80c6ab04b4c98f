// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/function/function_recomputation.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "reprise/engine/errors.h"
#include "reprise/engine/function/function_record.h"
#include "reprise/engine/function/function_replay.h"
#include "reprise/engine/operators/storage_id.h"
#include "reprise/engine/tape_recording/function_recorder.h"
#include "reprise/engine/watch/forward_watch.h"

namespace reprise::engine_internal {
namespace {

class FunctionSession final : public SessionRecomputation {
 public:
  FunctionSession(RegionRecord& record, FunctionRecord& function)
      : record_(record), function_(function) {}

  FilledSlots fill(const SlotRequest& request) override {
    std::exception_ptr lost;
    FunctionReplay::StandIns stand_ins;
    {
      const auto replay = make_replay(request, /*follows_tape=*/true, {});
      try {
        replay->run();
        stand_ins = replay->left_stand_ins();
        if (stand_ins.empty()) {
          return replay->take_values();
        }
      } catch (const std::exception&) {  // also of code that what it saved has misled
        stand_ins = replay->left_stand_ins();
        const bool may_be_misled = replay->has_lost_tape() || !stand_ins.empty();
        if (!replay->may_run_without_tape() || !may_be_misled) {
          throw;
        }
        lost = replay->may_explain() ? std::current_exception() : nullptr;
      }
    }
    if (record_.forward_completed) {
      function_.tape->run_everything();
    }
    return run_everything(request, std::move(stand_ins), lost);
  }

  void restart() override {}  // each replay computes all slots that are wanted

 private:
  std::shared_ptr<FunctionReplay> make_replay(const SlotRequest& request, bool follows_tape,
                                              FunctionReplay::StandIns stand_ins) {
    return std::make_shared<FunctionReplay>(
        record_, function_, request.all(),
        FunctionReplay::Options{.asked = request.asked,
                                .is_last = request.is_last,
                                .follows_tape = follows_tape,
                                .stand_ins = std::move(stand_ins)});
  }

  // lost: the error that says where the code left the tape, or null. Explains an error of the
  // checks, and no other, such as of a memory budget.
  FilledSlots run_everything(const SlotRequest& request, FunctionReplay::StandIns stand_ins,
                             const std::exception_ptr& lost) {
    const auto replay = make_replay(request, /*follows_tape=*/false, std::move(stand_ins));
    try {
      replay->run();
    } catch (const CheckpointError&) {
      if (lost) {
        std::rethrow_exception(lost);
      }
      throw;
    }
    return replay->take_values();
  }

  RegionRecord& record_;
  FunctionRecord& function_;
};

// Members are made in this order and destroyed in the reverse order.
class FunctionRecording final : public ForwardRecording {
 public:
  FunctionRecording(const RegionRecord& record, FunctionRecord& function,
                    std::shared_ptr<Policy> policy, bool preserves_rng, PolicyRegion* enclosing) {
    kept_calls_.emplace(function.kept_calls, record.name);
    if (function.watched) {
      watch_.emplace(*function.watched, record.statistics.get(), InterceptionScope::current());
      watching_.emplace(&*watch_);
    }
    if (function.tape) {
      recorder_.emplace(*function.tape, *function.watched, std::move(policy), record.name,
                        preserves_rng, InterceptionScope::current(), enclosing);
      recording_.emplace(&*recorder_);
    }
  }

  PolicyRegion* policy_region() override {
    return recorder_ ? &recorder_->policy_region() : nullptr;
  }
  // Null without a policy.
  FunctionRecorder* recorder() { return recorder_ ? &*recorder_ : nullptr; }

  void stop() override {
    recording_.reset();
    watching_.reset();
    kept_calls_.reset();
  }

 private:
  std::optional<KeptCallScope> kept_calls_;
  std::optional<ForwardWatch> watch_;
  std::optional<InterceptionScope> watching_;
  std::optional<FunctionRecorder> recorder_;
  std::optional<InterceptionScope> recording_;
};

class FunctionRecomputation final : public Recomputation {
 public:
  FunctionRecomputation(RegionRecord& record, const RegionEntry& entry,
                        std::unique_ptr<RegionCode> code, const std::vector<at::Tensor>& arguments)
      : record_(record), preserves_rng_(entry.options.preserve_rng_state) {
    function_.code = std::move(code);
    if (entry.asks_policy) {
      function_.tape = std::make_unique<FunctionTape>(entry.options.allow_cache_entry_mutation,
                                                      entry.through_hooks);
    }
    add_inputs(arguments, /*watches=*/entry.asks_policy || entry.options.watch_operators);
  }

  std::unique_ptr<ForwardRecording> begin_forward(std::shared_ptr<Policy> policy,
                                                  PolicyRegion* enclosing) override {
    auto recording = std::make_unique<FunctionRecording>(record_, function_, std::move(policy),
                                                         preserves_rng_, enclosing);
    recorder_ = recording->recorder();
    return recording;
  }

  // All ranks replay transfers alike.
  bool may_share() const override {
    return record_.early_stop && function_.watched && function_.slot_behind_transfers == SlotId(0);
  }

  SlotProvenance locate(const at::Tensor& tensor, bool /*is_input*/) override {
    if (is_recorded()) {
      place_of_next_ = recorder_->slot(tensor);
    } else if (recorder_ != nullptr) {
      recorder_->note_saved_elsewhere(tensor);
    }
    return function_.watched ? function_.watched->of_slot(tensor) : SlotProvenance{};
  }

  void add_slot(SlotId slot, const at::Tensor&) override {
    if (recorder_ != nullptr) {
      function_.tape->tape.slots.push_back(is_recorded() ? place_of_next_ : Tape::Tensor{});
    }
    if (function_.watched && function_.watched->has_new_transfer) {
      function_.watched->has_new_transfer = false;
      function_.slot_behind_transfers = slot;
    }
  }

  void end_forward(const SlotSet& alive, bool may_pack) override;

  std::unique_ptr<SessionRecomputation> begin_session() override {
    return std::make_unique<FunctionSession>(record_, function_);
  }

  std::unique_ptr<ReleasedValues> drop_slots(std::span<const SlotId>) override {
    return nullptr;  // a replay needs all inputs for any slot
  }

  std::span<const RegionInput> inputs() const override { return function_.inputs; }
  void append_held(HeldValues& held) const override;
  bool has_stored() const override;
  void append_stored(std::vector<std::shared_ptr<StoredTensor>>& stored) const override;

 private:
  void add_inputs(const std::vector<at::Tensor>& arguments, bool watches);
  // False for a tensor that a backward inside the region saves on another thread.
  bool is_recorded() const { return recorder_ != nullptr && recorder_->is_on_its_thread(); }

  RegionRecord& record_;
  const bool preserves_rng_;
  FunctionRecord function_;
  FunctionRecorder* recorder_ = nullptr;  // in forward, under a policy
  Tape::Tensor place_of_next_;            // from locate() to add_slot(), on the recorder's thread
};

// The same tensor passed twice is one input, so that it is one tensor in the replay as well.
void FunctionRecomputation::add_inputs(const std::vector<at::Tensor>& arguments, bool watches) {
  function_.argument_inputs.reserve(arguments.size());
  std::vector<at::Tensor> distinct;
  for (const at::Tensor& tensor : arguments) {
    const auto found = std::find_if(distinct.begin(), distinct.end(),
                                    [&](const at::Tensor& known) { return known.is_same(tensor); });
    function_.argument_inputs.push_back(static_cast<std::uint32_t>(found - distinct.begin()));
    if (found == distinct.end()) {
      distinct.push_back(tensor);
    }
  }
  function_.inputs = RegionInput::keep_all(distinct, record_.input_store, record_.name);
  if (watches) {
    function_.watched =
        std::make_unique<WatchedForward>(distinct, record_.copied_state_limit_bytes);
  }
}

void FunctionRecomputation::end_forward(const SlotSet& alive, bool may_pack) {
  if (recorder_ != nullptr) {  // first: what it lets go of is not there for the replay
    // A backward inside has read slots of dropped graphs, perhaps, which each replay runs as well.
    const SlotSet all(alive.size(), true);
    std::exchange(recorder_, nullptr)
        ->complete(record_.is_read_in_forward ? all : alive, may_pack, record_.stats.get());
  }
  std::vector<at::Generator> drawn;
  if (function_.watched) {
    function_.watched->complete();
    drawn = std::move(function_.watched->drawn);
  }
  if (record_.state.rng) {
    if (function_.watched) {
      record_.state.rng->add(std::exchange(function_.watched->generators, {}));
    } else {  // a generator whose state has not moved may have been seeded again
      for (const RngState& state : record_.state.rng->states()) {
        drawn.push_back(state.generator());
      }
    }
    record_.state.rng->complete(drawn);
  }
}

void FunctionRecomputation::append_held(HeldValues& held) const {
  for (const RegionInput& input : function_.inputs) {
    engine_internal::append_held(input, "input", held);
  }
  for (const auto& call : function_.kept_calls) {
    for (const KeptCall::Tensor& kept : call->tensors) {
      if (kept.value.defined()) {
        held.push_back({.tensor = kept.value, .stored = nullptr, .why = "kept", .op = call->name});
      }
    }
  }
  if (const auto saved = function_.tape ? function_.tape->saved() : nullptr) {
    append_given(*saved, function_.tape->tape, held);
  }
}

bool FunctionRecomputation::has_stored() const {
  const auto saved = function_.tape ? function_.tape->saved() : nullptr;
  return saved && std::any_of(saved->begin(), saved->end(), [](const auto& entry) {
           return entry.second.kept.stored != nullptr;
         });
}

void FunctionRecomputation::append_stored(
    std::vector<std::shared_ptr<StoredTensor>>& stored) const {
  const auto saved = function_.tape ? function_.tape->saved() : nullptr;
  if (!saved) {
    return;
  }
  for (const TapeValueId value : sorted_keys(*saved)) {
    stored.push_back(saved->at(value).kept.stored);
  }
}

}  // namespace

std::unique_ptr<Recomputation> make_function_recomputation(RegionRecord& record,
                                                           const RegionEntry& entry,
                                                           std::unique_ptr<RegionCode> code,
                                                           const std::vector<at::Tensor>& arguments,
                                                           std::optional<RngSnapshot> rng) {
  auto made = std::make_unique<FunctionRecomputation>(record, entry, std::move(code), arguments);
  record.state.rng = std::move(rng);
  return made;
}

}  // namespace reprise::engine_internal
