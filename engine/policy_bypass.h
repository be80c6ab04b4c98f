// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: policy_bypass.h
//
// Excludes code of a region from its policy: code that runs a different number of times in forward
// and in the recomputation, such as gathering sharded parameters, filling a cache lazily, or
// logging. Under a policy all other code must run the same operators each time.
//
// Not for results to save: excluded code runs whenever the region is recomputed. It may read a
// tensor that the region has computed if it reads it in forward as well; a tensor that it reads in
// the recomputation alone may be missing, which is a DeterminismError. A scope records excluded
// operators like all others, since no code runs again.
//
// Example:
//
//   at::Tensor forward(const at::Tensor& x) {
//     {
//       reprise::PolicyBypassGuard bypass;
//       weights.gather_unless_cached();
//     }
//     return at::linear(x, weights.full());
//   }
//
// Thread-safety: guards affect the calling thread only.
#ifndef REPRISE_ENGINE_POLICY_BYPASS_H_
#define REPRISE_ENGINE_POLICY_BYPASS_H_

#include <memory>

#include "reprise/base/export.h"

namespace reprise {

namespace hooks_internal {
class ThreadStackEntry;
}

// While alive, policies are not asked for operators of this thread, and a recomputation does not
// count them but runs them each time. Their writes to tensors from outside the region still happen
// in forward only, and the tensors that they save for backward are dropped and recomputed like
// others of the region. No effect outside of regions and in regions without a policy. Guards nest.
class [[nodiscard]] REPRISE_API PolicyBypassGuard {
 public:
  [[nodiscard]] PolicyBypassGuard();
  ~PolicyBypassGuard();
  PolicyBypassGuard(const PolicyBypassGuard&) = delete;
  PolicyBypassGuard& operator=(const PolicyBypassGuard&) = delete;

 private:
  std::shared_ptr<hooks_internal::ThreadStackEntry> entry_;
};

}  // namespace reprise

#endif  // REPRISE_ENGINE_POLICY_BYPASS_H_
