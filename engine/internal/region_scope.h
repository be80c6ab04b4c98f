// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The regions whose forward runs on this thread, innermost first.
#ifndef REPRISE_ENGINE_INTERNAL_REGION_SCOPE_H_
#define REPRISE_ENGINE_INTERNAL_REGION_SCOPE_H_

#include <string>

namespace reprise::engine_internal {

class PolicyRegion;

class RegionScope {
 public:
  // policy_region: null without a policy. Both must outlive this.
  RegionScope(const std::string& name, PolicyRegion* policy_region);
  ~RegionScope();
  RegionScope(const RegionScope&) = delete;
  RegionScope& operator=(const RegionScope&) = delete;

  // The innermost region, or null.
  static const RegionScope* current() noexcept;
  // The innermost region with a policy, or null.
  static PolicyRegion* innermost_policy_region() noexcept;

  const std::string& name() const { return name_; }
  PolicyRegion* policy_region() const { return policy_region_; }

 private:
  const std::string& name_;
  PolicyRegion* const policy_region_;
  const RegionScope* const enclosing_;
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_INTERNAL_REGION_SCOPE_H_
