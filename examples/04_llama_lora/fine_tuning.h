// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: fine_tuning.h
//
// New adapters of a model, their optimiser and their batches. Two of them, one after the other, on
// the same model and with the same options do the same, bit for bit.
#ifndef LLAMA_LORA_FINE_TUNING_H_
#define LLAMA_LORA_FINE_TUNING_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "model.h"
#include "options.h"
#include "reprise/engine/memory_budget.h"
#include "text.h"
#include "variants.h"

namespace llama_lora {

class FineTuning {
 public:
  // Freezes the base weights, and seeds LibTorch's generators. `text` must outlive it.
  FineTuning(Llama model, const Text& text, const Options& options);

  // The parts of a step, in their order; the caller calls backward() on the loss in between. All
  // steps begin with the same bytes in use.
  void begin_step();  // drops the gradients and draws a batch
  torch::Tensor forward(const Variant& variant, reprise::MemoryBudget* budget);
  void update();

  // Appends the gradients of all adapters to `bytes`.
  void append_gradients(std::vector<std::byte>& bytes) const;

  // The loss of the text's held-out part.
  double held_out_loss();

  [[nodiscard]] std::int64_t trained_parameters() const;

 private:
  Llama model_;
  const Text& text_;
  const std::int64_t batch_;
  std::vector<torch::Tensor> adapters_;
  torch::optim::AdamW optimizer_;
  at::Generator batch_generator_;
  torch::Tensor tokens_;
};

}  // namespace llama_lora

#endif  // LLAMA_LORA_FINE_TUNING_H_
