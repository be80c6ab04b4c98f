// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/tape_replay/tape_replay.h"

#include <ATen/core/PythonFallbackKernel.h>
#include <c10/util/StringUtil.h>

#include <algorithm>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "reprise/engine/ambient/boundary.h"
#include "reprise/engine/ambient/recomputing_scope.h"
#include "reprise/engine/errors.h"
#include "reprise/engine/operators/assembly_operator.h"
#include "reprise/engine/operators/c10d_work.h"
#include "reprise/engine/operators/random_draw.h"
#include "reprise/engine/operators/storage_id.h"
#include "reprise/engine/report/profiler_range.h"
#include "reprise/engine/tape/tape_context.h"
#include "reprise/engine/tape/tape_needs.h"
#include "reprise/engine/tape/tape_retention.h"
#include "reprise/engine/tape_replay/gather_ahead.h"
#include "reprise/engine/tape_replay/planned_liveness.h"
#include "reprise/hooks/seam/hook_stack.h"

namespace reprise::engine_internal {
namespace {

using Why = Tape::Given::Why;

}  // namespace

TapeReplay::TapeReplay(RegionRecord& record, Tape& tape, TapeRetention& retention)
    : record_(record),
      tape_(tape),
      retention_(retention),
      liveness_(retention.plans() ? std::make_unique<PlannedLiveness>(*this)
                                  : std::make_unique<Liveness>()) {}

FilledSlots TapeReplay::fill(std::optional<SlotId> asked, Reach reach, Wants wants) {
  const bool has_grown =
      planned_in_.size() != tape_.operators.size() || slots_.size() != tape_.slots.size();
  if (!tape_.refilled.empty()) {
    find_refilled();
  }
  const absl::Cleanup pass_is_over = [this] { forget_refilled(); };
  if (generation_ != tape_.generation || has_grown) {
    restart(wants);
  }
  absl::Cleanup is_broken = [this] { generation_.reset(); };
  ++pass_;
  const std::vector<SlotId> slots = slots_for(asked, reach, wants);
  const std::vector<TapeOperatorId> operators = plan(slots);
  liveness_->begin_pass(operators, slots, wants);
  {
    const ProfilerRange range("reprise::recompute", record_.name);
    // Only operators depend on it. Hooks and stores that return a retained value find backward's
    // own state, as without a region.
    std::optional<RegionStateGuard> state;
    if (!operators.empty()) {
      state.emplace(record_.state, RegionStateGuard::Body::kRestores);
    }
    const RecomputingScope recomputing;
    const at::NoGradGuard no_grad;
    const InterceptionScope unseen(nullptr);
    const at::impl::MaybeSetTLSOnEntryGuard entry;  // what Python's code in an operator finds
    wait_at_boundary(record_.synchronizes);
    run_all(operators, wants);
    for (const SlotId slot : slots) {
      if (!wants(slot)) {
        continue;  // it has died: loading an input may have run the code of a region around
      }
      fill_slot(slot);
      if (const TapeValueId value = tape_.slots[slot].value; value != Tape::kNone) {
        fill_slots_of_brought_back(value, wants);
      }
    }
    wait_at_boundary(record_.synchronizes);
  }
  std::move(is_broken).Cancel();
  return std::exchange(filled_, {});
}

std::vector<SlotId> TapeReplay::slots_of_node(SlotId asked, Wants wants) const {
  const auto is_of_node = [&](std::size_t number) {
    return record_.slots[SlotId(number)].saved.node_number() ==
           record_.slots[asked].saved.node_number();
  };
  std::size_t first = asked.number();
  while (first > 0 && is_of_node(first - 1)) {
    --first;
  }
  std::vector<SlotId> slots = {asked};
  for (std::size_t number = first; number < tape_.slots.size() && is_of_node(number); ++number) {
    if (const SlotId slot(number); slot != asked && wants(slot)) {
      slots.push_back(slot);
    }
  }
  return slots;
}

std::vector<SlotId> TapeReplay::slots_for(std::optional<SlotId> asked, Reach reach,
                                          Wants wants) const {
  if (asked && reach != Reach::kRegion) {
    return reach == Reach::kNode ? slots_of_node(*asked, wants) : std::vector<SlotId>{*asked};
  }
  std::vector<SlotId> slots;
  for (const SlotId slot : tape_.slots.ids()) {
    if (wants(slot)) {
      slots.push_back(slot);
    }
  }
  return slots;
}

void TapeReplay::restart(Wants wants) {
  generation_ = tape_.generation;
  has_transferred_ = false;
  planned_in_.assign(tape_.operators.size(), pass_);
  work_.assign(tape_.values.size(), {});
  liveness_->restart();
  filled_.clear();
  filled_in_.assign(tape_.slots.size(), pass_);
  slots_.clear();
  SlotSet wanted(tape_.slots.size());
  for (const SlotId slot : wanted.ids()) {
    wanted[slot] = wants(slot);
    slots_.emplace_back(tape_.slots[slot].value, slot);
  }
  std::sort(slots_.begin(), slots_.end());
  TapeOperatorSet operators;
  needed_values(tape_, wanted, operators,
                [this](TapeValueId value) { return is_available(value); });
  for (const TapeOperatorId index : operators.ids()) {
    if (operators[index]) {
      tape_.for_each_use(tape_.operators[index],
                         [this](TapeValueId value) { ++work_[value].uses; });
    }
  }
}

void TapeReplay::find_refilled() {
  for (const auto& [value, refilled] : tape_.refilled) {
    if (at::Tensor now = refilled.now(); now.defined()) {
      refilled_now_.emplace(value, std::move(now));
    }
  }
}

// Its owner may free or change it before the next pass.
void TapeReplay::forget_refilled() {
  if (refilled_now_.empty()) {
    return;
  }
  for (const auto& [value, tensor] : refilled_now_) {
    if (value.number() < work_.size() && work_[value].base.tensor.is_same(tensor)) {
      work_[value].base = {};
    }
  }
  refilled_now_.clear();
}

bool TapeReplay::is_available(TapeValueId value) const {
  const auto found = tape_.given.find(value);
  if (found == tape_.given.end()) {
    return !refilled_now_.empty() && refilled_now_.contains(value);
  }
  if (found->second.why != Why::kPolicy) {
    return true;
  }
  return !tape_.recomputes_kept && !(tape_.allow_mutation && found->second.kept.is_mutated());
}

// Plans all transfers at once, so that their order does not depend on the order of requests.
void TapeReplay::plan_transfers(std::vector<TapeOperatorId>& operators) {
  if (!tape_.has_required || std::exchange(has_transferred_, true)) {
    return;
  }
  const TapeOperatorSet transfers =
      transfers_to_repeat(tape_, [this](TapeValueId value) { return is_available(value); });
  for (const TapeOperatorId index : tape_.operators.ids()) {
    if (transfers[index]) {
      planned_in_[index] = pass_;
      operators.push_back(index);
    }
  }
}

std::vector<TapeOperatorId> TapeReplay::plan(const std::vector<SlotId>& slots) {
  std::vector<TapeOperatorId> operators;
  plan_transfers(operators);
  const auto need = [&](TapeValueId value) {
    if (value == Tape::kNone || is_there(value)) {
      return;
    }
    const TapeOperatorId op = tape_.values[value].op;
    TORCH_INTERNAL_ASSERT(op != Tape::kNone, "a value that nothing makes");
    if (planned_in_[op] != pass_) {
      planned_in_[op] = pass_;
      operators.push_back(op);
    }
  };
  std::size_t next = 0;
  const auto need_inputs = [&](std::size_t first) {
    for (; next < operators.size(); ++next) {
      tape_.for_each_use(tape_.operators[operators[next]], [&](TapeValueId value) {
        ++work_[value].pass_uses;
        need(value);
      });
    }
    std::sort(operators.begin() + static_cast<std::ptrdiff_t>(first), operators.end());
  };
  std::size_t first = 0;
  for (const SlotId slot : slots) {
    const TapeValueId value = tape_.slots[slot].value;
    need(value);
    if (value != Tape::kNone) {
      work_[value].asked_in = pass_;
    }
    if (liveness_->computes_slots_in_turn()) {
      need_inputs(first);
      first = operators.size();
    }
  }
  need_inputs(first);
  return operators;
}

// Returns the generators that the operators draw from.
std::vector<at::Generator> TapeReplay::generators_of(
    const std::vector<TapeOperatorId>& operators) const {
  std::vector<at::Generator> generators;
  for (const TapeOperatorId index : operators) {
    if (const std::uint32_t random = tape_.operators[index].random; random != Tape::kNone) {
      generators.push_back(tape_.random[random].before.generator());
    }
  }
  return generators;
}

// Random state is restored here, around whatever a replay runs, planned or not.
void TapeReplay::run_all(const std::vector<TapeOperatorId>& operators, Wants wants) {
  const RngForkGuard generators(generators_of(operators));
  GatherAhead gathers(tape_, operators, liveness_->may_refill());
  for (std::size_t position = 0; position < operators.size(); ++position) {
    gathers.before(position);
    run(operators[position], wants);
  }
}

void TapeReplay::run(TapeOperatorId index, Wants wants) {
  const Tape::Operator& op = tape_.operators[index];
  liveness_->before_run(op, wants);
  running_ = index;
  const bool runs_again = liveness_->runs_again(index);
  tape_.for_each_use(op, [&](TapeValueId value) {
    --work_[value].pass_uses;
    work_[value].uses -= work_[value].uses > 0 && !runs_again ? 1 : 0;
  });
  if (!op.is_assembly) {
    retention_.before_recomputed(op);
  }
  prepare_writes(op);
  torch::jit::Stack stack = std::move(stack_);
  push_arguments(op, stack);
  const RandomDraw* const draw = op.random == Tape::kNone ? nullptr : &tape_.random[op.random];
  if (draw != nullptr) {
    draw->before.restore();
  }
  if (op.is_assembly) {
    run_assembly(stack);
  } else {
    const TapeContextGuard context(tape_, tape_.contexts[op.context]);
    // LibTorch returns out= arguments by reference, and pushes them after releasing its own.
    const torch::jit::Stack held = op.end_write > op.first_write ? stack : torch::jit::Stack();
    op.op.callBoxed(&stack);
    if (op.transfer == Transfer::kCollective) {
      wait_for_work(stack);
    }
  }
  if (draw != nullptr && !draw->is_repeated()) {
    throw DeterminismError(c10::str("[checkpoint] region '", record_.name,
                                    "': ", describe_operator(index), " ",
                                    describe_shared_draw(draw->before.generator())));
  }
  take_results(index, stack);
  liveness_->after_run(op);
  fill_slots_and_free(op, wants);
  running_.reset();
  stack.clear();
  stack_ = std::move(stack);
}

void TapeReplay::fill_slots_and_free(const Tape::Operator& op, Wants wants) {
  const std::optional<TapeValueId> later = deferred(op, wants);
  const auto finish = [&](TapeValueId value) {
    if (value != later) {
      fill_slots_of(value, wants);
    }
    free_if_unused(value);
  };
  tape_.for_each_outcome(op, finish);
  tape_.for_each_use(op, [&](TapeValueId value) {
    fill_slots_of_brought_back(value, wants);
    free_if_unused(value);
  });
}

}  // namespace reprise::engine_internal
