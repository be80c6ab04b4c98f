// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/operators/region_scope.h"

#include <c10/util/StringUtil.h>

#include <utility>

#include "reprise/engine/operators/interception.h"

namespace reprise::engine_internal {
namespace {

constinit thread_local RegionScope* t_innermost = nullptr;

}  // namespace

RegionScope::RegionScope(const std::string& name, PolicyRegion* policy_region)
    : name_(name),
      policy_region_(policy_region),
      enclosing_(t_innermost),
      innermost_of_thread_(&t_innermost),
      interceptor_(InterceptionScope::current()) {
  t_innermost = this;
}

RegionScope::~RegionScope() { t_innermost = enclosing_; }

const RegionScope* RegionScope::current() noexcept { return t_innermost; }

PolicyRegion* RegionScope::innermost_policy_region() noexcept {
  const RegionScope* region = t_innermost;
  while (region != nullptr && region->policy_region_ == nullptr) {
    region = region->enclosing_;
  }
  return region == nullptr ? nullptr : region->policy_region_;
}

// Another interceptor is set: a hook, a store or a replay runs here, and must find it unchanged.
bool RegionScope::may_end() const noexcept {
  return t_innermost == this && InterceptionScope::current() == interceptor_;
}

std::string RegionScope::why_not() const {
  if (innermost_of_thread_ != &t_innermost) {
    return c10::str("'", name_, "' was ended on another thread than it was begun on. End it there");
  }
  if (t_innermost != this) {
    return c10::str("'", name_, "' was ended before region '", t_innermost->name_,
                    "', which was begun inside it. End the inner one first");
  }
  return c10::str("'", name_, "' was ended by a hook, a store or a recomputation that ran inside ",
                  "it. End it outside of them");
}

void RegionScope::abandon(std::shared_ptr<void> region) noexcept {
  abandoned_ = std::move(region);
  is_abandoned_.store(true, std::memory_order_release);
}

bool RegionScope::is_innermost_abandoned() noexcept {
  return t_innermost != nullptr && t_innermost->is_abandoned_.load(std::memory_order_acquire);
}

void RegionScope::end_abandoned() noexcept {
  while (is_innermost_abandoned() && t_innermost->may_end()) {
    const std::shared_ptr<void> ended = std::move(t_innermost->abandoned_);
  }
}

}  // namespace reprise::engine_internal
