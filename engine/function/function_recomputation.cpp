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
#include "reprise/engine/selective/selective_forward.h"
#include "reprise/engine/selective/trace_recorder.h"

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
      const auto replay = make_replay(request, /*follows_trace=*/true, {});
      try {
        replay->run();
        stand_ins = replay->left_stand_ins();
        if (stand_ins.empty()) {
          return replay->take_values();
        }
      } catch (const std::exception&) {  // also of code that what it saved has misled
        stand_ins = replay->left_stand_ins();
        const bool may_be_misled = replay->has_lost_trace() || !stand_ins.empty();
        if (!replay->may_run_without_trace() || !may_be_misled) {
          throw;
        }
        lost = std::current_exception();
      }
    }
    if (record_.forward_completed) {
      function_.trace->run_everything();
    }
    return run_everything(request, std::move(stand_ins), lost);
  }

  void restart() override {}  // each replay computes all slots that are wanted

 private:
  std::shared_ptr<FunctionReplay> make_replay(const SlotRequest& request, bool follows_trace,
                                              FunctionReplay::StandIns stand_ins) {
    return std::make_shared<FunctionReplay>(
        record_, function_, request.all(),
        FunctionReplay::Options{.asked = request.asked,
                                .is_last = request.is_last,
                                .follows_trace = follows_trace,
                                .stand_ins = std::move(stand_ins)});
  }

  // lost: the error that says where the code left the trace, or null. Explains an error of the
  // checks, and no other, such as of a memory budget.
  FilledSlots run_everything(const SlotRequest& request, FunctionReplay::StandIns stand_ins,
                             const std::exception_ptr& lost) {
    const auto replay = make_replay(request, /*follows_trace=*/false, std::move(stand_ins));
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
  FunctionRecording(FunctionRecord& function, TraceRecorder* recorder,
                    std::shared_ptr<Policy> policy, const std::string& region, bool preserves_rng,
                    PolicyRegion* enclosing) {
    if (function.watched) {
      watch_.emplace(*function.watched, InterceptionScope::current());
      watching_.emplace(&*watch_);
    }
    if (recorder != nullptr) {
      selective_.emplace(*recorder, std::move(policy), region, preserves_rng,
                         InterceptionScope::current(), enclosing);
      selecting_.emplace(&*selective_);
    }
  }

  PolicyRegion* policy_region() override {
    return selective_ ? &selective_->policy_region() : nullptr;
  }

  void stop() override {
    selecting_.reset();
    watching_.reset();
  }

 private:
  std::optional<ForwardWatch> watch_;
  std::optional<InterceptionScope> watching_;
  std::optional<SelectiveForward> selective_;
  std::optional<InterceptionScope> selecting_;
};

class FunctionRecomputation final : public Recomputation {
 public:
  FunctionRecomputation(RegionRecord& record, const RegionEntry& entry,
                        std::unique_ptr<RegionCode> code, const std::vector<at::Tensor>& arguments)
      : record_(record), preserves_rng_(entry.options.preserve_rng_state) {
    function_.code = std::move(code);
    if (entry.asks_policy) {
      function_.trace = std::make_unique<OperatorTrace>(entry.options.allow_cache_entry_mutation,
                                                        entry.through_hooks);
      recorder_.emplace(*function_.trace);
    }
    add_inputs(arguments);
  }

  std::unique_ptr<ForwardRecording> begin_forward(std::shared_ptr<Policy> policy,
                                                  PolicyRegion* enclosing) override {
    if (recorder_) {
      recorder_->begin(enclosing);
    }
    return std::make_unique<FunctionRecording>(function_, recorder_ ? &*recorder_ : nullptr,
                                               std::move(policy), record_.name, preserves_rng_,
                                               enclosing);
  }

  // All ranks replay transfers alike.
  bool may_share() const override {
    return record_.early_stop && function_.watched && function_.slot_behind_transfers == SlotId(0);
  }

  SlotProvenance locate(const at::Tensor& tensor, bool /*is_input*/) override {
    if (recorder_) {
      recorder_->note_saved(tensor);
    }
    return function_.watched ? function_.watched->of_slot(tensor) : SlotProvenance{};
  }

  void add_slot(SlotId slot, const at::Tensor&) override {
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
  bool has_stored() const override;
  void append_stored(std::vector<std::shared_ptr<StoredTensor>>& stored) const override;

 private:
  void add_inputs(const std::vector<at::Tensor>& arguments);
  // Returns the memory of tensors saved only in graphs that are gone.
  absl::flat_hash_set<StorageId> dropped_memory(const SlotSet& alive) const;

  RegionRecord& record_;
  const bool preserves_rng_;
  FunctionRecord function_;
  std::optional<TraceRecorder> recorder_;  // in forward
};

// The same tensor passed twice is one input, so that it is one tensor in the replay as well.
void FunctionRecomputation::add_inputs(const std::vector<at::Tensor>& arguments) {
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
  if (record_.check != DeterminismCheck::kNone) {
    function_.watched =
        std::make_unique<WatchedForward>(distinct, record_.copied_state_limit_bytes);
  }
}

absl::flat_hash_set<StorageId> FunctionRecomputation::dropped_memory(const SlotSet& alive) const {
  absl::flat_hash_set<StorageId> dropped;
  if (record_.is_read_in_forward) {
    return dropped;  // by a backward inside, which each replay runs as well
  }
  for (const SlotId slot : alive.ids()) {
    if (!alive[slot]) {
      dropped.insert(record_.slots[slot].saved.memory());
    }
  }
  for (const SlotId slot : alive.ids()) {
    if (alive[slot] && !dropped.empty()) {
      dropped.erase(record_.slots[slot].saved.memory());
    }
  }
  return dropped;
}

void FunctionRecomputation::end_forward(const SlotSet& alive, bool may_pack) {
  if (recorder_) {  // first: what it lets go of is not there for the replay
    recorder_->complete(dropped_memory(alive), may_pack, record_.stats.get());
    recorder_.reset();
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

bool FunctionRecomputation::has_stored() const {
  const auto kept = function_.trace ? function_.trace->kept() : nullptr;
  const auto is_stored = [](const KeptResult& result) { return result.stored != nullptr; };
  return kept && std::any_of(kept->begin(), kept->end(), [&](const auto& entry) {
           return std::any_of(entry.second.begin(), entry.second.end(), is_stored);
         });
}

void FunctionRecomputation::append_stored(
    std::vector<std::shared_ptr<StoredTensor>>& stored) const {
  const auto kept = function_.trace ? function_.trace->kept() : nullptr;
  if (!kept) {
    return;
  }
  for (const TracedOperatorId index : sorted_keys(*kept)) {
    for (const KeptResult& result : kept->at(index)) {
      stored.push_back(result.stored);
    }
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
