// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The thread-local flag behind is_recomputing().
#ifndef REPRISE_ENGINE_AMBIENT_RECOMPUTING_SCOPE_H_
#define REPRISE_ENGINE_AMBIENT_RECOMPUTING_SCOPE_H_

namespace reprise::engine_internal {

// While alive, is_recomputing() returns true on this thread.
class RecomputingScope {
 public:
  RecomputingScope();
  ~RecomputingScope();
  RecomputingScope(const RecomputingScope&) = delete;
  RecomputingScope& operator=(const RecomputingScope&) = delete;

  // Returns whether there is one on this thread.
  static bool is_active() noexcept;
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_AMBIENT_RECOMPUTING_SCOPE_H_
