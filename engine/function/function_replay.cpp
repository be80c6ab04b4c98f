// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/function/function_replay.h"

#include <c10/util/StringUtil.h>

#include <algorithm>
#include <chrono>
#include <exception>
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
                                      MemoryTable& table, ReplayMemory& memory) {
  return function.watched ? std::optional<ReplayWatch>(std::in_place, *function.watched, table,
                                                       memory, !record.allow_external_mutation,
                                                       record.state.rng.has_value())
                          : std::optional<ReplayWatch>();
}

// Without a record of what forward wrote: the storages of saved tensors that have no bytes now.
std::vector<MemoryTable::WeakStorage> freed_of(const RegionRecord& record) {
  std::vector<MemoryTable::WeakStorage> freed;
  for (const RegionRecord::Slot& slot : record.slots) {
    if (slot.saved.has_lost_memory()) {
      freed.push_back(slot.saved.storage());
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
      watch_(make_watch(record, function, table_, memory_)),
      effects_(record.name, table_, memory_, watch_ ? &*watch_ : nullptr),
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
    table_.reserve(inputs.size() + function_.watched->operators.size());
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
  for (const MemoryTable::WeakStorage& storage : memory_.freed()) {
    effects_.adopt(storage);
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
  const KeptCallScope kept_calls(std::as_const(function_.kept_calls), record_.name);
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

}  // namespace reprise::engine_internal
