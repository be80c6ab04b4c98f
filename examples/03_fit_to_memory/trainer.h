// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: trainer.h
//
// A model, its optimizer and its batch. Two trainers made from the same options do the same, bit
// for bit.
#ifndef FIT_TO_MEMORY_TRAINER_H_
#define FIT_TO_MEMORY_TRAINER_H_

#include <torch/torch.h>

#include <cstddef>
#include <vector>

#include "options.h"
#include "reprise/engine/memory_budget.h"

namespace fit_to_memory {

class Trainer {
 public:
  // Seeds LibTorch's generators.
  explicit Trainer(const Options& options);

  // The parts of a step, in their order.
  void begin_step();       // drops the gradients
  double differentiate();  // forward and backward; returns the loss
  double differentiate_within(reprise::MemoryBudget& budget);
  void update();

  // Appends the gradients of all parameters to `bytes`, which count as no tensor's.
  void append_gradients(std::vector<std::byte>& bytes) const;

 private:
  torch::Tensor forward();

  torch::nn::Sequential model_;
  torch::optim::SGD optimizer_;
  torch::Tensor inputs_;
  torch::Tensor targets_;
};

}  // namespace fit_to_memory

#endif  // FIT_TO_MEMORY_TRAINER_H_
