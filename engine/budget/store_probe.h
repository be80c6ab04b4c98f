// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Puts samples of a step's results into the stores that plans may use, to learn their rates.
#ifndef REPRISE_ENGINE_BUDGET_STORE_PROBE_H_
#define REPRISE_ENGINE_BUDGET_STORE_PROBE_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "reprise/engine/budget/store_rates.h"
#include "reprise/hooks/activation_store.h"

namespace reprise::engine_internal {

using Stores = std::vector<std::shared_ptr<ActivationStore>>;

// Not thread-safe.
class StoreProbe {
 public:
  // known: of earlier steps.
  StoreProbe(const Stores& stores, StoreRates known);

  // An operator has made `result`, at this position among its results. Takes a sample if more are
  // needed of its kind, and `room` bytes suffice.
  //
  // Time: up to a fraction of a second, for a store that does not take the sample.
  void look_at(const c10::OperatorHandle& op, std::size_t position, const at::Tensor& result,
               std::int64_t room);

  const StoreRates& rates() const { return rates_; }

 private:
  const Stores& stores_;
  StoreRates rates_;
  int samples_ = 0;
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_BUDGET_STORE_PROBE_H_
