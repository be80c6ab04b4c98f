// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/internal/region_scope.h"

namespace reprise::engine_internal {
namespace {

thread_local const RegionScope* innermost = nullptr;

}  // namespace

RegionScope::RegionScope(const std::string& name, PolicyRegion* policy_region)
    : name_(name), policy_region_(policy_region), enclosing_(innermost) {
  innermost = this;
}

RegionScope::~RegionScope() { innermost = enclosing_; }

const RegionScope* RegionScope::current() noexcept { return innermost; }

PolicyRegion* RegionScope::innermost_policy_region() noexcept {
  const RegionScope* region = innermost;
  while (region != nullptr && region->policy_region_ == nullptr) {
    region = region->enclosing_;
  }
  return region == nullptr ? nullptr : region->policy_region_;
}

}  // namespace reprise::engine_internal
