// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "ranks.h"

#include <torch/torch.h>

#include <stdexcept>
#include <vector>

#include "options.h"
#include "reprise/partition/process_group.h"

namespace budgets_on_ranks {

Ranks meet() {
  if (!reprise::has_gloo()) {
    throw UsageError("ranks on CPUs need Gloo, which Reprise was built without");
  }
  Ranks ranks;
  try {
    ranks.group = reprise::init_process_group_from_env();
  } catch (const std::invalid_argument& error) {
    throw UsageError(error.what());
  }
  ranks.rank = ranks.group->getRank();
  ranks.size = ranks.group->getSize();
  return ranks;
}

std::int64_t largest(std::int64_t number, const Ranks& ranks) {
  std::vector<torch::Tensor> numbers = {torch::tensor({number})};
  c10d::AllreduceOptions options;
  options.reduceOp = c10d::ReduceOp::MAX;
  ranks.group->allreduce(numbers, options)->wait();
  return numbers.front().item<std::int64_t>();
}

bool on_all(bool is_true, const Ranks& ranks) { return largest(is_true ? 0 : 1, ranks) == 0; }

}  // namespace budgets_on_ranks
