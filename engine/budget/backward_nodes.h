// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Backward within budgets: what its threads report to, and the nodes that they evaluate.
#ifndef REPRISE_ENGINE_BUDGET_BACKWARD_NODES_H_
#define REPRISE_ENGINE_BUDGET_BACKWARD_NODES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "reprise/base/threading/mutex.h"
#include "reprise/planner/trace.h"

namespace reprise::engine_internal {

// From now on backwards report to the recording of the thread that calls them and, while steps
// within budgets of accelerators are in progress, to these.
void observe_backwards();

// A node of a recorded backward.
struct NodeNeeds {
  std::string name;
  std::int64_t bytes;  // of results and workspace
};
std::vector<NodeNeeds> needs_of_nodes(const planner::Trace& trace);

// Follows a backward whose nodes are known. Thread-safe.
class NodeCursor {
 public:
  // Returns what the node needs that begins now; 0 if it is not known.
  std::int64_t advance(const std::vector<NodeNeeds>& nodes, std::string_view name);
  // Returns what the last one needed.
  std::int64_t bytes() const;

 private:
  mutable Mutex mutex_;
  std::size_t next_ ABSL_GUARDED_BY(mutex_) = 0;
  std::int64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_BUDGET_BACKWARD_NODES_H_
