// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: trainer.h
//
// A model, its optimiser and its order of images. Two trainers made from the same options do the
// same, bit for bit.
#ifndef RESNET_TRAINER_H_
#define RESNET_TRAINER_H_

#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "images.h"
#include "model.h"
#include "options.h"
#include "progress.h"
#include "reprise/engine/memory_budget.h"

namespace resnet {

// Bytes are those beyond the ones in use before a step, the most of all steps.
struct Epoch {
  std::vector<double> losses;  // of the steps
  double accuracy = 0;         // on the test images, after it
  std::int64_t bytes_before = 0;
  std::int64_t kept_bytes = 0;  // after forward
  std::int64_t peak_bytes = 0;  // in forward and backward
  double train_seconds = 0;
};

class Trainer {
 public:
  // Seeds LibTorch's generators. `options` and `images` must outlive it.
  Trainer(const Options& options, const ImageSet& images);

  // Makes a region of each residual block.
  void checkpoint_blocks();

  // Trains on all images once, and measures the accuracy on `test`.
  Epoch run_epoch(const ImageSet& test, Progress& progress);

  // Forward and backward of the first images, without an update; within a budget unless it is null.
  void try_step(std::int64_t batch, reprise::MemoryBudget* budget);

  // The bytes of all parameters, and those of batch-norm's statistics.
  [[nodiscard]] std::vector<std::byte> parameter_bytes() const;
  [[nodiscard]] std::vector<std::byte> statistics_bytes() const;
  [[nodiscard]] std::int64_t parameters() const;

 private:
  void run_step(const torch::Tensor& places, Epoch& epoch);
  torch::Tensor loss(const torch::Tensor& images, const torch::Tensor& labels);
  torch::Tensor flip_at_random(const torch::Tensor& images);
  double accuracy(const ImageSet& test);
  [[nodiscard]] double learning_rate() const;

  const Options& options_;
  const ImageSet& images_;
  ResNet model_;
  torch::optim::SGD optimizer_;
  at::Generator generator_;  // of the order and of flips
  std::int64_t steps_done_ = 0;
};

}  // namespace resnet

#endif  // RESNET_TRAINER_H_
