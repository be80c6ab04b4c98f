// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/planner/chain/binomial_schedule.h"

#include <algorithm>
#include <cstddef>
#include <limits>

namespace reprise::planner_internal {
namespace {

// binomial(n, k), or `most` if that is less.
std::int64_t binomial(std::int64_t n, std::int64_t k, std::int64_t most) {
  std::int64_t result = 1;
  k = std::min(k, n - k);
  for (std::int64_t i = 1; i <= k; ++i) {
    result = result * (n - k + i) / i;
    if (result >= most) {
      return most;
    }
  }
  return k < 0 ? 0 : result;
}

// Returns how often each of so many regions is run again at most. checkpoints: one or more, with
// that of the first region.
std::int64_t repeats_of(std::int64_t regions, std::int64_t checkpoints) {
  if (checkpoints == 1) {
    return regions - 1;
  }
  std::int64_t repeats = 1;
  while (binomial(checkpoints + repeats, checkpoints, regions + 1) < regions) {
    ++repeats;
  }
  return repeats;
}

// Returns how many regions of a stretch come in front of the next checkpoint.
std::int64_t regions_in_front(std::int64_t regions, std::int64_t checkpoints) {
  const std::int64_t most = regions + 1;
  const std::int64_t repeats = repeats_of(regions, checkpoints);
  const std::int64_t least = binomial(checkpoints + repeats - 2, checkpoints, most);
  const std::int64_t behind = binomial(checkpoints - 1 + repeats, checkpoints - 1, most);
  return std::clamp<std::int64_t>(std::max(least, regions - behind), 1, regions - 1);
}

class Scheduler {
 public:
  explicit Scheduler(const BinomialChain& chain)
      : chain_(chain), size_(static_cast<RegionId>(chain.seconds.size())), since_(size_) {
    for (RegionId region = 0; region < size_; ++region) {
      since_[region] = region;
      seconds_before_.push_back(seconds_before_.back() + chain.seconds[region]);
      last_kept_.push_back(chain.may_be_kept[region] || region == 0 ? region : last_kept_.back());
    }
  }

  std::vector<RegionId> schedule(const std::vector<BinomialStretch>& stretches) {
    for (const BinomialStretch& stretch : stretches) {
      since_[stretch.begin] = stretch.begin == 0 ? 0 : size_;
    }
    pending_ = stretches;
    while (!pending_.empty()) {
      const BinomialStretch stretch = pending_.back();
      pending_.pop_back();
      split(stretch);
    }
    return std::move(since_);
  }

 private:
  void split(const BinomialStretch& stretch) {
    if (stretch.end - stretch.begin < 2 || stretch.checkpoints < 2) {
      return;
    }
    const RegionId ideal = middle(stretch);
    const RegionId at = stretch.is_forward ? nearest_kept(stretch, ideal) : ideal;
    if (at == kNone) {
      pending_.push_back({stretch.begin, stretch.end, stretch.checkpoints, false});
      return;
    }
    since_[at] = stretch.is_forward ? size_ : stretch.end - 1;
    pending_.push_back({at, stretch.end, stretch.checkpoints - 1, stretch.is_forward});
    pending_.push_back({stretch.begin, at, stretch.checkpoints, false});
  }

  RegionId middle(const BinomialStretch& stretch) const {
    const std::int64_t regions = stretch.end - stretch.begin;
    const auto part = static_cast<double>(regions_in_front(regions, stretch.checkpoints)) /
                      static_cast<double>(regions);
    const double first = seconds_before_[stretch.begin];
    const double seconds = first + part * (seconds_before_[stretch.end] - first);
    const double rounding = 1e-9 * seconds;
    const auto found =
        std::lower_bound(seconds_before_.begin(), seconds_before_.end(), seconds - rounding);
    return std::clamp(static_cast<RegionId>(found - seconds_before_.begin()), stretch.begin + 1,
                      stretch.end - 1);
  }

  // Returns none if there is none inside the stretch.
  RegionId nearest_kept(const BinomialStretch& stretch, RegionId ideal) const {
    const RegionId before = last_kept_[ideal];
    RegionId after = ideal;
    while (after < stretch.end && !chain_.may_be_kept[after]) {
      ++after;
    }
    const bool has_before = before > stretch.begin && chain_.may_be_kept[before];
    const bool has_after = after < stretch.end;
    if (has_before && has_after) {
      return ideal - before <= after - ideal ? before : after;
    }
    return has_before ? before : has_after ? after : kNone;
  }

  const BinomialChain& chain_;
  const RegionId size_;
  std::vector<RegionId> since_;
  std::vector<double> seconds_before_{0};
  std::vector<RegionId> last_kept_;  // by region: the last one up to it that may be kept
  std::vector<BinomialStretch> pending_;
};

}  // namespace

std::vector<RegionId> binomial_schedule(const BinomialChain& chain,
                                        const std::vector<BinomialStretch>& stretches) {
  return Scheduler(chain).schedule(stretches);
}

std::vector<RegionId> binomial_schedule(const BinomialChain& chain, std::int64_t checkpoints) {
  const auto regions = static_cast<RegionId>(chain.seconds.size());
  return binomial_schedule(chain, {{0, regions, checkpoints + 1, true}});
}

std::int64_t sweeps_of_chain(std::int64_t regions, std::int64_t checkpoints) {
  return repeats_of(regions, checkpoints + 1);
}

// One region more is swept over as often as any of the stretch.
std::vector<double> swept_regions(std::int64_t regions, std::int64_t checkpoints,
                                  std::int64_t most_sweeps) {
  std::vector<double> swept(regions + 1);
  std::int64_t sweeps = 0;
  std::int64_t reversed = 1;  // with that many sweeps
  for (std::int64_t size = 2; size <= regions; ++size) {
    if (size > reversed) {
      ++sweeps;
      reversed = binomial(checkpoints + sweeps, checkpoints, regions + 1);
    }
    swept[size] = sweeps <= most_sweeps ? swept[size - 1] + static_cast<double>(sweeps)
                                        : std::numeric_limits<double>::infinity();
  }
  return swept;
}

}  // namespace reprise::planner_internal
