// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The rates of the stores that plans may use, and how small they make the results of each kind of
// operator. Measured with samples of results.
#ifndef REPRISE_ENGINE_BUDGET_STORE_RATES_H_
#define REPRISE_ENGINE_BUDGET_STORE_RATES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "reprise/engine/budget/step_script.h"
#include "reprise/planner/format/saved_plans.h"
#include "reprise/planner/plan.h"

namespace reprise::engine_internal {

// Smaller results are not worth a copy, and many stores forward them.
inline constexpr std::int64_t kLeastStoredBytes = std::int64_t{64} << 10;

// One tensor, into a store and back.
struct StoreSample {
  std::int64_t bytes = 0;
  std::int64_t retained_bytes = 0;  // on its device meanwhile
  double call_seconds = 0;          // of put()
  double put_seconds = 0;           // until the tensor's memory could be freed
  double get_seconds = 0;
  bool needs_successor = false;  // it left when the store was given another one
  bool copies_on_device = false;

  bool is_smaller() const { return retained_bytes < bytes; }
  double seconds_per_byte() const {
    return (put_seconds + get_seconds) / static_cast<double>(bytes);
  }
};

// Of one store. Sums over the fastest sample of each kind of results that it makes smaller: others
// were delayed by something else on the machine.
struct StoreRate {
  void add(const StoreSample& sample);

  double seconds(double total) const { return bytes == 0 ? 0 : total / static_cast<double>(bytes); }
  // The store's threads copy while the computation goes on, without memory of the device.
  bool is_overlapped() const { return copies_on_device == 0 && 2 * call_seconds < put_seconds; }
  bool keeps_last() const { return needs_successor > 0; }

  std::int64_t bytes = 0;
  double call_seconds = 0;
  double put_seconds = 0;
  double get_seconds = 0;
  int needs_successor = 0;
  int copies_on_device = 0;
};

// Not thread-safe.
class StoreRates {
 public:
  explicit StoreRates(std::size_t stores) : stores_(stores) {}
  // saved: as saved() returns them, of as many stores.
  StoreRates(std::size_t stores, const std::vector<planner_internal::SavedSample>& saved);

  // Returns what is known, by kind.
  std::vector<planner_internal::SavedSample> saved() const;

  // Results of one kind are alike in stores: those of one operator, at one position.
  using Kind = std::string;
  static Kind kind_of(const c10::OperatorHandle& op, std::size_t result);

  StoreRate rate(std::size_t store) const;
  std::size_t samples(const Kind& kind) const;

  // samples: one per store.
  void add(const Kind& kind, const std::vector<StoreSample>& samples);

  // Returns the stores as a planner sees them, for the values of a trace. None if there are no
  // samples.
  std::vector<planner::StoreOption> options(const StepScript& script, std::size_t values) const;

 private:
  struct Known {
    std::size_t samples = 0;
    // By store:
    std::vector<StoreSample> fastest;
    std::vector<float> fractions;  // the greatest
  };
  std::size_t stores_;
  absl::flat_hash_map<Kind, Known> kinds_;
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_BUDGET_STORE_RATES_H_
