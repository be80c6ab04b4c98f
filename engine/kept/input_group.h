// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The inputs that a tape region inside a function region gives to the hooks around it.
//
// Note [Inputs of regions inside]: a tape region gives each tensor from outside that its operators
// read to the surrounding hooks. In a replay of the function region these may be others: a unit
// believes its weights gathered, a table exists that forward made, a counter selects another
// branch. Autograd would not notice, as it saves the same tensors in both. So the function region
// matches the inputs of one tape region with those of forward by their memory or origin, not by
// their order; an input that only one of the two runs has is no difference.
#ifndef REPRISE_ENGINE_KEPT_INPUT_GROUP_H_
#define REPRISE_ENGINE_KEPT_INPUT_GROUP_H_

#include <atomic>
#include <cstdint>

namespace reprise::engine_internal {

// The inputs of one tape region, while it gives them away on this thread.
class InputGroup {
 public:
  // Base of the hooks of a function region, in its forward or in a replay, by which the tape
  // regions inside find it: also those on threads that inherit its state.
  class Count {
   public:
    Count() = default;
    Count(const Count&) = delete;
    Count& operator=(const Count&) = delete;
    virtual ~Count() = default;

   private:
    friend class InputGroup;
    std::atomic<std::uint32_t> groups_{0};
  };

  InputGroup();
  ~InputGroup();
  InputGroup(const InputGroup&) = delete;
  InputGroup& operator=(const InputGroup&) = delete;

  // Returned by current() if no function region counts the group.
  static constexpr std::uint32_t kUncounted = 0xffffffff;

  // Returns the ordinal of this thread's group in the function region that counts it, from 1; 0 if
  // there is none.
  static std::uint32_t current() noexcept { return t_current_; }

 private:
  static constinit thread_local std::uint32_t t_current_;
  const std::uint32_t outer_;
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_KEPT_INPUT_GROUP_H_
