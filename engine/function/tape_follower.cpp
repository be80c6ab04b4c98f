// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/function/tape_follower.h"

#include <c10/util/StringUtil.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "reprise/engine/errors.h"
#include "reprise/engine/function/changed_state.h"
#include "reprise/engine/operators/operator_facts.h"
#include "reprise/engine/operators/random_draw.h"
#include "reprise/hooks/seam/forwarding_engine.h"

namespace reprise::engine_internal {

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
      ". ", kChangedState, "; a PolicyBypassGuard hides from the policy what may differ",
      torchscript_hint());
}

}  // namespace reprise::engine_internal
