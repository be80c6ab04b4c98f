// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// One stage of a pipeline in 1F1B order, plain or within a memory budget over its micro-batches in
// flight. Its neighbours are ranks of a process group, or simulated.
#ifndef REPRISE_BENCH_PIPELINE_STAGE_H_
#define REPRISE_BENCH_PIPELINE_STAGE_H_

#include <torch/torch.h>

#include <cstdint>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <vector>

#include "examples/06_budgets_on_ranks/stage_links.h"
#include "reprise/engine/memory_budget.h"

namespace reprise::bench {

// Where a stage is in its pipeline: stage number n on rank n.
struct StagePlace {
  int number = 0;
  int stages = 1;

  bool is_first() const { return number == 0; }
  bool is_last() const { return number == stages - 1; }
};

// The links of the example (examples/06_budgets_on_ranks), or neighbours that are simulated.
class StageLinks {
 public:
  // group: null if neighbours are simulated: then what they would send is made here.
  // sizes: of what passes between stages.
  StageLinks(const c10::intrusive_ptr<c10d::ProcessGroup>& group, StagePlace place,
             std::vector<std::int64_t> sizes);

  const StagePlace& place() const { return place_; }
  at::Tensor receive_input(int micro_batch);
  at::Tensor receive_gradient();
  void send_output(const at::Tensor& output);
  void send_gradient(const at::Tensor& gradient);
  // Waits until the neighbours have received everything.
  void finish();

 private:
  std::optional<budgets_on_ranks::StageLinks> links_;
  StagePlace place_;
  std::vector<std::int64_t> sizes_;
};

struct StageOptions {
  int layers = 6;
  std::int64_t width = 64;
  std::int64_t rows = 256;
  int micro_batches = 6;
  int in_flight = 1;  // the most micro-batches between forward and backward
};

// What one run of the schedule has taken.
struct ScheduleRun {
  double seconds = 0;
  std::int64_t peak_bytes = 0;      // in use
  std::int64_t growth_bytes = 0;    // of these, beyond those from before
  std::vector<BudgetedStep> steps;  // by micro-batch; none without a budget
};

// Residual layers with dropout; in the last stage also the loss.
class PipelineStage {
 public:
  PipelineStage(const StageOptions& options, StageLinks links);

  // Runs forward and backward of all micro-batches, from gradients that are not defined.
  // budget: null for plain steps. All stages call this at the same time.
  ScheduleRun run(MemoryBudget* budget);

  // Returns copies of the gradients of the last run.
  std::vector<at::Tensor> gradients() const;
  void forget_gradients();

 private:
  struct MicroBatch {
    at::Tensor input;
    at::Tensor output;
  };
  at::Tensor layers(at::Tensor h) const;
  MicroBatch forward(int number, MemoryBudget* budget);
  void backward(MicroBatch micro_batch);

  StageOptions options_;
  StageLinks links_;
  std::vector<at::Tensor> weights_;
};

}  // namespace reprise::bench

#endif  // REPRISE_BENCH_PIPELINE_STAGE_H_
