// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/function/tape_follower.h"

#include <c10/util/StringUtil.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include "reprise/engine/errors.h"
#include "reprise/engine/operators/operator_facts.h"
#include "reprise/engine/operators/random_draw.h"
#include "reprise/hooks/seam/forwarding_engine.h"
#include "reprise/hooks/seam/hook_stack.h"
#include "reprise/hooks/seam/unseen_scope.h"

namespace reprise::engine_internal {
namespace {

using Kind = ResultList::Kind;

// With a version counter of its own: a write by the replay does not count as one to the retained
// tensor.
at::Tensor own_alias(const at::Tensor& kept) {
  return hooks_internal::detached_alias(kept, c10::VariableVersion(0),
                                        /*may_change_metadata=*/true);
}

at::Tensor own_copy(const at::Tensor& kept) {
  const hooks_internal::UnseenScope unseen;
  return at::clone(kept);
}

}  // namespace

TapeFollower::TapeFollower(FunctionTape& tape, Options options, const std::string& region,
                           const ReplayWatch& watch, ReplayEffects& effects, RegionStats* stats)
    : tape_(tape),
      options_(options),
      region_(region),
      watch_(watch),
      effects_(effects),
      stats_(stats),
      taken_(options.is_last ? tape.take_saved() : nullptr),
      saved_(options.is_last ? taken_ : tape.saved()),
      actions_now_(tape.is_complete() ? std::nullopt : std::optional(tape.actions_now())),
      actions_(actions_now_ ? *actions_now_ : tape.actions()),
      backward_(hooks_internal::current_backward()) {
  skip_hidden();
}

bool TapeFollower::is_same_operator(const OperatorCall& call) const {
  const auto& operators = tape_.tape.operators;
  return operators.contains(next_) &&
         operators[next_].op.operator_name() == call.op.operator_name();
}

void TapeFollower::skip_hidden() {
  while (tape_.tape.operators.contains(next_) && tape_.tape.operators[next_].is_hidden) {
    ++next_;
  }
}

bool TapeFollower::is_ahead_of_forward() const {
  return !tape_.tape.operators.contains(next_) && !tape_.is_complete();
}

bool TapeFollower::is_next(std::optional<std::uint32_t> matched) const {
  return matched && tape_.tape.operators.contains(next_) &&
         tape_.tape.operators[next_].ordinal == *matched;
}

bool TapeFollower::is_on_tape(std::uint32_t ordinal) const {
  const auto& operators = tape_.tape.operators;
  auto found = std::lower_bound(
      operators.begin(), operators.end(), ordinal,
      [](const Tape::Operator& op, std::uint32_t number) { return op.ordinal < number; });
  while (found != operators.end() && found->ordinal == ordinal && found->is_hidden) {
    ++found;
  }
  return found != operators.end() && found->ordinal == ordinal;
}

void TapeFollower::intercept(const OperatorCall& call) {
  // Code that has swallowed or translated the early stop, or left the tape, runs.
  if (has_stopped_ || has_lost_tape_ || call.traits.is_view) {
    effects_.intercept(call);
    return;
  }
  const std::optional<std::uint32_t> matched = watch_.matched();
  if (is_next(matched)) {
    follow(call, next_);
    ++next_;
    skip_hidden();
    return;
  }
  if (is_ahead_of_forward()) {
    disown_shared();
  }
  if (is_untraced(call) || is_in_backward_inside(backward_)) {
    check_reads(call);
    effects_.intercept(call);
    return;
  }
  if (is_ahead_of_forward()) {
    effects_.intercept(call);
    return;
  }
  const bool is_expected =
      matched && !is_on_tape(*matched) &&
      (!tape_.tape.operators.contains(next_) || *matched < tape_.tape.operators[next_].ordinal);
  if (!is_expected) {
    is_other_call_ = is_same_operator(call);
    lose_tape(describe_other_operator(call, matched));
  }
  effects_.intercept(call);
}

std::size_t TapeFollower::saved_aliases_of(StorageId memory) const {
  if (saved_ == nullptr) {
    return 0;
  }
  return static_cast<std::size_t>(
      std::count_if(saved_->begin(), saved_->end(), [memory](const auto& entry) {
        const at::Tensor& alias = entry.second.kept.alias;
        return alias.defined() && storage_id_of(alias) == memory;
      }));
}

void TapeFollower::check() const {
  if (other_operator_) {
    throw DeterminismError(*other_operator_);
  }
  if (mutation_) {
    throw MutationError(*mutation_);
  }
}

void TapeFollower::follow(const OperatorCall& call, TapeOperatorId index) {
  const Tape::Operator& op = tape_.tape.operators[index];
  if (saved_ == nullptr || actions_.runs[index]) {
    run(call, index);
    if (saved_ != nullptr) {
      replace_results(call, index);
    }
    return;
  }
  if (op.first_made == op.end_made) {
    skip_writes(call, index);
  } else {
    effects_.settle();
    supply(call, index);
  }
  if (op.random != Tape::kNone) {
    // For inner regions, whose own replays start there.
    tape_.tape.random[op.random].after->restore();
  }
}

void TapeFollower::run(const OperatorCall& call, TapeOperatorId index) {
  const Tape::Operator& op = tape_.tape.operators[index];
  const RandomDraw* const draw = op.random == Tape::kNone ? nullptr : &tape_.tape.random[op.random];
  if (draw != nullptr) {
    draw->before.restore();
  }
  run_timed(call, op);
  if (draw != nullptr && !draw->is_repeated()) {
    other_operator_ = c10::str("[checkpoint] region '", region_, "': operator ", op.ordinal,
                               " of the recomputation, ", op.op.operator_name(), ", ",
                               describe_shared_draw(draw->before.generator()));
    check();
  }
}

void TapeFollower::run_timed(const OperatorCall& call, const Tape::Operator& op) {
  if (stats_ == nullptr || !op.is_asked) {
    effects_.intercept(call);
    return;
  }
  const auto start = std::chrono::steady_clock::now();
  effects_.intercept(call);
  stats_->add_replay(op.op.operator_name(), op.decision, std::chrono::steady_clock::now() - start);
}

void TapeFollower::supply(const OperatorCall& call, TapeOperatorId index) {
  const ResultList::Range& range = *tape_.results_of[index];
  std::uint32_t ordinal = 0;
  std::vector<c10::IValue> supplied;
  supplied.reserve(call.traits.result_arguments.size());
  for (const ResultList::Result& result : tape_.results.results(range)) {
    if (result.kind == Kind::kOther) {
      supplied.push_back(result.other);
    } else if (result.kind == Kind::kTensor) {
      supplied.emplace_back(result_for(call, index, ordinal++));
    } else {
      c10::List<at::Tensor> list;
      for (std::uint32_t i = 0; i < result.tensors; ++i) {
        list.push_back(result_for(call, index, ordinal++));
      }
      supplied.emplace_back(std::move(list));
    }
  }
  torch::jit::drop(call.stack, call.op.schema().arguments().size());
  std::move(supplied.begin(), supplied.end(), std::back_inserter(call.stack));
}

// Each tensor of the results is a value of its own.
at::Tensor TapeFollower::result_for(const OperatorCall& call, TapeOperatorId index,
                                    std::uint32_t ordinal) {
  const Tape::Made& made = tape_.tape.made[tape_.tape.operators[index].first_made + ordinal];
  at::Tensor tensor = saved(call, actions_.supplied[made.value]);
  if (!tensor.defined()) {
    tensor = stand_ins_.make(tape_.tape.geometries[made.geometry], made.device,
                             /*has_memory=*/call.traits.is_factory);
    effects_.adopt(tensor);
  }
  return tensor;
}

void TapeFollower::skip_writes(const OperatorCall& call, TapeOperatorId index) {
  const Tape::Operator& op = tape_.tape.operators[index];
  effects_.settle();
  StorageIdList seen;
  const auto writes = tape_.tape.writes_of(op);
  std::size_t next = 0;
  for (const std::uint32_t argument : call.traits.written(call.arguments())) {
    for_each_tensor(call.argument(argument), [&](const at::Tensor& target) {
      const StorageId memory = storage_id_of(target);
      if (next == writes.size() || std::find(seen.begin(), seen.end(), memory) != seen.end()) {
        return;
      }
      seen.push_back(memory);
      const Tape::Write& write = writes[next++];
      if (actions_.is_copied[write.after]) {
        copy(call, target, write);
      } else if (actions_.is_left_out[write.after]) {  // the target keeps its contents
        stand_ins_.note_left_out(target);
      }
    });
  }
  leave_out(call);
}

void TapeFollower::copy(const OperatorCall& call, const at::Tensor& target,
                        const Tape::Write& write) {
  const at::Tensor kept = saved(call, write.after);
  stand_ins_.note_filled(target);
  if (write.reshaped != Tape::kNone) {
    const Geometry& reshaped = tape_.tape.geometries[write.reshaped];
    target.resize_(reshaped.sizes);
    // With the layout that `out=` gives a tensor that it resizes.
    target.unsafeGetTensorImpl()->set_sizes_and_strides(reshaped.sizes, reshaped.strides);
  }
  // The target may be a part of what the operator leaves in the memory.
  const GeometryId geometry = saved_->at(write.after).geometry;
  tape_.tape.geometries[geometry].look_at(target, 0).copy_(kept);
}

void TapeFollower::replace_results(const OperatorCall& call, TapeOperatorId index) {
  const Tape::Operator& op = tape_.tape.operators[index];
  const auto is_supplied = [&](const Tape::Made& made) {
    return actions_.supplied[made.value] != Tape::kNone;
  };
  const auto made = tape_.tape.made_by(op);
  if (std::none_of(made.begin(), made.end(), is_supplied)) {
    return;
  }
  std::uint32_t ordinal = 0;
  std::size_t next = 0;
  const auto replaced = [&](const at::Tensor& tensor) {
    if (next == made.size() || made[next].ordinal != ordinal++) {
      return tensor;
    }
    at::Tensor kept = saved(call, actions_.supplied[made[next++].value]);
    return kept.defined() ? kept : tensor;
  };
  const std::size_t first = call.stack.size() - call.traits.result_arguments.size();
  for (std::size_t i = first; i < call.stack.size(); ++i) {
    c10::IValue& result = call.stack[i];
    if (result.isTensor() && result.toTensor().defined()) {
      result = replaced(result.toTensor());
    } else if (result.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& tensor : result.toTensorVector()) {
        list.push_back(tensor.defined() ? replaced(tensor) : tensor);
      }
      result = std::move(list);
    }
  }
}

at::Tensor TapeFollower::saved(const OperatorCall& call, TapeValueId value) {
  const auto found = value == Tape::kNone ? saved_->end() : saved_->find(value);
  if (found == saved_->end() || !found->second.kept.is_defined()) {
    return {};
  }
  const KeptResult& kept = found->second.kept;
  const std::optional<at::Tensor> kept_now = kept.get_unless_mutated();
  if (!kept_now) {
    std::string why = c10::str(
        "[checkpoint] region '", region_,
        "': a tensor that the policy keeps has been mutated: the "
        "result of operator ",
        watch_.matched().value_or(0), ", ", call.op.operator_name(), ", ", kept.describe_mutation(),
        ". Change a clone instead, or set allow_cache_entry_mutation to compute it again");
    if (kept.stored && !kept.is_mutated()) {  // perhaps by the region's code, through a pointer
      lose_tape(std::move(why));
      return {};
    }
    mutation_ = std::move(why);
    check();
  }
  const bool is_written = actions_.is_written[value];
  at::Tensor tensor = is_written ? own_copy(*kept_now) : own_alias(*kept_now);
  effects_.adopt(tensor);
  if (!tape_.is_complete() && !is_written) {
    shared_.push_back(storage_id_of(tensor));
  }
  if (taken_ != nullptr) {
    taken_->at(value).kept = {};
  }
  return tensor;
}

// Code that reads a tensor which it did not read in forward.
void TapeFollower::check_reads(const OperatorCall& call) {
  if (stand_ins_.empty()) {
    return;
  }
  const auto arguments = call.arguments();
  for (std::uint32_t index = 0; index < arguments.size(); ++index) {
    if (call.traits.may_write(index)) {
      continue;
    }
    for_each_tensor(arguments[index], [&](const at::Tensor& tensor) {
      if (stand_ins_.contains(tensor) && !has_lost_tape_) {
        lose_tape(c10::str(
            "[checkpoint] region '", region_, "': code that is hidden from the policy reads, by ",
            call.op.operator_name(), ", a result of the region, ",
            TensorMetadata(tensor).to_string(),
            ", in the recomputation only. Nothing else needs it, so it is not computed again. Have "
            "the hidden code read it in forward as well"));
      }
    });
  }
}

// The region's code may write to these tensors, while forward reads them.
void TapeFollower::disown_shared() {
  for (const StorageId memory : std::exchange(shared_, {})) {
    effects_.disown(memory);
  }
}

void TapeFollower::lose_tape(std::string why) {
  disown_shared();
  other_operator_ = std::move(why);
  has_lost_tape_ = true;
  if (!options_.may_lose_tape) {
    check();
  }
}

std::string TapeFollower::describe_other_operator(const OperatorCall& call,
                                                  std::optional<std::uint32_t> matched) const {
  const auto& operators = tape_.tape.operators;
  const bool is_end = !operators.contains(next_);
  const bool same_name = !matched && is_same_operator(call);
  return c10::str(
      "[checkpoint] region '", region_, "': operator ", watch_.calls() - 1,
      " of the recomputation is ", call.op.operator_name(),
      same_name ? " with arguments of other shapes, dtypes or values" : "",
      is_end ? c10::str("; forward ran only ", operators.empty() ? 0 : operators.back().ordinal + 1,
                        " operators")
             : c10::str("; forward ran ", operators[next_].op.operator_name()),
      ". The region's code must run the same operators each time; what cannot, can be hidden from "
      "the policy by a PolicyBypassGuard",
      torchscript_hint());
}

}  // namespace reprise::engine_internal
