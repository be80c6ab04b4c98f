// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/internal/selective_forward.h"

#include <c10/core/GradMode.h>
#include <c10/util/StringUtil.h>

#include <algorithm>
#include <utility>

#include "reprise/engine/errors.h"
#include "reprise/engine/internal/operator_facts.h"
#include "reprise/hooks/internal/forwarding_engine.h"
#include "reprise/policies/name_scope.h"

namespace reprise::engine_internal {
namespace {

c10::ArrayRef<c10::IValue> results_of(const OperatorCall& call, const OperatorTraits& traits) {
  return torch::jit::last(call.stack, traits.result_arguments.size());
}

// Of what the operator writes; out= may change it.
std::vector<std::vector<std::int64_t>> shapes_written(std::span<const c10::IValue> arguments,
                                                      const OperatorTraits& traits) {
  std::vector<std::vector<std::int64_t>> shapes;
  if (!traits.undeclared) {
    for (const std::uint32_t index : traits.written_arguments) {
      for_each_tensor(arguments[index],
                      [&](const at::Tensor& tensor) { shapes.push_back(tensor.sizes().vec()); });
    }
  }
  return shapes;
}

}  // namespace

SelectiveForward::SelectiveForward(TraceBuilder& builder, std::shared_ptr<Policy> policy,
                                   const std::string& region, bool preserves_rng,
                                   OperatorInterceptor* next, SelectiveForward* enclosing)
    : builder_(builder),
      policy_(std::move(policy)),
      region_(region),
      preserves_rng_(preserves_rng),
      next_(next),
      enclosing_(enclosing),
      backward_(hooks_internal::current_backward()) {}

void SelectiveForward::intercept(const OperatorCall& call) {
  const OperatorTraits& traits = OperatorTraits::of(call.op);
  has_asked_for_last_call_ = false;
  builder_.note_versions();
  MemoryList arguments;
  for (const c10::IValue& argument : call.arguments()) {
    append_memory(argument, arguments);
  }
  if (is_untraced(call, traits) || hooks_internal::current_backward() != backward_) {
    if (!traits.is_view) {
      std::for_each(arguments.begin(), arguments.end(), [this](Memory m) { builder_.need(m); });
    }
    pass_on(call, next_);
    return;
  }
  TracedOperator op = describe(call, traits, arguments);
  const auto given = call.arguments().vec();
  const auto shapes = shapes_written(given, traits);
  pass_on(call, next_);
  op.is_root = op.is_root || shapes_written(given, traits) != shapes;
  if (traits.is_inplace_view) {
    builder_.note_reshape(given[0].toTensor());
  }
  builder_.add(std::move(op), results_of(call, traits), traits.result_arguments, arguments);
  const TracedOperator& added = builder_.last();
  if (!added.is_view && (!added.made.empty() || !added.written.empty())) {
    decide(call, given);
  }
  builder_.finish_last();
}

TracedOperator SelectiveForward::describe(const OperatorCall& call, const OperatorTraits& traits,
                                          const MemoryList& arguments) const {
  TracedOperator op;
  op.name = &call.op.operator_name();
  op.arguments = fingerprint_of_arguments(call);
  if (preserves_rng_) {
    op.rng = state_before_drawing(call, traits);
  }
  for (const Memory memory : arguments) {
    if (const auto id = builder_.value_in(memory)) {
      op.inputs.push_back(*id);
    }
  }
  op.is_view = traits.is_view;
  if (traits.is_inplace_view) {
    op.is_root = true;
    return op;
  }
  bool writes_outside = false;
  for (const std::uint32_t index : traits.written(call.arguments())) {
    for_each_tensor(call.argument(index), [&](const at::Tensor& tensor) {
      const auto id = builder_.value_in(memory_of(tensor));
      writes_outside = writes_outside || !id;
      if (id) {
        op.written.push_back(*id);
      }
    });
  }
  const bool writes_besides = !op.written.empty() && !traits.returns_only_arguments;
  op.is_root = writes_outside || writes_besides || traits.tells_host || traits.is_view;
  return op;
}

void SelectiveForward::decide(const OperatorCall& call, std::span<const c10::IValue> arguments) {
  const OperatorTraits& traits = OperatorTraits::of(call.op);
  const auto results = results_of(call, traits);
  PolicyContext::Call question;
  question.op = &call.op;
  question.arguments = arguments;
  question.outputs = {results.data(), results.size()};
  question.ordinal = builder_.index_of(builder_.last());
  CheckpointPolicy answer = ask(question);
  if (enclosing_ != nullptr && enclosing_->has_asked_for_last_call_) {
    answer = agree_with_enclosing(call, answer);
  }
  builder_.decide(answer, results);
  has_asked_for_last_call_ = builder_.last().written.empty();
}

// See Note [Nested policies].
CheckpointPolicy SelectiveForward::agree_with_enclosing(const OperatorCall& call,
                                                        CheckpointPolicy answer) {
  const CheckpointPolicy outer = enclosing_->builder_.last().decision;
  if (!builder_.last().written.empty() || outer == answer) {
    return answer;
  }
  if (is_must(outer) && is_must(answer)) {
    throw CheckpointError(
        c10::str("[checkpoint] the policies of nested regions contradict each other on operator ",
                 call.op.operator_name(), ": ", to_string(answer), " of region '", region_, "', ",
                 to_string(outer), " of region '", enclosing_->region_,
                 "' around it. Answer PREFER_... in one of them"));
  }
  if (is_must(outer)) {
    return outer;
  }
  const auto results = results_of(call, OperatorTraits::of(call.op));
  for (SelectiveForward* region = enclosing_; region != nullptr && region->has_asked_for_last_call_;
       region = region->enclosing_) {
    region->builder_.decide(answer, results);
  }
  return answer;
}

void SelectiveForward::save(const at::Tensor& tensor) { pin(tensor, CheckpointPolicy::MUST_SAVE); }

void SelectiveForward::recompute(const at::Tensor& tensor) {
  pin(tensor, CheckpointPolicy::MUST_RECOMPUTE);
}

void SelectiveForward::pin(const at::Tensor& tensor, CheckpointPolicy decision) {
  const bool is_save = decision == CheckpointPolicy::MUST_SAVE;
  for (SelectiveForward* region = this; region != nullptr; region = region->enclosing_) {
    TracedOperator* const op = region->builder_.creator_of(tensor);
    if (op != nullptr && op->is_pinned && op->decision != decision) {
      throw CheckpointError(c10::str("[checkpoint] region '", region->region_,
                                     "': save() and recompute() are both called for one value, a "
                                     "result of ",
                                     *op->name, ", ", TensorMetadata(tensor).to_string(),
                                     ". Remove one of the two"));
    }
    region->apply(tensor, decision, is_save ? "save()" : "recompute()");
    if (op != nullptr) {
      op->is_pinned = true;
    }
  }
}

void SelectiveForward::apply(const at::Tensor& tensor, CheckpointPolicy decision,
                             std::string_view caller) {
  const bool is_done = keeps(decision) ? builder_.keep_value(tensor, decision)
                                       : builder_.recompute_value(tensor, decision);
  if (!is_done) {
    throw CheckpointError(c10::str(
        "[checkpoint] region '", region_, "': ", caller, " for ",
        TensorMetadata(tensor).to_string(),
        keeps(decision)
            ? ": it was read by the region before it was written in place, and a replay needs the "
              "earlier values. Save a clone instead"
            : ": it was computed from values that the policy keeps as they are after a later write "
              "in place. Change a clone instead"));
  }
}

void SelectiveForward::name(const at::Tensor& tensor, std::string_view name) {
  CheckpointPolicy answer = CheckpointPolicy::PREFER_RECOMPUTE;
  for (SelectiveForward* region = this; region != nullptr; region = region->enclosing_) {
    const CheckpointPolicy outer = region->ask_by_name(tensor, name);
    const bool has_no_opinion = answer == CheckpointPolicy::PREFER_RECOMPUTE;
    answer = has_no_opinion || (is_must(outer) && !is_must(answer)) ? outer : answer;
  }
  if (answer == CheckpointPolicy::PREFER_RECOMPUTE) {
    return;
  }
  for (SelectiveForward* region = this; region != nullptr; region = region->enclosing_) {
    region->apply(tensor, answer, "name()");
  }
}

CheckpointPolicy SelectiveForward::ask_by_name(const at::Tensor& tensor, std::string_view name) {
  const TracedOperator* const op = builder_.creator_of(tensor);
  if (op == nullptr || op->is_pinned) {
    return CheckpointPolicy::PREFER_RECOMPUTE;
  }
  const auto handle = c10::Dispatcher::singleton().findSchemaOrThrow(
      op->name->name.c_str(), op->name->overload_name.c_str());
  const c10::IValue output(tensor);
  PolicyContext::Call question;
  question.op = &handle;
  question.outputs = {&output, 1};
  question.name = name;
  question.ordinal = builder_.index_of(*op);
  const InterceptionScope unseen(nullptr);
  return ask(question);
}

CheckpointPolicy SelectiveForward::ask(PolicyContext::Call& question) {
  question.scopes = NameScope::current();
  question.region = region_;
  const at::NoGradGuard no_grad;
  return policy_->decide(PolicyContext(question));
}

}  // namespace reprise::engine_internal
