// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/policies/budget/knapsack.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <limits>
#include <optional>

namespace reprise::policies_internal {
namespace {

constexpr std::size_t kMostSteps = std::size_t{1} << 20;

// The items that may be chosen, those with the most seconds per byte first.
class Candidates {
 public:
  Candidates(std::span<const Weighted> items, std::int64_t limit_bytes)
      : items_(items), limit_bytes_(limit_bytes) {
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (items[i].seconds > 0 && items[i].bytes <= limit_bytes) {
        order_.push_back(i);
      }
    }
    std::stable_sort(order_.begin(), order_.end(), [&](std::size_t a, std::size_t b) {
      return items[a].seconds * static_cast<double>(items[b].bytes) >
             items[b].seconds * static_cast<double>(items[a].bytes);
    });
    for (const std::size_t i : order_) {
      bytes_before_.push_back(bytes_before_.back() + items[i].bytes);
      seconds_before_.push_back(seconds_before_.back() + items[i].seconds);
    }
  }

  std::size_t size() const { return order_.size(); }
  std::size_t index(std::size_t place) const { return order_[place]; }
  const Weighted& at(std::size_t place) const { return items_[order_[place]]; }
  std::int64_t limit_bytes() const { return limit_bytes_; }

  // Returns no less than the seconds of any choice that adds items from `place` on to a set of so
  // many bytes and seconds.
  double bound(std::size_t place, std::int64_t bytes, double seconds) const {
    const std::int64_t end_bytes = bytes_before_[place] + limit_bytes_ - bytes;
    const auto after = std::upper_bound(bytes_before_.begin() + static_cast<std::ptrdiff_t>(place),
                                        bytes_before_.end(), end_bytes);
    const auto whole = static_cast<std::size_t>(after - bytes_before_.begin()) - 1;
    double most = seconds + seconds_before_[whole] - seconds_before_[place];
    if (whole < size()) {
      most += at(whole).seconds * static_cast<double>(end_bytes - bytes_before_[whole]) /
              static_cast<double>(at(whole).bytes);
    }
    return most;
  }

  std::vector<bool> none() const { return std::vector<bool>(items_.size()); }

 private:
  std::span<const Weighted> items_;
  std::int64_t limit_bytes_;
  std::vector<std::size_t> order_;
  std::vector<std::int64_t> bytes_before_ = {0};  // of each place, and of the end
  std::vector<double> seconds_before_ = {0};
};

struct Exchange {
  double gain = 0;
  std::size_t out = 0;
  std::size_t in = 0;
};

Exchange best_exchange(const Candidates& candidates, const std::vector<bool>& chosen,
                       std::int64_t spare_bytes) {
  Exchange best;
  for (std::size_t in = 0; in < candidates.size(); ++in) {
    if (chosen[candidates.index(in)]) {
      continue;
    }
    for (std::size_t out = 0; out < candidates.size(); ++out) {
      const double gain = candidates.at(in).seconds - candidates.at(out).seconds;
      if (chosen[candidates.index(out)] && gain > best.gain &&
          candidates.at(in).bytes - candidates.at(out).bytes <= spare_bytes) {
        best = {gain, candidates.index(out), candidates.index(in)};
      }
    }
  }
  return best;
}

std::vector<bool> choose_greedily(const Candidates& candidates) {
  std::vector<bool> chosen = candidates.none();
  std::int64_t spare_bytes = candidates.limit_bytes();
  for (std::size_t place = 0; place < candidates.size(); ++place) {
    if (candidates.at(place).bytes <= spare_bytes) {
      chosen[candidates.index(place)] = true;
      spare_bytes -= candidates.at(place).bytes;
    }
  }
  if (const Exchange best = best_exchange(candidates, chosen, spare_bytes); best.gain > 0) {
    chosen[best.out] = false;
    chosen[best.in] = true;
  }
  return chosen;
}

double seconds_of(std::span<const Weighted> items, const std::vector<bool>& chosen) {
  double seconds = 0;
  for (std::size_t i = 0; i < items.size(); ++i) {
    seconds += chosen[i] ? items[i].seconds : 0;
  }
  return seconds;
}

// See Note [Knapsack].
class Search {
 public:
  Search(const Candidates& candidates, double known_seconds)
      : candidates_(candidates), best_seconds_(known_seconds) {}

  // Returns nothing if it takes too many steps.
  std::optional<std::vector<bool>> run() {
    sets_.push_back({});
    front_.push_back(0);
    std::size_t steps = 0;
    for (std::size_t place = 0; place < candidates_.size(); ++place) {
      steps += front_.size();
      if (steps > kMostSteps) {
        return std::nullopt;
      }
      merge(extend(place), place + 1);
    }
    return front_.empty() ? std::nullopt : std::optional(items_of(front_.back()));
  }

 private:
  // A set of items: another one, and the item in `place`.
  struct Set {
    std::int64_t bytes = 0;
    double seconds = 0;
    std::uint32_t rest = 0;
    std::uint32_t place = kNoPlace;
  };
  static constexpr std::uint32_t kNoPlace = std::numeric_limits<std::uint32_t>::max();

  std::vector<std::uint32_t> extend(std::size_t place) {
    const Weighted& item = candidates_.at(place);
    std::vector<std::uint32_t> larger;
    for (const std::uint32_t rest : front_) {
      const Set set = {sets_[rest].bytes + item.bytes, sets_[rest].seconds + item.seconds, rest,
                       static_cast<std::uint32_t>(place)};
      if (set.bytes <= candidates_.limit_bytes() && may_win(set, place + 1)) {
        best_seconds_ = std::max(best_seconds_, set.seconds);
        larger.push_back(static_cast<std::uint32_t>(sets_.size()));
        sets_.push_back(set);
      }
    }
    return larger;
  }

  void merge(const std::vector<std::uint32_t>& larger, std::size_t next_place) {
    std::vector<std::uint32_t> all;
    std::merge(front_.begin(), front_.end(), larger.begin(), larger.end(), std::back_inserter(all),
               [this](std::uint32_t a, std::uint32_t b) {
                 const Set& one = sets_[a];
                 const Set& other = sets_[b];
                 return one.bytes != other.bytes ? one.bytes < other.bytes
                                                 : one.seconds > other.seconds;
               });
    front_.clear();
    for (const std::uint32_t set : all) {
      const bool is_dominated =
          !front_.empty() && sets_[front_.back()].seconds >= sets_[set].seconds;
      if (!is_dominated && may_win(sets_[set], next_place)) {
        front_.push_back(set);
      }
    }
  }

  bool may_win(const Set& set, std::size_t next_place) const {
    constexpr double kRounding = 1e-9;  // sums of another order
    return candidates_.bound(next_place, set.bytes, set.seconds) * (1 + kRounding) >= best_seconds_;
  }

  std::vector<bool> items_of(std::uint32_t set) const {
    std::vector<bool> chosen = candidates_.none();
    for (; sets_[set].place != kNoPlace; set = sets_[set].rest) {
      chosen[candidates_.index(sets_[set].place)] = true;
    }
    return chosen;
  }

  const Candidates& candidates_;
  double best_seconds_;
  std::vector<Set> sets_;
  std::vector<std::uint32_t> front_;  // more bytes, more seconds
};

}  // namespace

std::vector<bool> most_seconds_within(std::span<const Weighted> items, std::int64_t limit_bytes) {
  const Candidates candidates(items, limit_bytes);
  std::vector<bool> greedy = choose_greedily(candidates);
  auto found = Search(candidates, seconds_of(items, greedy)).run();
  return found ? *std::move(found) : greedy;
}

std::vector<bool> greedy_seconds_within(std::span<const Weighted> items, std::int64_t limit_bytes) {
  return choose_greedily(Candidates(items, limit_bytes));
}

}  // namespace reprise::policies_internal
