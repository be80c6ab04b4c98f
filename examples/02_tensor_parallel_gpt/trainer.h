// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: trainer.h
//
// The text, and this rank's part of a training run on it.
#ifndef TENSOR_PARALLEL_GPT_TRAINER_H_
#define TENSOR_PARALLEL_GPT_TRAINER_H_

#include <torch/torch.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "model.h"
#include "options.h"
#include "ranks.h"
#include "variants.h"

namespace tensor_parallel_gpt {

// The bytes of options.text. Throws UsageError if they are too few for one sequence.
std::string load_text(const Options& options);

// The bytes that a step left on this rank's device.
struct StepBytes {
  std::int64_t kept = 0;  // by forward, for backward
  std::int64_t blocks =
      0;                  // of these, by the blocks: the inputs of regions, where they are regions
  std::int64_t peak = 0;  // of all tensors, over forward and backward
};

// Two trainers made from the same options do the same, bit for bit.
class Trainer {
 public:
  // Seeds LibTorch's generators and the named state. All arguments must outlive the trainer.
  Trainer(const Options& options, const std::string& text, const Ranks& ranks);

  // Forward and backward, whose bytes go to `bytes` if that is not null (counting takes time).
  // Returns the loss, which is the same on all ranks.
  double differentiate(const Variant& variant, StepBytes* bytes = nullptr);
  void update();

  [[nodiscard]] std::vector<at::Tensor> parameters() const { return model_->parameters(); }

 private:
  at::Tensor draw_batch();
  at::Tensor forward(const at::Tensor& batch, const Variant& variant, StepBytes* bytes);

  const Options& options_;
  const std::string& text_;
  const Ranks& ranks_;
  Gpt model_;
  torch::optim::AdamW optimizer_;
  std::mt19937_64 batch_generator_;
};

// Waits for the work on an accelerator; nothing to do on the CPU.
void synchronize(const c10::Device& device);

}  // namespace tensor_parallel_gpt

#endif  // TENSOR_PARALLEL_GPT_TRAINER_H_
