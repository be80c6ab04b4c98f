// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// A share of the time that passes.
#ifndef REPRISE_HOOKS_COMPRESSION_TIME_BUDGET_H_
#define REPRISE_HOOKS_COMPRESSION_TIME_BUDGET_H_

#include <algorithm>
#include <chrono>
#include <mutex>

namespace reprise::hooks_internal {

// The credit grows by `share` of the time that passes, up to the share of one second, with which it
// starts. (A token bucket.) Thread-safe.
class TimeBudget {
 public:
  using Clock = std::chrono::steady_clock;
  using Seconds = std::chrono::duration<double>;

  // share: at least 0; with infinity there is always credit.
  TimeBudget(double share, Clock::time_point now) : share_(share), credit_(share), last_(now) {}

  bool is_unlimited() const { return share_ > 1e300; }

  // Returns false after more was spent than the share; with a share of 0, after anything was.
  bool has_credit(Clock::time_point now) {
    const std::lock_guard lock(mutex_);
    grow(now);
    return is_unlimited() || credit_ >= Seconds(0);
  }
  void spend(Seconds time, Clock::time_point now) {
    const std::lock_guard lock(mutex_);
    grow(now);
    credit_ -= time;
  }

 private:
  void grow(Clock::time_point now) {
    if (!is_unlimited() && now > last_) {
      credit_ = std::min(credit_ + share_ * Seconds(now - last_), Seconds(share_));
      last_ = now;
    }
  }

  const double share_;
  std::mutex mutex_;
  Seconds credit_;
  Clock::time_point last_;
};

}  // namespace reprise::hooks_internal

#endif  // REPRISE_HOOKS_COMPRESSION_TIME_BUDGET_H_
