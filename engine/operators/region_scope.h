// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The regions whose forward runs on this thread, innermost first.
//
// Note [Abandoned regions]: what a region sets up on its thread can be taken down on that thread
// alone, and in the reverse order alone. A region that is ended otherwise (a CheckpointScope before
// one that was made inside it, or on another thread) is abandoned: its frame refuses to replay, and
// it stays as it is until its thread comes by when it is innermost there, at the end of the region
// inside or at an operator.
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

  // The innermost region, or null.
  static const RegionScope* current() noexcept;
  // The innermost region with a policy, or null.
  static PolicyRegion* innermost_policy_region() noexcept;

  const std::string& name() const { return name_; }
  PolicyRegion* policy_region() const { return policy_region_; }

  // Whether the region can be taken down now and here.
  bool may_end() const noexcept;
  // Why not, in words for an error that begin with the region's name.
  std::string why_not() const;
  // `region`, which holds this, is to be destroyed when it may end. On any thread.
  void abandon(std::shared_ptr<void> region) noexcept;

  static bool is_innermost_abandoned() noexcept;
  // Destroys the abandoned regions of this thread that may end.
  static void end_abandoned() noexcept;

 private:
  const std::string& name_;
  PolicyRegion* const policy_region_;
  RegionScope* const enclosing_;
  RegionScope** const innermost_of_thread_;
  const OperatorInterceptor* const interceptor_;
  std::shared_ptr<void> abandoned_;
  std::atomic<bool> is_abandoned_{false};
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_OPERATORS_REGION_SCOPE_H_
