// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The policy that with_state() makes.
#ifndef REPRISE_POLICIES_MATCHING_STATEFUL_POLICY_H_
#define REPRISE_POLICIES_MATCHING_STATEFUL_POLICY_H_

#include <concepts>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

#include "reprise/policies/checkpoint_policy.h"

namespace reprise::policies_internal {

template <class State, class F>
class StatefulPolicy final : public Policy {
 public:
  StatefulPolicy(State initial, F decide)
      : initial_(std::move(initial)), state_(initial_), decide_(std::move(decide)) {}

  PolicyAnswer decide(const PolicyContext& context) override {
    if constexpr (std::same_as<std::invoke_result_t<F&, State&, const PolicyContext&>, bool>) {
      return std::invoke(decide_, state_, context) ? CheckpointPolicy::MUST_SAVE
                                                   : CheckpointPolicy::PREFER_RECOMPUTE;
    } else {
      return std::invoke(decide_, state_, context);
    }
  }

  std::shared_ptr<Policy> begin_region() override {
    return std::make_shared<StatefulPolicy>(initial_, decide_);
  }

 private:
  const State initial_;
  State state_;
  F decide_;
};

}  // namespace reprise::policies_internal

#endif  // REPRISE_POLICIES_MATCHING_STATEFUL_POLICY_H_
