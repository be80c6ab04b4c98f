// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/budget/smallest_budget.h"

#include <c10/util/StringUtil.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "reprise/engine/budget/step_planner.h"
#include "reprise/planner/explain.h"
#include "reprise/planner/planner.h"

namespace reprise::engine_internal {
namespace {

std::atomic<std::int64_t> g_most_reruns = 100;

}  // namespace

std::int64_t most_reruns() { return g_most_reruns; }

void set_most_reruns(std::int64_t count) { g_most_reruns = count; }

std::optional<SmallestBudget> find_smallest_budget(const planner::Trace& trace,
                                                   std::vector<planner::StoreOption> stores,
                                                   bool is_estimate) {
  planner::Planner planner(trace, {.stores = std::move(stores)});
  const std::optional<planner::Solution> smallest = smallest_peak_of(planner);
  if (!smallest) {
    return std::nullopt;
  }
  const std::int64_t before = trace.bytes_before_step();
  return SmallestBudget{.growth = smallest->simulation.peak_bytes - before,
                        .least_growth = planner.least_peak_bytes() - before,
                        .is_estimate = is_estimate,
                        .peak = planner::explain_peak(planner.simulator(), smallest->plan)};
}

namespace {

std::string remedy(const Shortage& shortage) {
  return shortage.limit.is_share()
             ? "Use a smaller batch, or make more memory available: the limit "
               "is by " +
                   shortage.limit.source
             : "Use a smaller batch, or raise peak_bytes";
}

std::string smallest_budget_text(const Shortage& shortage,
                                 const std::optional<SmallestBudget>& smallest) {
  if (!smallest) {
    return shortage.reruns > 0
               ? ""
               : c10::str("Forward up to this operator needs a budget of ",
                          shortage.bytes_in_use + shortage.bytes,
                          " bytes, a lower bound: the rest of forward, and backward, may need "
                          "more. The smallest budget is known when backward begins. ");
  }
  // What an estimate of backward has left out shows where the step fails.
  const std::int64_t needed =
      smallest->is_estimate ? shortage.bytes_in_use + shortage.bytes : std::int64_t{0};
  const std::int64_t bytes = std::max(shortage.bytes_before_step + smallest->growth, needed);
  const std::int64_t least_bytes = shortage.bytes_before_step + smallest->least_growth;
  const std::string numbers =
      c10::str(bytes, " bytes", smallest->is_estimate ? ", as far as backward is known" : "",
               "; no plan holds one below ", least_bytes, " bytes. ");
  if (bytes <= shortage.limit.bytes) {
    return c10::str("A plan holds a budget of ", numbers,
                    "Run the step again, which follows a plan from its beginning. If that fails as "
                    "well, code outside of the step has allocated the rest. ");
  }
  return c10::str("The smallest budget that a plan holds is ", numbers, smallest->peak);
}

}  // namespace

std::string shortage_message(const Shortage& shortage,
                             const std::optional<SmallestBudget>& smallest) {
  const std::string cause =
      shortage.reruns > 0
          ? c10::str(shortage.reruns, " operators have run again, over ", most_reruns(),
                     " times as many as forward has, to stay within ", shortage.limit.bytes,
                     " bytes")
          : c10::str(shortage.bytes, " bytes are asked for, ", shortage.bytes_in_use,
                     " bytes are in use, the budget is ", shortage.limit.bytes,
                     " bytes, and nothing that is in use could be computed again");
  return c10::str(
      "[memory_budget] a step does not fit into its budget: ", cause, ". ",
      shortage.bytes_before_step, " bytes were in use when the step began. ",
      smallest_budget_text(shortage, smallest), remedy(shortage),
      shortage.has_found_rewritten
          ? ". The program has written, since forward, to memory that forward has read, "
            "so that less can be computed again than in later steps, which keep what they "
            "read there: run the step again"
          : "");
}

}  // namespace reprise::engine_internal
