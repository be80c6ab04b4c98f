// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// All methods of the search, and what they have found.
#ifndef REPRISE_PLANNER_SEARCH_PORTFOLIO_H_
#define REPRISE_PLANNER_SEARCH_PORTFOLIO_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "reprise/planner/chain/chain_planner.h"
#include "reprise/planner/search/archive.h"
#include "reprise/planner/search/eviction.h"
#include "reprise/planner/search/price_search.h"
#include "reprise/planner/search/problem.h"
#include "reprise/planner/search/retain_menu.h"
#include "reprise/planner/simulator.h"

namespace reprise::planner_internal {

class Portfolio {
 public:
  // `simulator` must outlive the portfolio.
  Portfolio(const planner::Simulator& simulator, int max_simulations);
  Portfolio(const Portfolio&) = delete;
  Portfolio& operator=(const Portfolio&) = delete;

  // Looks for plans whose peaks are at most `peak_bytes`; once for each number of bytes.
  void search(std::int64_t peak_bytes);

  // Looks for a plan with a small peak, once.
  void search_smallest();

  // Returns a lower bound on the seconds of a step with any plan that fits.
  double bound_seconds(std::int64_t peak_bytes);

  const Archive& archive() const { return archive_; }

  // Of the dynamic programme, which is set up again when it is needed.
  void release_memory() { chains_.reset(); }

 private:
  void try_starts();
  void try_chains(std::int64_t peak_bytes);
  int try_long_chain(std::int64_t peak_bytes);
  void try_binomial(std::int64_t peak_bytes);
  void find_most_checkpoints(
      std::int64_t least, std::int64_t most,
      const std::function<std::int64_t(std::int64_t checkpoints)>& excess_with) const;
  void improve(const Plan& start, std::int64_t peak_bytes, int simulations);
  void shake(std::int64_t peak_bytes, int simulations);
  std::vector<Plan> starts(std::int64_t peak_bytes) const;

  const Problem problem_;
  const RetainMenu menu_;
  Archive archive_;
  Trials trials_;
  PriceSearch prices_;
  const Eviction eviction_;
  std::optional<ChainPlanner> chains_;  // when a budget asks for them
  const bool is_quick_;                 // fewer simulations are allowed than by default
  const int max_simulations_;
  std::map<std::int64_t, double> bounds_;  // of the budgets that were searched for
  bool has_starts_ = false;
  bool has_smallest_ = false;
};

}  // namespace reprise::planner_internal

#endif  // REPRISE_PLANNER_SEARCH_PORTFOLIO_H_
