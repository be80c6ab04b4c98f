// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/function/function_replay.h"

#include <c10/util/StringUtil.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "reprise/engine/ambient/boundary.h"
#include "reprise/engine/ambient/recomputing_scope.h"
#include "reprise/engine/errors.h"
#include "reprise/engine/function/early_stop.h"
#include "reprise/engine/function/replay_hooks.h"
#include "reprise/engine/operators/storage_id.h"
#include "reprise/engine/report/profiler_range.h"

namespace reprise::engine_internal {
namespace {

using hooks_internal::SavedVariableHooks;

constinit thread_local FunctionReplay* t_innermost = nullptr;  // whose region's code runs

std::optional<ReplayWatch> make_watch(const RegionRecord& record, const FunctionRecord& function,
                                      ReplayMemory& memory) {
  return function.watched ? std::optional<ReplayWatch>(std::in_place, *function.watched, memory,
                                                       !record.allow_external_mutation,
                                                       record.state.rng.has_value())
                          : std::optional<ReplayWatch>();
}

// Without a record of what forward wrote: the storages of saved tensors that have no bytes now.
std::vector<StorageId> freed_of(const RegionRecord& record) {
  std::vector<StorageId> freed;
  for (const RegionRecord::Slot& slot : record.slots) {
    if (slot.saved.has_lost_memory()) {
      freed.push_back(slot.saved.memory());
    }
  }
  return freed;
}

}  // namespace

bool replay_has_stopped() { return t_innermost != nullptr && t_innermost->is_stopped(); }

FunctionReplay::FunctionReplay(RegionRecord& record, FunctionRecord& function, SlotSet wanted,
                               Options options)
    : record_(record),
      function_(function),
      wanted_(std::move(wanted)),
      options_(options),
      uninterruptible_(record.early_stop ? slots_of_custom_functions(record) : SlotSet()),
      inputs_inside_(record, wanted_.size()),
      memory_(function.watched ? &function.watched->written : nullptr),
      watch_(make_watch(record, function, memory_)),
      effects_(record.name, memory_, watch_ ? &*watch_ : nullptr),
      checks_(record, function, wanted_, options.asked, watch_ ? &*watch_ : nullptr, effects_),
      values_(wanted_.size()) {
  for (const SlotId slot : wanted_.ids()) {
    if (wanted_[slot]) {
      last_needed_ = slot;
    }
  }
  // Forward was not watched: there may be transfers in front of any slot.
  const SlotId behind_transfers = function.watched
                                      ? function.slot_behind_transfers
                                      : SlotId(std::max<std::size_t>(1, wanted_.size()) - 1);
  last_needed_ = std::max(last_needed_, behind_transfers);
  if (uninterruptible_.contains(last_needed_) && uninterruptible_[last_needed_]) {
    before_operator_.emplace(*this);
  }
}

// Each saved tensor is compared by its origin then.
bool FunctionReplay::may_run_without_tape() const {
  return record_.check == DeterminismCheck::kMetadata || record_.check == DeterminismCheck::kValues;
}

std::unique_ptr<SavedVariableHooks> FunctionReplay::make_hooks() {
  if (std::this_thread::get_id() == thread_) {
    effects_.settle();  // before LibTorch notes the version of what it saves
  }
  return make_replay_hooks(*this);
}

FunctionReplay::Saved FunctionReplay::on_save(const at::Tensor& tensor, const at::Tensor& alias) {
  if (std::this_thread::get_id() == thread_ && memory_.hides(tensor)) {
    const at::Tensor seen = memory_.seen(tensor);
    return note_save(tensor, seen, {seen, version_of(seen), /*is_moved=*/true});
  }
  return note_save(tensor, tensor, {may_be_returned(tensor) ? tensor : alias, version_of(alias)});
}

FunctionReplay::Saved FunctionReplay::note_save(const at::Tensor& tensor, const at::Tensor& seen,
                                                RecomputedTensor&& value) {
  const std::optional<SlotId> next = next_slot(tensor);
  if (!next) {
    return {.is_last = false, .may_be_read = true};
  }
  const SlotId slot = *next;
  const bool is_own_thread = std::this_thread::get_id() == thread_;
  saving_.fetch_add(1);
  const bool is_wanted = wanted_.contains(slot) && wanted_[slot];
  if (is_own_thread) {
    graph_.note_save(slot, tensor);
  }
  if (wanted_.contains(slot)) {
    checks_.compare(slot, tensor, seen);
  }
  if (is_wanted && is_own_thread) {
    effects_.note_save(tensor);
    if (watch_) {
      watch_->note_save(slot, tensor);
    }
  }
  if (!keep(slot, is_wanted ? &value : nullptr)) {
    saving_.fetch_sub(1);
    return {.is_last = false, .may_be_read = is_wanted || may_be_read(slot)};
  }
  const bool may_be_last = may_stop(slot, tensor);
  if (before_operator_ && is_own_thread) {
    before_operator_->arm();
  }
  const MutexLock lock(mutex_);
  const bool stops = saving_.fetch_sub(1) == 1 && may_be_last;
  stopped_ = stopped_ || stops;
  if (stops && follower_ && is_own_thread) {
    follower_->stop();
  }
  return {.is_last = stops, .may_be_read = is_wanted || may_be_read(slot)};
}

bool FunctionReplay::may_be_read(SlotId slot) const {
  return !record_.forward_completed || record_.is_read_in_forward || !wanted_.contains(slot) ||
         record_.slots[slot].outlives_forward;
}

bool FunctionReplay::keep(SlotId slot, RecomputedTensor* value) {
  const MutexLock lock(mutex_);
  if (value != nullptr) {
    values_[slot] = std::move(*value);
  }
  return record_.early_stop && (has_enough(slot) || has_lost_tape());
}

std::optional<SlotId> FunctionReplay::next_slot(const at::Tensor& tensor) {
  if (const std::uint32_t group = InputGroup::current(); group != 0) {
    const bool is_watched = watch_ && std::this_thread::get_id() == thread_;
    const Provenance provenance = is_watched ? watch_->provenance_of(tensor) : 0;
    const MutexLock lock(mutex_);
    return inputs_inside_.take(group, tensor,
                               ProvenanceMap::is_opaque(provenance) ? 0 : provenance);
  }
  SlotId slot(count_.fetch_add(1));
  while (inputs_inside_.contains(slot)) {
    slot = SlotId(count_.fetch_add(1));
  }
  return slot;
}

bool FunctionReplay::has_enough(SlotId slot) {
  if (!inputs_inside_.contains(slot)) {
    return slot >= last_needed_;
  }
  if (record_.slots[slot].input_group != record_.slots[last_needed_].input_group) {
    return false;
  }
  return std::all_of(inputs_inside_.all().begin(), inputs_inside_.all().end(), [this](SlotId each) {
    return !wanted_[each] || values_[each].tensor.defined();
  });
}

void FunctionReplay::fill_inputs_inside() {
  std::vector<SlotId> missing;
  {
    const MutexLock lock(mutex_);
    std::copy_if(inputs_inside_.all().begin(), inputs_inside_.all().end(),
                 std::back_inserter(missing), [this](SlotId slot) {
                   return wanted_[slot] && !values_[slot].tensor.defined() &&
                          !checks_.is_withheld(slot);
                 });
  }
  for (const SlotId slot : missing) {
    const SavedTensorRecord& saved = record_.slots[slot].saved;
    const auto& input = record_.slots[slot].input;
    const at::Tensor now =
        input && input->version() == saved.version() ? input->lock() : at::Tensor();
    if (!now.defined() || saved.metadata().requires_grad) {
      throw DeterminismError(c10::str(
          "[checkpoint] region '", record_.name, "': a region inside read ",
          saved.metadata().to_string(),
          " in forward, and does not read it in the recomputation. The region's code must run the "
          "same operators each time; state that it changes and reads again can make it differ"));
    }
    const MutexLock lock(mutex_);
    values_[slot] = {now, version_of(now)};
  }
}

bool FunctionReplay::on_operator() {
  if (effects_.awaits_write() || is_unwinding() || saving_.load() != 0) {
    return false;
  }
  {
    const MutexLock lock(mutex_);
    stopped_ = true;
  }
  if (follower_) {
    follower_->stop();
  }
  return true;
}

bool FunctionReplay::may_stop(SlotId slot, const at::Tensor& tensor) const {
  const bool is_uninterruptible = uninterruptible_.contains(slot)
                                      ? bool{uninterruptible_[slot]}
                                      : is_saved_by_its_custom_function(tensor);
  const bool awaits_write = std::this_thread::get_id() == thread_ && effects_.awaits_write();
  return !is_uninterruptible && !awaits_write && !is_unwinding() && !EarlyStopDeferral::is_active();
}

// True in a destructor that runs operators while an exception, such as an early stop, leaves the
// region.
bool FunctionReplay::is_unwinding() const {
  const int at_start = std::this_thread::get_id() == thread_ ? exceptions_at_start_ : 0;
  return std::uncaught_exceptions() > at_start;
}

bool FunctionReplay::is_stopped() {
  const MutexLock lock(mutex_);
  return stopped_;
}

bool FunctionReplay::on_accumulation(const std::vector<at::Tensor>& leaves) {
  const MutexLock lock(mutex_);
  for (const at::Tensor& leaf : leaves) {
    const bool known = std::any_of(gradients_.begin(), gradients_.end(),
                                   [&](const auto& kept) { return kept.first.is_same(leaf); });
    if (!known) {
      gradients_.emplace_back(leaf, leaf.grad());
      leaf.mutable_grad().reset();  // not added to in place
    }
  }
  return true;
}

void FunctionReplay::put_gradients_back() {
  std::vector<std::pair<at::Tensor, at::Tensor>> gradients;
  {
    const MutexLock lock(mutex_);
    gradients.swap(gradients_);
  }
  for (auto& [leaf, gradient] : gradients) {
    leaf.mutable_grad() = std::move(gradient);
  }
}

void FunctionReplay::run() {
  const auto start = std::chrono::steady_clock::now();
  const std::vector<at::Tensor> inputs = restore_inputs();
  checks_.start(inputs);
  run_region(inputs);
  if (follower_) {
    follower_->check();
  }
  if (draws_) {
    draws_->check();
  }
  while (inputs_inside_.contains(SlotId(count_.load()))) {
    count_.fetch_add(1);
  }
  checks_.finish(inputs, graph_, {.count = count_.load(), .is_stopped = is_stopped()},
                 operators_.get(), [this](SlotId slot) {
                   const MutexLock lock(mutex_);
                   values_[slot] = {};
                 });
  fill_inputs_inside();
  if (record_.stats) {
    const std::chrono::nanoseconds time = std::chrono::steady_clock::now() - start;
    record_.stats->replays.fetch_add(1);
    record_.stats->replay_nanoseconds.fetch_add(time.count());
  }
}

std::vector<at::Tensor> FunctionReplay::restore_inputs() {
  std::vector<at::Tensor> restored;
  restored.reserve(function_.inputs.size());
  for (RegionInput& input : function_.inputs) {
    restored.push_back(input.restore());
    if (input.edge().is_valid()) {
      replayed_inputs_.add(restored.back(), input.edge(), input.is_leaf());
    }
    if (!input.is_original(restored.back())) {
      effects_.adopt(restored.back());
    }
  }
  return restored;
}

// See Note [Late reads].
void FunctionReplay::note_copies(std::span<const at::Tensor> inputs) {
  for (std::uint32_t i = 0; i < inputs.size(); ++i) {
    const RegionInput& input = function_.inputs[i];
    if (input.is_packed() && inputs[i].defined() && !input.is_original(inputs[i])) {
      watch_->note_copy(i, inputs[i], input.is_in_exact_store());
    }
  }
}

void FunctionReplay::run_region(std::span<const at::Tensor> inputs) {
  std::vector<at::Tensor> arguments;
  arguments.reserve(function_.argument_inputs.size());
  for (const std::uint32_t input : function_.argument_inputs) {
    arguments.push_back(inputs[input]);
  }
  const ProfilerRange range("reprise::recompute", record_.name);
  if (function_.watched && record_.state.rng) {
    record_.state.rng->add(function_.watched->generators);  // up to now, if forward still runs
  }
  const RegionStateGuard state(record_.state);
  wait_at_boundary(record_.synchronizes);
  const RecomputingScope recomputing;
  const std::optional<AssignedData::Guard> assigned =
      function_.watched ? function_.watched->guard_assigned() : std::nullopt;
  const hooks_internal::HooksEnabledGuard enabled;
  const hooks_internal::HookScope hooks(shared_from_this());
  const absl::Cleanup outside = [this] {
    effects_.settle();
    put_gradients_back();
    if (watch_) {
      watch_->put_generators_back();
    }
    graph_.break_cycles();
    replayed_inputs_.end();
  };
  OperatorInterceptor* interceptor = &effects_;
  if (function_.tape && options_.follows_tape && !function_.tape->runs_everything()) {
    const bool is_last = options_.is_last && function_.tape->is_complete();  // forward has ended
    interceptor = &follower_.emplace(
        *function_.tape,
        TapeFollower::Options{.is_last = is_last, .may_lose_tape = may_run_without_tape()},
        record_.name, *watch_, effects_, record_.stats.get());
  }
  if (watch_) {
    effects_.reserve(inputs.size() + function_.watched->operators.size());
    watch_->start(inputs, *interceptor);
    note_copies(inputs);
    for (const auto& storage : options_.stand_ins) {
      watch_->note_stand_in(storage);
    }
    interceptor = &*watch_;
  } else {
    memory_.start(freed_of(record_));
    if (record_.state.rng) {
      interceptor = &draws_.emplace(*record_.state.rng, record_.name, effects_);
    }
  }
  for (const StorageId memory : memory_.freed()) {
    effects_.adopt(memory);
  }
  if (before_operator_) {
    before_operator_->start(*interceptor);
    interceptor = &*before_operator_;
  }
  const InterceptionScope intercepted(interceptor);
  const SharedInterception::Scope shared(*this);
  std::optional<OperatorLogGuard> logging;
  if (record_.operators) {
    operators_ = std::make_unique<OperatorLog>();
    logging.emplace(*operators_);
  }
  run_code(arguments);
  wait_at_boundary(record_.synchronizes);
}

void FunctionReplay::run_code(std::vector<at::Tensor>& arguments) {
  thread_ = std::this_thread::get_id();
  checks_.set_thread(thread_);
  const ReplayGraph::Scope graph(graph_, wanted_.size());
  exceptions_at_start_ = std::uncaught_exceptions();
  FunctionReplay* const outer = std::exchange(t_innermost, this);
  const absl::Cleanup innermost = [outer] { t_innermost = outer; };
  try {
    function_.code->run(arguments);
  } catch (const EarlyStop& stop) {
    if (stop.replay() != this) {
      throw;  // the early stop of an enclosing region's replay, in which this one runs
    }
  } catch (const std::exception&) {
    if (!is_stopped()) {
      throw;  // otherwise user code has translated the early stop
    }
  } catch (...) {
    if (!is_stopped()) {
      throw CheckpointError(c10::str(
          "[checkpoint] region '", record_.name,
          "': its code threw something that is no std::exception in the recomputation; such an "
          "exception cannot leave a backward, derive it from std::exception"));
    }
  }
}

FilledSlots FunctionReplay::take_values() {
  FilledSlots filled;
  {
    const MutexLock lock(mutex_);
    filled.reserve(values_.size());
    for (const SlotId slot : values_.ids()) {
      if (values_[slot].tensor.defined()) {
        filled.emplace_back(slot, std::move(values_[slot]));
      }
    }
  }
  for (auto& [slot, value] : filled) {
    if (!may_be_returned(value.tensor)) {  // it has got a graph since
      value.tensor = hooks_internal::detached_alias(value.tensor);
    }
  }
  return filled;
}

}  // namespace reprise::engine_internal
