// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: trainer.h
//
// A model, its optimiser and its batches: everything that one training run changes. Two trainers
// made from the same options do the same, bit for bit.
#ifndef CHAR_GPT_TRAINER_H_
#define CHAR_GPT_TRAINER_H_

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "options.h"
#include "reprise/engine/memory_budget.h"
#include "reprise/hooks/activation_store.h"
#include "text_data.h"
#include "variants.h"

namespace char_gpt {

class Trainer {
 public:
  // Seeds LibTorch's generators. `options`, `text` and `budget`, which only a budgeted variant
  // needs, must outlive the trainer.
  Trainer(const Options& options, const TextData& text, reprise::MemoryBudget* budget = nullptr);
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  // One whole step; returns the loss.
  double step(const Variant& variant);

  // The parts of a step, in their order; the caller calls backward() on the loss in between.
  void begin_step();  // drops the gradients and draws a batch
  at::Tensor forward(const Variant& variant);
  void update();

  // Continues a line break by `length` bytes, drawn at random after the model's answers.
  std::string write_sample(std::int64_t length);

  [[nodiscard]] std::vector<at::Tensor> parameters() const;
  [[nodiscard]] const c10::Device& device() const { return device_; }

 private:
  struct State;  // LibTorch's modules and optimisers, whose headers are slow to compile

  at::Tensor loss(const Variant& variant);
  [[nodiscard]] double learning_rate() const;

  const Options& options_;
  const TextData& text_;
  reprise::MemoryBudget* const budget_;
  const c10::Device device_;
  std::int64_t steps_done_ = 0;
  std::shared_ptr<reprise::ActivationStore> store_;  // when a variant has asked for it
  std::unique_ptr<State> state_;
};

// False if `device` ("cpu", "cuda") cannot be used here.
bool is_device_available(const std::string& device);

// Waits for the work on an accelerator; nothing to do on the CPU.
void synchronize(const c10::Device& device);

}  // namespace char_gpt

#endif  // CHAR_GPT_TRAINER_H_
