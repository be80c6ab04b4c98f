// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The forward of a region under a policy: asks it for each operator, and has kept what it wants
// kept.
//
// Note [Nested policies]: an operator inside nested regions belongs to each of them, and each has
// its own replays. The policies agree on one answer: a MUST beats a PREFER, two different MUSTs are
// an error, and between two PREFERs the inner region's counts. Only for writes in place does each
// region's policy answer for itself, as they may belong to a value of the outer region.
#ifndef REPRISE_ENGINE_INTERNAL_SELECTIVE_FORWARD_H_
#define REPRISE_ENGINE_INTERNAL_SELECTIVE_FORWARD_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "reprise/engine/internal/dispatch_mode.h"
#include "reprise/engine/internal/operator_traits.h"
#include "reprise/engine/internal/trace_builder.h"

namespace reprise::engine_internal {

class SelectiveForward final : public OperatorInterceptor {
 public:
  // next: what stands further out, or null. enclosing: the next region further out with a policy,
  // or null. All must outlive this.
  SelectiveForward(TraceBuilder& builder, std::shared_ptr<Policy> policy, const std::string& region,
                   bool preserves_rng, OperatorInterceptor* next, SelectiveForward* enclosing);

  void intercept(const OperatorCall& call) override;

  // The result whose value lies in the tensor's memory, in this region and in those around it:
  // is kept as it is now, is computed again, is offered to the policy under a name. Throw
  // CheckpointError.
  void save(const at::Tensor& tensor);
  void recompute(const at::Tensor& tensor);
  void name(const at::Tensor& tensor, std::string_view name);

 private:
  TracedOperator describe(const OperatorCall& call, const OperatorTraits& traits,
                          const MemoryList& arguments) const;
  void decide(const OperatorCall& call, std::span<const c10::IValue> arguments);
  CheckpointPolicy ask(PolicyContext::Call& question);
  CheckpointPolicy ask_by_name(const at::Tensor& tensor, std::string_view name);
  CheckpointPolicy agree_with_enclosing(const OperatorCall& call, CheckpointPolicy answer);
  void pin(const at::Tensor& tensor, CheckpointPolicy decision);
  void apply(const at::Tensor& tensor, CheckpointPolicy decision, std::string_view caller);

  TraceBuilder& builder_;
  const std::shared_ptr<Policy> policy_;
  const std::string& region_;
  const bool preserves_rng_;
  OperatorInterceptor* const next_;
  SelectiveForward* const enclosing_;
  const int backward_;  // in which the region runs, or -1
  bool has_asked_for_last_call_ = false;
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_INTERNAL_SELECTIVE_FORWARD_H_
