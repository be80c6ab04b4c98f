// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The entries of a policy that have matched an operator.
#ifndef REPRISE_POLICIES_MATCHING_MATCH_FLAGS_H_
#define REPRISE_POLICIES_MATCHING_MATCH_FLAGS_H_

#include <atomic>
#include <cstddef>
#include <vector>

namespace reprise::policies_internal {

// Thread-safe. Written once per entry, so that threads do not contend for cache lines.
class MatchFlags {
 public:
  explicit MatchFlags(std::size_t entries) : flags_(entries) {}

  void set(std::size_t entry) noexcept {
    if (!flags_[entry].load(std::memory_order_relaxed)) {
      flags_[entry].store(true, std::memory_order_relaxed);
    }
  }
  [[nodiscard]] bool test(std::size_t entry) const noexcept {
    return flags_[entry].load(std::memory_order_relaxed);
  }

 private:
  std::vector<std::atomic<bool>> flags_;
};

}  // namespace reprise::policies_internal

#endif  // REPRISE_POLICIES_MATCHING_MATCH_FLAGS_H_
