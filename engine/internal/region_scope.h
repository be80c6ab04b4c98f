// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The regions whose forward runs on this thread, innermost first.
#ifndef REPRISE_ENGINE_INTERNAL_REGION_SCOPE_H_
#define REPRISE_ENGINE_INTERNAL_REGION_SCOPE_H_

#include <string>

namespace reprise::engine_internal {

class SelectiveForward;

class RegionScope {
 public:
  // selective: null without a policy. Both must outlive this.
  RegionScope(const std::string& name, SelectiveForward* selective);
  ~RegionScope();
  RegionScope(const RegionScope&) = delete;
  RegionScope& operator=(const RegionScope&) = delete;

  // The innermost region, or null.
  static const RegionScope* current() noexcept;
  // The innermost region with a policy, or null.
  static SelectiveForward* innermost_selective() noexcept;

  const std::string& name() const { return name_; }
  SelectiveForward* selective() const { return selective_; }

 private:
  const std::string& name_;
  SelectiveForward* const selective_;
  const RegionScope* const enclosing_;
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_INTERNAL_REGION_SCOPE_H_
