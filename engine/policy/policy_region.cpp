// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/policy/policy_region.h"

#include <ATen/core/stack.h>
#include <c10/util/StringUtil.h>

#include <utility>

#include "reprise/engine/checks/saved_tensor_record.h"
#include "reprise/engine/errors.h"
#include "reprise/engine/operators/operator_traits.h"
#include "reprise/hooks/seam/unseen_scope.h"
#include "reprise/policies/name_scope.h"

namespace reprise::engine_internal {

void PolicyRegion::decide(const OperatorCall& call, std::span<const c10::IValue> arguments) {
  if (failure_) {
    return;
  }
  try {
    decide_or_throw(call, arguments);
  } catch (...) {
    failure_ = std::current_exception();
  }
}

void PolicyRegion::end(absl::FunctionRef<RegionTrace()> trace) {
  if (policy_ == nullptr || failure_) {
    return;
  }
  try {
    const hooks_internal::UnseenScope unseen;
    policy_->end_region([trace] { return trace(); });
  } catch (...) {
    failure_ = std::current_exception();
  }
}

void PolicyRegion::decide_or_throw(const OperatorCall& call,
                                   std::span<const c10::IValue> arguments) {
  const auto results = call.results();
  PolicyContext::Call question;
  question.op = &call.op;
  question.arguments = arguments;
  question.outputs = {results.data(), results.size()};
  question.ordinal = target_.last_decision().ordinal;
  PolicyAnswer answer = ask(question);
  if (enclosing_ != nullptr && enclosing_->has_asked_for_last_call_) {
    answer = agree_with_enclosing(call, std::move(answer));
  }
  target_.decide_last(answer, results);
  last_answer_ = std::move(answer);
  has_asked_for_last_call_ = !target_.has_last_written();
}

// See Note [Nested policies].
PolicyAnswer PolicyRegion::agree_with_enclosing(const OperatorCall& call, PolicyAnswer answer) {
  const PolicyAnswer& outer = enclosing_->last_answer_;
  if (target_.has_last_written() || outer == answer) {
    return answer;
  }
  if (is_must(outer.policy) && is_must(answer.policy) && outer.policy != answer.policy) {
    throw CheckpointError(
        c10::str("[checkpoint] the policies of nested regions contradict each other on operator ",
                 call.op.operator_name(), ": ", to_string(answer.policy), " of region '", region_,
                 "', ", to_string(outer.policy), " of region '", enclosing_->region_,
                 "' around it. Answer PREFER_... in one of them"));
  }
  if (is_must(outer.policy)) {
    return outer;
  }
  for (PolicyRegion* region = enclosing_; region != nullptr && region->has_asked_for_last_call_;
       region = region->enclosing_) {
    region->target_.decide_last(answer, call.results());
    region->last_answer_ = answer;
  }
  return answer;
}

void PolicyRegion::must_save(const at::Tensor& tensor) {
  force(tensor, CheckpointPolicy::MUST_SAVE);
}

void PolicyRegion::must_recompute(const at::Tensor& tensor) {
  force(tensor, CheckpointPolicy::MUST_RECOMPUTE);
}

void PolicyRegion::force(const at::Tensor& tensor, CheckpointPolicy decision) {
  const bool is_save = decision == CheckpointPolicy::MUST_SAVE;
  for (PolicyRegion* region = this; region != nullptr; region = region->enclosing_) {
    const auto op = region->target_.decision_of_creator(tensor);
    if (op && *op->is_forced && *op->decision != decision) {
      throw CheckpointError(
          c10::str("[checkpoint] region '", region->region_,
                   "': must_save() and must_recompute() are both called for one value, a "
                   "result of ",
                   *op->name, ", ", TensorMetadata(tensor).to_string(), ". Remove one of the two"));
    }
    region->apply(tensor, decision, is_save ? "must_save()" : "must_recompute()");
    if (op) {
      *op->is_forced = true;
    }
  }
}

void PolicyRegion::apply(const at::Tensor& tensor, const PolicyAnswer& answer,
                         std::string_view caller) {
  if (!keeps(answer.policy)) {
    target_.recompute_value(tensor, answer.policy);
  } else if (!target_.keep_value(tensor, answer)) {
    throw CheckpointError(c10::str(
        "[checkpoint] region '", region_, "': ", caller, " for ",
        TensorMetadata(tensor).to_string(),
        ": its operator has a result that no replay can be supplied with, such as an object or a "
        "sparse tensor, or two results in one memory. Save a clone instead"));
  }
}

void PolicyRegion::checkpoint_name(const at::Tensor& tensor, std::string_view name) {
  PolicyAnswer answer = CheckpointPolicy::PREFER_RECOMPUTE;
  for (PolicyRegion* region = this; region != nullptr; region = region->enclosing_) {
    PolicyAnswer outer = region->ask_by_name(tensor, name);
    const bool has_no_opinion = answer.policy == CheckpointPolicy::PREFER_RECOMPUTE;
    if (has_no_opinion || (is_must(outer.policy) && !is_must(answer.policy))) {
      answer = std::move(outer);
    }
  }
  if (answer.policy == CheckpointPolicy::PREFER_RECOMPUTE) {
    return;
  }
  for (PolicyRegion* region = this; region != nullptr; region = region->enclosing_) {
    region->apply(tensor, answer, "checkpoint_name()");
  }
}

PolicyAnswer PolicyRegion::ask_by_name(const at::Tensor& tensor, std::string_view name) {
  const auto op = target_.decision_of_creator(tensor);
  if (!op || *op->is_forced) {
    return CheckpointPolicy::PREFER_RECOMPUTE;
  }
  const auto handle = c10::Dispatcher::singleton().findSchemaOrThrow(
      op->name->name.c_str(), op->name->overload_name.c_str());
  const c10::IValue output(tensor);
  PolicyContext::Call question;
  question.op = &handle;
  question.outputs = {&output, 1};
  question.name = name;
  question.ordinal = op->ordinal;
  return ask(question);
}

PolicyAnswer PolicyRegion::ask(PolicyContext::Call& question) {
  if (policy_ == nullptr) {
    return CheckpointPolicy::PREFER_RECOMPUTE;
  }
  question.scopes = NameScope::current();
  question.region = region_;
  const hooks_internal::UnseenScope unseen;
  return policy_->decide(PolicyContext(question));
}

}  // namespace reprise::engine_internal
