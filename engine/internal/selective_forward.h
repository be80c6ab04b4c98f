// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The forward of a region under a policy: asks it for each operator, and keeps what it wants kept.
//
// Note [In place]: an operator that writes in place to a kept result follows the operator that made
// it: the result stays kept as it is afterwards, and a replay leaves the write out. The other way
// round, to keep what an operator has written is to keep it as the result of the one that made it.
// Neither goes if an operator that a replay runs has read the earlier state, or if the policy
// insists on running the write again.
#ifndef REPRISE_ENGINE_INTERNAL_SELECTIVE_FORWARD_H_
#define REPRISE_ENGINE_INTERNAL_SELECTIVE_FORWARD_H_

#include <memory>
#include <string>
#include <vector>

#include "reprise/engine/internal/dispatch_mode.h"
#include "reprise/engine/internal/operator_trace.h"
#include "reprise/engine/internal/operator_traits.h"

namespace reprise::engine_internal {

// True for operators that a policy is not asked for, because forward and replay may run them
// differently often: detach, profiler ranges, and the casts of parameters that autocast caches.
bool is_untraced(const OperatorCall& call, const OperatorTraits& traits);

// A fingerprint of the arguments: shapes and dtypes of tensors, numbers, strings and lists of them.
std::uint64_t fingerprint_of_arguments(const OperatorCall& call);

class SelectiveForward final : public OperatorInterceptor {
 public:
  // next: what stands further out, or null. trace, next: must outlive this.
  SelectiveForward(OperatorTrace& trace, std::shared_ptr<Policy> policy, std::string region,
                   bool preserves_rng, OperatorInterceptor* next);

  void intercept(const OperatorCall& call) override;

 private:
  TracedOperator describe(const OperatorCall& call, const OperatorTraits& traits,
                          const MemoryList& arguments) const;
  // The operator has run.
  void note_results(const OperatorCall& call, const OperatorTraits& traits, TracedOperator& op,
                    const MemoryList& arguments);
  CheckpointPolicy ask(const OperatorCall& call, std::span<const c10::IValue> arguments);
  void keep(const OperatorCall& call, TracedOperator& op);
  void tie(const OperatorCall& call, TracedOperator& op, const OperatorTraits& traits);
  bool keep_as_result(const at::Tensor& written, OperatorTrace::Value& value);

  OperatorTrace& trace_;
  const std::shared_ptr<Policy> policy_;
  const std::string region_;
  const bool preserves_rng_;
  OperatorInterceptor* const next_;
  const int backward_;  // in which the region runs, or -1
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_INTERNAL_SELECTIVE_FORWARD_H_
