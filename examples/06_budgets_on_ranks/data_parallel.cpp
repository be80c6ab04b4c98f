// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "data_parallel.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/reducer.hpp>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "model.h"
#include "reprise/engine/cpu_memory.h"
#include "reprise/engine/memory_budget.h"

namespace budgets_on_ranks {
namespace {

// Newer versions of LibTorch take a list of the buckets' sizes as well, here an empty one.
template <class Reducer, class... Arguments>
std::unique_ptr<Reducer> construct(Arguments... arguments) {
  if constexpr (std::is_constructible_v<Reducer, Arguments...>) {
    return std::make_unique<Reducer>(std::move(arguments)...);
  } else {
    return std::make_unique<Reducer>(std::move(arguments)..., std::vector<std::int64_t>{});
  }
}

// Gradients are parts of buckets, which are summed as soon as all of their gradients are there:
// those of the last layers first. To be destroyed before the group.
std::unique_ptr<c10d::Reducer> make_reducer(const std::vector<torch::Tensor>& parameters,
                                            const Ranks& ranks) {
  constexpr std::int64_t kBytes = 256 * 1024;
  const std::vector<bool> is_sparse(parameters.size(), false);
  auto [buckets, limits] = c10d::compute_bucket_assignment_by_size(parameters, {kBytes}, is_sparse);
  std::reverse(buckets.begin(), buckets.end());
  return construct<c10d::Reducer>(parameters, buckets, ranks.group, is_sparse,
                                  /*bucket_bytes_cap=*/kBytes, /*find_unused_parameters=*/false,
                                  /*gradient_as_bucket_view=*/true,
                                  std::unordered_map<std::size_t, std::string>{},
                                  /*first_bucket_bytes_cap=*/kBytes,
                                  /*skip_all_reduce_unused_params=*/false,
                                  /*use_python_reducer=*/false);
}

// Forward and backward of one rank's part of the batch; returns the loss.
double differentiate(Layers& layers, const torch::Tensor& batch, Form form,
                     reprise::MemoryBudget* budget, c10d::Reducer* reducer) {
  if (reducer != nullptr) {
    reducer->rebuild_buckets();  // once, in the order in which gradients have come
    reducer->prepare_for_forward();
  }
  std::optional<reprise::BudgetScope> scope;
  if (budget != nullptr) {
    scope.emplace(*budget);
  }
  const torch::Tensor loss = loss_of(layers.forward(batch, form));
  scope.reset();
  if (reducer != nullptr) {
    reducer->prepare_for_backward({});
  }
  loss.backward();
  return loss.item<double>();
}

// The average of all parts' gradients, as the ranks have it, in one process. The losses are those
// of a rank's part.
Outcome average_in_one_process(const Options& options, const Ranks& ranks) {
  Layers layers(options, 0, options.layers);
  Outcome outcome{.losses = {}, .parameters = layers.parameters()};
  torch::optim::SGD optimizer = make_optimizer(outcome.parameters);
  for (std::int64_t step = 0; step < options.steps; ++step) {
    std::vector<torch::Tensor> sums(outcome.parameters.size());
    for (int rank = 0; rank < ranks.size; ++rank) {
      drop_gradients(outcome.parameters);
      seed_dropout(step, rank);
      const torch::Tensor batch = make_batch(options, step, rank);
      const double loss = differentiate(layers, batch, Form::kPlain, nullptr, nullptr);
      if (rank == ranks.rank) {
        outcome.losses.push_back(loss);
      }
      for (std::size_t i = 0; i < sums.size(); ++i) {
        const torch::Tensor part = outcome.parameters[i].grad() / ranks.size;
        sums[i] = rank == 0 ? part : sums[i] + part;
      }
    }
    for (std::size_t i = 0; i < sums.size(); ++i) {
      outcome.parameters[i].mutable_grad() = sums[i];
    }
    optimizer.step();
  }
  return outcome;
}

// Trains on all ranks. `growth_bytes`: what a plain step needs, for the budget.
Outcome train_averaging(const Options& options, const Ranks& ranks, Form form,
                        std::int64_t growth_bytes) {
  Layers layers(options, 0, options.layers);
  Outcome outcome{.losses = {}, .parameters = layers.parameters()};
  torch::optim::SGD optimizer = make_optimizer(outcome.parameters);
  const std::unique_ptr<c10d::Reducer> reducer = make_reducer(outcome.parameters, ranks);
  std::optional<reprise::MemoryBudget> budget;
  for (std::int64_t step = 0; step < options.steps; ++step) {
    drop_gradients(outcome.parameters);
    seed_dropout(step, ranks.rank);
    const torch::Tensor batch = make_batch(options, step, ranks.rank);
    const std::int64_t before = reprise::cpu_memory().current_bytes;
    if (form == Form::kBudget && !budget) {
      const double room = options.fraction * static_cast<double>(growth_bytes);
      budget.emplace(
          reprise::MemoryBudgetOptions{.peak_bytes = before + static_cast<std::int64_t>(room)});
    }
    reprise::reset_peak_cpu_memory();
    outcome.losses.push_back(
        differentiate(layers, batch, form, budget ? &*budget : nullptr, reducer.get()));
    outcome.growth_bytes =
        std::max(outcome.growth_bytes, reprise::cpu_memory().peak_bytes - before);
    if (budget) {
      const reprise::BudgetedStep taken = budget->last_step().value();
      outcome.is_within_budget &= taken.peak_bytes <= taken.limit_bytes;
    }
    optimizer.step();
  }
  return outcome;
}

}  // namespace

bool train_data_parallel(const Options& options, const Ranks& ranks, std::ostream& out) {
  out << "data-parallel, " << ranks.size << " ranks, c10d::Reducer:\n";
  const Outcome plain = train_averaging(options, ranks, Form::kPlain, 0);
  const Outcome expected = ranks.size <= 2 ? average_in_one_process(options, ranks) : plain;
  const std::pair<const char*, Form> forms[] = {
      {"plain", Form::kPlain}, {"regions", Form::kRegions}, {"budget", Form::kBudget}};
  bool is_right = true;
  for (const auto& [name, form] : forms) {
    const Outcome got =
        form == Form::kPlain ? plain : train_averaging(options, ranks, form, plain.growth_bytes);
    const bool is_same = on_all(have_same_bits(got, expected), ranks);
    out << line_of(name, largest(got.growth_bytes, ranks), is_same) << std::endl;
    is_right &= is_same && on_all(got.is_within_budget, ranks);
  }
  return is_right;
}

}  // namespace budgets_on_ranks
