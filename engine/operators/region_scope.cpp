// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/operators/region_scope.h"

#include <c10/util/StringUtil.h>

#include <utility>

#include "reprise/engine/operators/interception.h"
#include "reprise/engine/operators/operator_thread.h"

namespace reprise::engine_internal {

RegionScope::RegionScope(const std::string& name, PolicyRegion* policy_region)
    : name_(name),
      policy_region_(policy_region),
      innermost_of_thread_(innermost()),
      enclosing_(innermost_of_thread_),
      interceptor_(InterceptionScope::current()) {
  innermost_of_thread_ = this;
}

RegionScope::~RegionScope() { innermost_of_thread_ = enclosing_; }

RegionScope*& RegionScope::innermost() noexcept { return OperatorThread::current().region; }

const RegionScope* RegionScope::current() noexcept { return innermost(); }

PolicyRegion* RegionScope::innermost_policy_region() noexcept {
  const RegionScope* region = innermost();
  while (region != nullptr && region->policy_region_ == nullptr) {
    region = region->enclosing_;
  }
  return region == nullptr ? nullptr : region->policy_region_;
}

// Another interceptor is set: a hook, a store or a replay runs here, and must find it unchanged.
bool RegionScope::may_end() const noexcept {
  return innermost() == this && InterceptionScope::current() == interceptor_;
}

std::string RegionScope::why_not() const {
  if (&innermost_of_thread_ != &innermost()) {
    return c10::str("'", name_, "' was ended on another thread than it was begun on. End it there");
  }
  if (innermost() != this) {
    return c10::str("'", name_, "' was ended before region '", innermost()->name_,
                    "', which was begun inside it. End the inner one first");
  }
  return c10::str("'", name_, "' was ended by a hook, a store or a recomputation that ran inside ",
                  "it. End it outside of them");
}

void RegionScope::abandon(std::shared_ptr<void> region) noexcept {
  abandoned_ = std::move(region);
  is_abandoned_.store(true, std::memory_order_release);
}

void RegionScope::end_abandoned() noexcept {
  for (RegionScope*& region = innermost();
       region != nullptr && region->is_abandoned() && region->may_end();) {
    const std::shared_ptr<void> ended = std::move(region->abandoned_);
  }
}

}  // namespace reprise::engine_internal
