// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/planner/chain/region_chain.h"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <limits>

namespace reprise::planner_internal {
namespace {

constexpr std::int64_t kNoCut = std::numeric_limits<std::int64_t>::max();

class ChainBuilder {
 public:
  ChainBuilder(const Trace& trace, const TraceFacts& facts, const ChainShape& shape)
      : trace_(trace), facts_(facts), shape_(shape), last_read_(trace.values.size(), kNone) {}

  RegionChain build() {
    find_free();
    find_last_reads();
    find_pinned();
    const std::vector<OperatorId> cuts = thin_out(local_minima(crossing_bytes()));
    make_regions(cuts);
    assign_backward();
    return std::move(chain_);
  }

 private:
  ValueId values() const { return static_cast<ValueId>(trace_.values.size()); }
  bool is_made_in_forward(ValueId value) const {
    return facts_.producer[value] != kNone && facts_.producer[value] < trace_.backward_begin;
  }

  void find_free() {
    chain_.is_free.resize(trace_.values.size());
    for (ValueId value = 0; value < values(); ++value) {
      const OperatorId released = trace_.values[value].released;
      chain_.is_free[value] =
          !is_made_in_forward(value) || released == kNone || released >= trace_.backward_begin;
    }
  }

  // Only of values that may be recomputed.
  void find_last_reads() {
    std::vector<bool> is_needed(trace_.values.size());
    for (auto op = static_cast<OperatorId>(trace_.operators.size()) - 1; op >= 0; --op) {
      const planner::Operator& each = trace_.operators[op];
      const auto is_result_needed = [&](ValueId value) {
        return is_needed[value] && !chain_.is_free[value];
      };
      if (op >= trace_.backward_begin ||
          std::any_of(each.results.begin(), each.results.end(), is_result_needed)) {
        for (const ValueId value : each.reads) {
          is_needed[value] = true;
        }
      }
    }
    for (OperatorId op = 0; op < trace_.backward_begin; ++op) {
      for (const ValueId value : trace_.operators[op].reads) {
        last_read_[value] = is_needed[value] ? op : kNone;
      }
    }
  }

  void find_pinned() {
    chain_.is_pinned.resize(trace_.values.size());
    for (ValueId value = 0; value < values(); ++value) {
      if (!is_made_in_forward(value) || trace_.values[value].released == kNone) {
        continue;
      }
      const OperatorId producer = facts_.producer[value];
      const bool is_long = last_read_[value] - producer > shape_.longest_span &&
                           facts_.overwriter[value] == kNone && !chain_.is_free[value];
      chain_.is_pinned[value] = is_long || !trace_.operators[producer].can_recompute;
    }
  }

  // By position: before the operator of that number. A value that is overwritten cannot be kept.
  std::vector<std::int64_t> crossing_bytes() const {
    const auto positions = static_cast<std::size_t>(trace_.backward_begin) + 1;
    std::vector<std::int64_t> change(positions + 1);
    std::vector<std::int32_t> forbidden(positions + 1);
    for (ValueId value = 0; value < values(); ++value) {
      if (!chain_.must_be_kept(value) || last_read_[value] == kNone) {
        continue;
      }
      const OperatorId first = facts_.producer[value] + 1;
      const OperatorId end = last_read_[value] + 1;
      change[first] += trace_.values[value].bytes;
      change[end] -= trace_.values[value].bytes;
      forbidden[first] += facts_.overwriter[value] == kNone ? 0 : 1;
      forbidden[end] -= facts_.overwriter[value] == kNone ? 0 : 1;
    }
    std::vector<std::int64_t> bytes(positions);
    std::int64_t sum = 0;
    std::int32_t reasons = 0;
    for (std::size_t position = 0; position < positions; ++position) {
      sum += change[position];
      reasons += forbidden[position];
      const bool is_inside = position > 0 && position + 1 < positions;
      bytes[position] = is_inside && reasons == 0 ? sum : kNoCut;
    }
    return bytes;
  }

  struct Candidate {
    OperatorId position = 0;
    std::int64_t bytes = 0;
  };

  std::vector<Candidate> local_minima(const std::vector<std::int64_t>& bytes) const {
    std::vector<Candidate> minima;
    const auto positions = static_cast<OperatorId>(bytes.size());
    // Of the positions in the window, those whose bytes rise: the first has the least.
    std::deque<OperatorId> rising;
    OperatorId end = 0;  // of the window
    for (OperatorId position = 1; position + 1 < positions; ++position) {
      for (; end < std::min(positions, position + shape_.window + 1); ++end) {
        while (!rising.empty() && bytes[rising.back()] >= bytes[end]) {
          rising.pop_back();
        }
        rising.push_back(end);
      }
      while (rising.front() < position - shape_.window) {
        rising.pop_front();
      }
      if (bytes[position] != kNoCut && bytes[position] <= bytes[rising.front()]) {
        minima.push_back({position, bytes[position]});
      }
    }
    return minima;
  }

  // Keeps the best candidate of each of at most so many stretches with equal numbers of candidates.
  std::vector<OperatorId> thin_out(const std::vector<Candidate>& candidates) const {
    std::vector<OperatorId> cuts;
    const std::size_t stretches = std::min<std::size_t>(candidates.size(), shape_.most_regions - 1);
    for (std::size_t stretch = 0; stretch < stretches; ++stretch) {
      const auto limit = [&](std::size_t number) {
        return candidates.begin() +
               static_cast<std::ptrdiff_t>(candidates.size() * number / stretches);
      };
      const auto first = limit(stretch);
      const auto end = limit(stretch + 1);
      cuts.push_back(std::min_element(first, end, [](const Candidate& a, const Candidate& b) {
                       return a.bytes < b.bytes;
                     })->position);
    }
    return cuts;
  }

  void make_regions(const std::vector<OperatorId>& cuts) {
    chain_.regions.resize(cuts.size() + 1);
    for (std::size_t i = 0; i < chain_.regions.size(); ++i) {
      chain_.regions[i].begin = i == 0 ? 0 : cuts[i - 1];
      chain_.regions[i].end = i == cuts.size() ? trace_.backward_begin : cuts[i];
    }
    chain_.region_of.assign(trace_.values.size(), kNone);
    for (ValueId value = 0; value < values(); ++value) {
      if (!is_made_in_forward(value)) {
        continue;
      }
      const OperatorId producer = facts_.producer[value];
      const auto after = std::upper_bound(cuts.begin(), cuts.end(), producer);
      const auto region = static_cast<RegionId>(after - cuts.begin());
      chain_.region_of[value] = region;
      for (std::size_t later = region + 1;
           chain_.must_be_kept(value) && later < chain_.regions.size() &&
           chain_.regions[later].begin <= last_read_[value];
           ++later) {
        chain_.regions[later].inputs.push_back(value);
      }
    }
  }

  // Returns the latest region that `op` of backward can belong to: one that makes what it reads, or
  // the one after it if that has all of it as inputs.
  RegionId latest_region(OperatorId op) const {
    RegionId region = kNone;
    for (const ValueId value : trace_.operators[op].reads) {
      region = chain_.must_be_kept(value) ? std::max(region, chain_.region_of[value]) : region;
    }
    const auto last = static_cast<RegionId>(chain_.regions.size()) - 1;
    if (region == kNone || region == last) {
      return last;
    }
    const std::vector<ValueId>& inputs = chain_.regions[region + 1].inputs;
    const std::vector<ValueId>& reads = trace_.operators[op].reads;
    const bool is_later = std::all_of(reads.begin(), reads.end(), [&](ValueId value) {
      return !chain_.must_be_kept(value) || std::binary_search(inputs.begin(), inputs.end(), value);
    });
    return is_later ? region + 1 : region;
  }

  void assign_backward() {
    auto region = static_cast<RegionId>(chain_.regions.size()) - 1;
    chain_.regions[region].backward_begin = trace_.backward_begin;
    const auto end = static_cast<OperatorId>(trace_.operators.size());
    for (OperatorId op = trace_.backward_begin; op < end; ++op) {
      for (const RegionId latest = latest_region(op); region > latest; --region) {
        chain_.regions[region].backward_end = op;
        chain_.regions[region - 1].backward_begin = op;
      }
    }
    for (; region >= 0; --region) {
      chain_.regions[region].backward_end = end;
      if (region > 0) {
        chain_.regions[region - 1].backward_begin = end;
      }
    }
  }

  const Trace& trace_;
  const TraceFacts& facts_;
  const ChainShape shape_;
  std::vector<OperatorId> last_read_;  // by value, in forward
  RegionChain chain_;
};

}  // namespace

RegionChain cut_into_regions(const Trace& trace, const TraceFacts& facts, const ChainShape& shape) {
  return ChainBuilder(trace, facts, shape).build();
}

}  // namespace reprise::planner_internal
