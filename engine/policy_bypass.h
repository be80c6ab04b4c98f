// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: policy_bypass.h
//
// Hides code of a region from its policy: code that runs differently often in forward and in the
// recomputation, such as the gathering of sharded parameters, a lazily filled cache, or logging.
// Under a policy all other code must run the same operators each time.
//
// Not for results that are to be kept: what is hidden is computed again whenever the region is. It
// may read a tensor that the region has computed if it reads it in forward as well; what it reads
// in the recomputation only may not be there, which is a DeterminismError.
//
// Example:
//
//   at::Tensor forward(const at::Tensor& x) {
//     {
//       reprise::PolicyBypassGuard hidden;
//       weights.gather_unless_cached();
//     }
//     return at::linear(x, weights.full());
//   }
//
// Thread-safety: guards concern the calling thread.
#ifndef REPRISE_ENGINE_POLICY_BYPASS_H_
#define REPRISE_ENGINE_POLICY_BYPASS_H_

#include <memory>

#include "reprise/base/export.h"

namespace reprise {

namespace hooks_internal {
class ThreadStackEntry;
}

// While alive, policies are not asked for the operators of this thread, and a recomputation does
// not count them; it runs them each time. What they write of tensors from outside the region is
// still written in forward only, and what they save for backward is dropped and recomputed like all
// of the region's. No effect outside of regions and in regions without a policy. Guards nest.
class [[nodiscard]] REPRISE_API PolicyBypassGuard {
 public:
  PolicyBypassGuard();
  ~PolicyBypassGuard();
  PolicyBypassGuard(const PolicyBypassGuard&) = delete;
  PolicyBypassGuard& operator=(const PolicyBypassGuard&) = delete;

 private:
  std::shared_ptr<hooks_internal::ThreadStackEntry> entry_;
};

}  // namespace reprise

#endif  // REPRISE_ENGINE_POLICY_BYPASS_H_
