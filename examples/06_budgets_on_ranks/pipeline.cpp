// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "pipeline.h"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model.h"
#include "one_forward_one_backward.h"
#include "reprise/engine/cpu_memory.h"
#include "reprise/engine/memory_budget.h"
#include "stage_links.h"

namespace budgets_on_ranks {
namespace {

// Between its forward and its backward.
struct MicroBatch {
  torch::Tensor input;
  torch::Tensor output;  // of the last stage: the loss
};

class Stage {
 public:
  Stage(const Options& options, const Ranks& ranks, Form form)
      : options_(options),
        ranks_(ranks),
        form_(form),
        links_(ranks.group, {options.rows, options.width}),
        layers_(options, ranks.rank * options.layers, options.layers) {}

  std::vector<torch::Tensor> parameters() const { return layers_.parameters(); }
  // All micro-batches, whose gradients add up. Losses, of the last stage alone, go to `outcome`.
  void run_step(std::int64_t step, reprise::MemoryBudget* budget, Outcome& outcome);

 private:
  bool is_first() const { return ranks_.rank == 0; }
  bool is_last() const { return ranks_.rank == ranks_.size - 1; }
  MicroBatch forward(std::int64_t step, std::int64_t number, reprise::MemoryBudget* budget);
  void backward(MicroBatch micro_batch, Outcome& outcome);

  const Options& options_;
  const Ranks& ranks_;
  Form form_;
  StageLinks links_;
  Layers layers_;
};

MicroBatch Stage::forward(std::int64_t step, std::int64_t number, reprise::MemoryBudget* budget) {
  MicroBatch micro_batch;
  micro_batch.input = is_first() ? make_batch(options_, step, number) : links_.receive_input();
  micro_batch.input.requires_grad_(!is_first());
  seed_dropout(step, number, ranks_.rank);
  {
    std::optional<reprise::BudgetScope> scope;
    if (budget != nullptr) {
      scope.emplace(*budget);
    }
    micro_batch.output = layers_.forward(micro_batch.input, form_);
    if (is_last()) {
      micro_batch.output = loss_of(micro_batch.output);
    }
  }
  if (!is_last()) {
    links_.send_output(micro_batch.output.detach());
  }
  return micro_batch;
}

void Stage::backward(MicroBatch micro_batch, Outcome& outcome) {
  torch::Tensor gradient;
  if (is_last()) {
    outcome.losses.push_back(micro_batch.output.item<double>());
  } else {
    gradient = links_.receive_gradient();
  }
  micro_batch.output.backward(gradient);
  if (!is_first()) {
    links_.send_gradient(micro_batch.input.grad());
  }
}

void Stage::run_step(std::int64_t step, reprise::MemoryBudget* budget, Outcome& outcome) {
  const int in_flight = ranks_.size - ranks_.rank;
  std::deque<MicroBatch> waiting;
  std::int64_t number = 0;
  for (const char next :
       one_forward_one_backward(static_cast<int>(options_.micro_batches), in_flight)) {
    if (next == 'F') {
      waiting.push_back(forward(step, number++, budget));
      continue;
    }
    backward(std::exchange(waiting.front(), {}), outcome);
    waiting.pop_front();
    if (budget != nullptr) {
      const reprise::BudgetedStep taken = budget->last_step().value();
      outcome.is_within_budget &= taken.peak_bytes <= taken.limit_bytes;
    }
  }
  links_.finish();
}

// `growth_bytes`: what a plain step needs on this rank, for the budget.
Outcome train_stage(const Options& options, const Ranks& ranks, Form form,
                    std::int64_t growth_bytes) {
  Stage stage(options, ranks, form);
  Outcome outcome{.losses = {}, .parameters = stage.parameters()};
  torch::optim::SGD optimizer = make_optimizer(outcome.parameters);
  std::optional<reprise::MemoryBudget> budget;
  for (std::int64_t step = 0; step < options.steps; ++step) {
    drop_gradients(outcome.parameters);
    const std::int64_t before = reprise::cpu_memory().current_bytes;
    if (form == Form::kBudget && !budget) {
      const double room = options.fraction * static_cast<double>(growth_bytes);
      budget.emplace(
          reprise::MemoryBudgetOptions{.peak_bytes = before + static_cast<std::int64_t>(room)});
    }
    reprise::reset_peak_cpu_memory();
    stage.run_step(step, budget ? &*budget : nullptr, outcome);
    outcome.growth_bytes =
        std::max(outcome.growth_bytes, reprise::cpu_memory().peak_bytes - before);
    optimizer.step();
  }
  return outcome;
}

// All stages in this process, one micro-batch after the other. Of the outcome, the part that rank
// `ranks.rank` has.
Outcome run_stages_in_one_process(const Options& options, const Ranks& ranks) {
  std::vector<Layers> stages;
  std::vector<torch::Tensor> parameters;
  for (int stage = 0; stage < ranks.size; ++stage) {
    stages.emplace_back(options, stage * options.layers, options.layers);
    for (const torch::Tensor& parameter : stages.back().parameters()) {
      parameters.push_back(parameter);
    }
  }
  Outcome outcome{.losses = {},
                  .parameters = stages.at(static_cast<std::size_t>(ranks.rank)).parameters()};
  torch::optim::SGD optimizer = make_optimizer(parameters);
  for (std::int64_t step = 0; step < options.steps; ++step) {
    drop_gradients(parameters);
    for (std::int64_t number = 0; number < options.micro_batches; ++number) {
      torch::Tensor h = make_batch(options, step, number);
      for (int stage = 0; stage < ranks.size; ++stage) {
        seed_dropout(step, number, stage);
        h = stages[static_cast<std::size_t>(stage)].forward(h, Form::kPlain);
      }
      const torch::Tensor loss = loss_of(h);
      loss.backward();
      if (ranks.rank == ranks.size - 1) {
        outcome.losses.push_back(loss.item<double>());
      }
    }
    optimizer.step();
  }
  return outcome;
}

}  // namespace

bool train_pipeline(const Options& options, const Ranks& ranks, std::ostream& out) {
  if (options.micro_batches < ranks.size) {
    throw UsageError("--micro-batches " + std::to_string(options.micro_batches) +
                     " are fewer than the " + std::to_string(ranks.size) + " ranks");
  }
  out << "pipeline, " << ranks.size << " stages, 1F1B:\n";
  const Outcome expected = run_stages_in_one_process(options, ranks);
  const Outcome plain = train_stage(options, ranks, Form::kPlain, 0);
  const std::pair<const char*, Form> forms[] = {
      {"plain", Form::kPlain}, {"regions", Form::kRegions}, {"budget", Form::kBudget}};
  bool is_right = true;
  for (const auto& [name, form] : forms) {
    const Outcome got =
        form == Form::kPlain ? plain : train_stage(options, ranks, form, plain.growth_bytes);
    const bool is_same = on_all(have_same_bits(got, expected), ranks);
    out << line_of(name, largest(got.growth_bytes, ranks), is_same) << std::endl;
    is_right &= is_same && on_all(got.is_within_budget, ranks);
  }
  return is_right;
}

}  // namespace budgets_on_ranks
