// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The policy of a region whose forward runs: asks it for each operator, and lets the region's code
// override it for single values.
//
// Note [Nested policies]: an operator inside nested regions belongs to each of them, and each has
// its own replays. The policies agree on one answer: a MUST takes precedence over a PREFER, two
// different MUSTs are an error, and of two PREFERs the inner region's applies. Only writes in place
// are decided by each region's policy separately, as they may belong to a value of the outer
// region.
#ifndef REPRISE_ENGINE_POLICY_POLICY_REGION_H_
#define REPRISE_ENGINE_POLICY_POLICY_REGION_H_

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <exception>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "reprise/engine/operators/interception.h"
#include "reprise/engine/policy/decision_target.h"
#include "reprise/policies/checkpoint_policy.h"
#include "reprise/policies/region_trace.h"

namespace reprise::engine_internal {

class PolicyRegion {
 public:
  // policy: null answers PREFER_RECOMPUTE. enclosing: the next such region further out, or null.
  // All that it refers to must outlive it.
  PolicyRegion(std::shared_ptr<Policy> policy, const std::string& region, DecisionTarget& target,
               PolicyRegion* enclosing)
      : policy_(std::move(policy)), region_(region), target_(target), enclosing_(enclosing) {}
  PolicyRegion(const PolicyRegion&) = delete;
  PolicyRegion& operator=(const PolicyRegion&) = delete;

  // To be called first for each operator.
  void start_call() { has_asked_for_last_call_ = false; }
  // Asks for the operator that has just run, whose results have replaced its arguments. Throws
  // nothing, and does not ask again after a failure.
  void decide(const OperatorCall& call, std::span<const c10::IValue> arguments);

  // For the result whose value is in the tensor's memory, in this region and the enclosing ones:
  // saves it as it is now; recomputes it; offers it to the policy under a name. Throw
  // CheckpointError.
  void must_save(const at::Tensor& tensor);
  void must_recompute(const at::Tensor& tensor);
  void checkpoint_name(const at::Tensor& tensor, std::string_view name);

  // See DecisionTarget: in this region and the enclosing ones.
  void note_read_by_host(const void* memory) {
    target_.note_read_by_host(memory);
    if (enclosing_ != nullptr) {
      enclosing_->note_read_by_host(memory);
    }
  }

  // Forward has ended, without an exception. Throws nothing.
  void end(absl::FunctionRef<RegionTrace()> trace);

  // Throws the exception that the policy threw when it was asked for an operator or told the end,
  // or the error in its answer: when the region ends, as the function that called the operator may
  // be noexcept.
  void rethrow_failure() const {
    if (failure_) {
      std::rethrow_exception(failure_);
    }
  }

 private:
  void decide_or_throw(const OperatorCall& call, std::span<const c10::IValue> arguments);
  PolicyAnswer ask(PolicyContext::Call& question);
  PolicyAnswer ask_by_name(const at::Tensor& tensor, std::string_view name);
  PolicyAnswer agree_with_enclosing(const OperatorCall& call, PolicyAnswer answer);
  void force(const at::Tensor& tensor, CheckpointPolicy decision);
  void apply(const at::Tensor& tensor, const PolicyAnswer& answer, std::string_view caller);

  const std::shared_ptr<Policy> policy_;
  const std::string& region_;
  DecisionTarget& target_;
  PolicyRegion* const enclosing_;
  std::exception_ptr failure_;
  bool has_asked_for_last_call_ = false;
  PolicyAnswer last_answer_ = CheckpointPolicy::PREFER_RECOMPUTE;  // for that call, if agreed on
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_POLICY_POLICY_REGION_H_
