// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The state of a thread that each of its operators reads, in one struct: finding a thread-local
// variable takes a call.
#ifndef REPRISE_ENGINE_OPERATORS_OPERATOR_THREAD_H_
#define REPRISE_ENGINE_OPERATORS_OPERATOR_THREAD_H_

#include <atomic>
#include <cstdint>

#include "absl/base/attributes.h"
#include "reprise/engine/operators/operator_traits.h"

namespace reprise::engine_internal {

class OperatorInterceptor;
class RegionScope;

struct OperatorThread {
  // Returns that of this thread. Not inline: the compiler would look the variable up at each use.
  ABSL_ATTRIBUTE_NOINLINE static OperatorThread& current() noexcept;

  OperatorInterceptor* if_seen() const noexcept {
    const bool is_seen = interceptor != nullptr && depth >= *unseen_depth && !*is_tracing;
    return is_seen ? interceptor : nullptr;
  }

  // Set with the interceptor:
  OperatorInterceptor* interceptor = nullptr;
  int depth = 0;                      // see Note [Unseen]
  const int* unseen_depth = nullptr;  // the present one of this thread
  const bool* is_tracing = nullptr;   // LibTorch's flag of this thread

  int scopes = 0;                            // InterceptionScopes of this thread's own
  std::atomic<const void*>* turn = nullptr;  // see SharedInterception
  std::uint64_t last_sequence_number = 0;    // see sequence_number_at_last_operator()
  RegionScope* region = nullptr;             // the innermost
  bool may_be_bypassed = false;              // there may be a PolicyBypassGuard
  RecentTraits traits;                       // of the operators of a region
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_OPERATORS_OPERATOR_THREAD_H_
