// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Which operators run again, and for how long, if each runs again at most once: an estimate of a
// plan's time that takes a change in no more time than the operators that the change concerns.
#ifndef REPRISE_PLANNER_SEARCH_RERUNS_H_
#define REPRISE_PLANNER_SEARCH_RERUNS_H_

#include <cstdint>
#include <vector>

#include "reprise/planner/search/problem.h"

namespace reprise::planner_internal {

class Reruns {
 public:
  Reruns(const Problem& problem, const Plan& plan);

  // Of the operators that run again; infinity if one of them must not.
  double seconds() const;

  bool is_retained(ValueId value) const { return is_retained_[value]; }
  // Backward reads it, or an operator that runs again.
  bool is_needed(ValueId value) const { return needs_[value] > 0; }

  void set_retained(ValueId value, bool is_retained);

  // Returns by how much seconds() would change if `value` were retained, or no longer were.
  double change_if_toggled(ValueId value);

  // Returns the time to make `value` from what is retained, if nothing else is there; less than it
  // if that takes hundreds of operators.
  double seconds_to_make(ValueId value);

 private:
  struct Step {
    ValueId value;
    bool is_needed;  // by one more, or by one less
  };
  void settle();
  void need_producer(ValueId value, bool is_needed);

  const Problem& problem_;
  std::vector<bool> is_retained_;              // by value
  std::vector<std::int32_t> needs_;            // by value: what needs it
  std::vector<std::int32_t> missing_results_;  // by operator: its results that it runs again for
  std::vector<Step> pending_;
  std::vector<std::int32_t> visited_in_;  // by operator
  std::int32_t visit_ = 0;
  double seconds_ = 0;
  int impossible_ = 0;  // operators that run again and must not
};

}  // namespace reprise::planner_internal

#endif  // REPRISE_PLANNER_SEARCH_RERUNS_H_
