// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/planner/memory_timeline.h"

#include <algorithm>

namespace reprise::planner {

MemoryTimeline memory_timeline(const Simulator& simulator, const Plan& plan) {
  MemoryTimeline timeline{.moments = {}, .residences = simulator.residences(plan), .peak = 0};
  const std::vector<ScheduledRun> schedule = simulator.schedule(plan);
  std::array<std::vector<std::int64_t>, kMemoryClasses> changes;
  for (std::vector<std::int64_t>& of_class : changes) {
    of_class.resize(schedule.size() + 1);
  }
  for (const Residence& each : timeline.residences) {
    std::vector<std::int64_t>& of_class = changes[static_cast<std::size_t>(each.memory_class)];
    of_class[each.first_run] += each.bytes;
    of_class[each.last_run + 1] -= each.bytes;
  }
  std::array<std::int64_t, kMemoryClasses> live{};
  double now = 0;
  for (std::size_t i = 0; i < schedule.size(); ++i) {
    for (std::size_t memory_class = 0; memory_class < kMemoryClasses; ++memory_class) {
      live[memory_class] += changes[memory_class][i];
    }
    MemoryMoment moment{.op = schedule[i].op,
                        .requested_by = schedule[i].requested_by,
                        .begin_seconds = now,
                        .end_seconds = now + simulator.trace().operators[schedule[i].op].seconds,
                        .bytes = live};
    moment.bytes[static_cast<std::size_t>(MemoryClass::kWorkspace)] = schedule[i].workspace_bytes;
    now = moment.end_seconds;
    timeline.moments.push_back(moment);
  }
  const auto peak = std::max_element(timeline.moments.begin(), timeline.moments.end(),
                                     [](const MemoryMoment& a, const MemoryMoment& b) {
                                       return a.total_bytes() < b.total_bytes();
                                     });
  timeline.peak = static_cast<std::size_t>(peak - timeline.moments.begin());
  return timeline;
}

}  // namespace reprise::planner
