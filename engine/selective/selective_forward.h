// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The forward of a function region under a policy: retains the results that the policy saves.
#ifndef REPRISE_ENGINE_SELECTIVE_SELECTIVE_FORWARD_H_
#define REPRISE_ENGINE_SELECTIVE_SELECTIVE_FORWARD_H_

#include <memory>
#include <optional>
#include <string>

#include "reprise/engine/operators/random_draw.h"
#include "reprise/engine/policy/policy_region.h"
#include "reprise/engine/selective/trace_recorder.h"

namespace reprise::engine_internal {

class SelectiveForward final : public OperatorInterceptor {
 public:
  // next: the interceptor further out, or null. Must outlive this, as must those that PolicyRegion
  // names.
  SelectiveForward(TraceRecorder& recorder, std::shared_ptr<Policy> policy,
                   const std::string& region, bool preserves_rng, OperatorInterceptor* next,
                   PolicyRegion* enclosing);

  PolicyRegion& policy_region() { return policy_region_; }

  void intercept(const OperatorCall& call) override;
  void settle() override {
    if (next_ != nullptr) {
      next_->settle();
    }
  }
  void note_recomputed(const at::Tensor& tensor, const void* saved,
                       std::uint64_t provenance) override {
    if (next_ != nullptr) {
      next_->note_recomputed(tensor, saved, provenance);
    }
  }
  at::Tensor state_before(const OperatorCall& call, const at::Tensor& argument) override {
    return engine_internal::state_before(call, argument, next_);
  }

 private:
  void run_hidden(const OperatorCall& call, const StorageIdList& arguments);
  TracedOperator describe(const OperatorCall& call, const StorageIdList& arguments) const;
  void note_writes(const OperatorCall& call, const StorageIdList& arguments,
                   TracedOperator& op) const;

  TraceRecorder& recorder_;
  PolicyRegion policy_region_;
  const bool preserves_rng_;
  DrawRecorder draws_;
  OperatorInterceptor* const next_;
  const int backward_;  // the backward in which the region runs, or -1
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_SELECTIVE_SELECTIVE_FORWARD_H_
