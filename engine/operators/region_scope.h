// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The regions whose forward runs on this thread, innermost first.
//
// Note [Abandoned regions]: a region's state on its thread can be removed on that thread only, and
// in reverse order only. A region that is ended otherwise (a CheckpointScope before one that was
// begun inside it, or on another thread) is abandoned: its frame refuses to replay, and it stays in
// effect until it is innermost on its thread and that thread reaches the end of the region inside,
// or an operator.
#ifndef REPRISE_ENGINE_OPERATORS_REGION_SCOPE_H_
#define REPRISE_ENGINE_OPERATORS_REGION_SCOPE_H_

#include <atomic>
#include <memory>
#include <string>

namespace reprise::engine_internal {

class OperatorInterceptor;
class PolicyRegion;

class RegionScope {
 public:
  // policy_region: null without a policy. Both must outlive this.
  RegionScope(const std::string& name, PolicyRegion* policy_region);
  ~RegionScope();
  RegionScope(const RegionScope&) = delete;
  RegionScope& operator=(const RegionScope&) = delete;

  // Returns the innermost region, or null.
  static const RegionScope* current() noexcept;
  // Returns the innermost region with a policy, or null.
  static PolicyRegion* innermost_policy_region() noexcept;

  const std::string& name() const { return name_; }
  PolicyRegion* policy_region() const { return policy_region_; }

  // Returns whether the region can be ended now and here.
  bool may_end() const noexcept;
  // Returns the reason why not, as an error message that begins with the region's name.
  std::string why_not() const;
  // Destroys `region`, which holds this, when it may end. Callable on any thread.
  void abandon(std::shared_ptr<void> region) noexcept;

  bool is_abandoned() const noexcept { return is_abandoned_.load(std::memory_order_acquire); }
  // Destroys the abandoned regions of this thread that may end.
  static void end_abandoned() noexcept;

 private:
  static RegionScope*& innermost() noexcept;

  const std::string& name_;
  PolicyRegion* const policy_region_;
  RegionScope*& innermost_of_thread_;
  RegionScope* const enclosing_;
  const OperatorInterceptor* const interceptor_;
  std::shared_ptr<void> abandoned_;
  std::atomic<bool> is_abandoned_{false};
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_OPERATORS_REGION_SCOPE_H_
