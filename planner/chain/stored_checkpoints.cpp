// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/planner/chain/stored_checkpoints.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>

namespace reprise::planner_internal {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr std::int64_t kStepsPerStretch = 32;  // between inputs that are considered
constexpr std::int64_t kLongestStretch = 3;    // in stretches of the usual length

std::vector<double> sums_before(const std::vector<double>& values) {
  std::vector<double> sums{0};
  for (const double value : values) {
    sums.push_back(sums.back() + value);
  }
  return sums;
}

class Search {
 public:
  Search(const BinomialChain& chain, const InputCopies& copies, std::int64_t checkpoints,
         double byte_price, std::int64_t most_sweeps)
      : chain_(chain),
        copies_(copies),
        checkpoints_(checkpoints),
        byte_price_(byte_price),
        regions_(static_cast<RegionId>(chain.seconds.size())),
        seconds_before_(sums_before(chain.seconds)),
        forward_before_(sums_before(copies.forward_seconds)),
        swept_(swept_regions(regions_, checkpoints, most_sweeps)),
        swept_from_input_(swept_regions(regions_, checkpoints + 1, most_sweeps)) {}

  StoredCheckpoints find() {
    const std::int64_t usual = usual_stretch();
    if (usual == 0) {
      return {};
    }
    add_places(usual);
    find_costs(kLongestStretch * usual);
    return best();
  }

 private:
  // The end of a stretch.
  struct Place {
    RegionId region = 0;
    double cost = kInfinite;    // of all regions in front of it
    std::size_t begins_at = 0;  // the place at which the stretch in front of it begins
  };

  // Of the inputs of one region.
  struct Copies {
    double put_seconds = 0;
    double get_seconds = 0;
    double bytes = 0;
  };
  Copies copies_of(RegionId region) const {
    return {copies_.put_seconds[region], copies_.get_seconds[region], copies_.bytes[region]};
  }

  bool can_be_stored(RegionId region) const {
    return chain_.may_be_kept[region] && copies_.put_seconds[region] < kInfinite;
  }

  // Seconds that copies of the inputs of a stretch take from the computation: `forward` of it, and
  // `backward`. Copies beside the computation that take longer than forward
  // of a stretch would pile up in memory.
  double copy_seconds(const Copies& inputs, double forward, double backward) const {
    const double price = byte_price_ * inputs.bytes;
    if (!copies_.is_overlapped) {
      return inputs.put_seconds + inputs.get_seconds + price;
    }
    return inputs.put_seconds <= forward ? std::max(0.0, inputs.get_seconds - backward) + price
                                         : kInfinite;
  }

  double transfer(RegionId region) const {
    return copies_.put_seconds[region] + copies_.get_seconds[region] +
           byte_price_ * copies_.bytes[region];
  }

  static double share(double swept, double seconds, std::int64_t regions) {
    return swept == kInfinite ? kInfinite : swept * seconds / static_cast<double>(regions);
  }
  double stretch_seconds(RegionId begin, RegionId end, const std::vector<double>& swept) const {
    return share(swept[end - begin], seconds_before_[end] - seconds_before_[begin], end - begin);
  }
  double stored_stretch_seconds(RegionId begin, RegionId end) const {
    const double again = stretch_seconds(begin, end, swept_);
    const double forward = forward_before_[end] - forward_before_[begin];
    return again + copy_seconds(copies_of(begin), forward, forward + again);
  }
  // The regions from `begin` to the end, with its inputs in memory.
  double last_seconds(RegionId begin) const {
    const std::int64_t size = regions_ - begin;
    return share(swept_[size] - static_cast<double>(size - 1),
                 seconds_before_[regions_] - seconds_before_[begin], size);
  }

  // Returns the length at which a region of average time costs the least; none if nothing can be
  // stored.
  std::int64_t usual_stretch() const {
    std::int64_t best_size = 0;
    double best = kInfinite;
    const std::optional<Copies> average = average_copies();
    for (std::int64_t size = 1; average && size < regions_; ++size) {
      const auto length = static_cast<double>(size);
      const double again = swept_[size] * seconds_before_[regions_] / regions_;
      const double forward = length * forward_before_[regions_] / regions_;
      const double cost = (again + copy_seconds(*average, forward, forward + again)) / length;
      if (cost < best) {
        best = cost;
        best_size = size;
      }
    }
    return best_size;
  }

  // Of the regions whose inputs can be stored.
  std::optional<Copies> average_copies() const {
    double put = 0;
    double get = 0;
    double bytes = 0;
    double count = 0;
    for (RegionId region = 1; region < regions_; ++region) {
      if (can_be_stored(region)) {
        put += copies_.put_seconds[region];
        get += copies_.get_seconds[region];
        bytes += copies_.bytes[region];
        ++count;
      }
    }
    if (count == 0) {
      return std::nullopt;
    }
    return Copies{put / count, get / count, bytes / count};
  }

  // Of each few regions the one whose inputs cost the least.
  void add_places(std::int64_t usual) {
    places_.push_back({.region = 0, .cost = 0});
    const std::int64_t parts = std::min(usual, kStepsPerStretch);
    const auto limit = [&](std::int64_t number) {
      return static_cast<RegionId>(
          std::min<std::int64_t>(regions_, 1 + (number * usual + parts - 1) / parts));
    };
    for (std::int64_t number = 0; limit(number) < regions_; ++number) {
      RegionId cheapest = kNone;
      for (RegionId region = limit(number + 1) - 1; region >= limit(number); --region) {
        const bool is_cheaper = cheapest == kNone || transfer(region) <= transfer(cheapest);
        cheapest = can_be_stored(region) && is_cheaper ? region : cheapest;
      }
      if (cheapest != kNone) {
        places_.push_back({.region = cheapest});
      }
    }
    places_.push_back({.region = regions_});
  }

  void find_costs(std::int64_t longest) {
    std::size_t first = 1;  // from which a stretch is not too long
    for (std::size_t j = 1; j < places_.size(); ++j) {
      Place& end = places_[j];
      end.cost = stretch_seconds(0, end.region, swept_from_input_);
      while (first < j && end.region - places_[first].region > longest) {
        ++first;
      }
      for (std::size_t i = first; i < j; ++i) {
        const double cost = places_[i].cost + stored_stretch_seconds(places_[i].region, end.region);
        if (cost < end.cost) {
          end.cost = cost;
          end.begins_at = i;
        }
      }
    }
  }

  StoredCheckpoints best() const {
    std::size_t last = places_.size() - 1;
    double least = places_[last].cost;
    for (std::size_t i = 1; i + 1 < places_.size(); ++i) {
      const double cost = places_[i].cost + last_seconds(places_[i].region);
      if (cost < least) {
        least = cost;
        last = i;
      }
    }
    StoredCheckpoints found;
    if (least == kInfinite) {
      return found;
    }
    if (last + 1 < places_.size()) {
      const RegionId begin = places_[last].region;
      found.stretches.push_back({begin, regions_, checkpoints_, true});
      found.swept_regions += swept_[regions_ - begin];
    }
    while (last > 0) {
      const std::size_t from = places_[last].begins_at;
      add_stretch(found, places_[from].region, places_[last].region);
      last = from;
    }
    return found;
  }

  void add_stretch(StoredCheckpoints& found, RegionId begin, RegionId end) const {
    const std::int64_t checkpoints = checkpoints_ + (begin == 0 ? 1 : 0);
    found.stretches.push_back({begin, end, checkpoints, false});
    found.swept_regions += (begin == 0 ? swept_from_input_ : swept_)[end - begin];
    if (begin != 0) {
      found.stored.push_back(begin);
      found.stored_bytes += copies_.bytes[begin];
    }
  }

  const BinomialChain& chain_;
  const InputCopies& copies_;
  const std::int64_t checkpoints_;
  const double byte_price_;
  const RegionId regions_;
  const std::vector<double> seconds_before_;
  const std::vector<double> forward_before_;
  const std::vector<double> swept_;             // by regions of a stretch behind a stored input
  const std::vector<double> swept_from_input_;  // of one behind the chain's input
  std::vector<Place> places_;
};

}  // namespace

StoredCheckpoints find_stored_checkpoints(const BinomialChain& chain, const InputCopies& copies,
                                          std::int64_t checkpoints, double byte_price,
                                          std::int64_t most_sweeps) {
  return Search(chain, copies, checkpoints, byte_price, most_sweeps).find();
}

}  // namespace reprise::planner_internal
