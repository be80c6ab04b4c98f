// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: pretraining.h
//
// Makes the base model.
#ifndef LLAMA_LORA_PRETRAINING_H_
#define LLAMA_LORA_PRETRAINING_H_

#include "model.h"
#include "options.h"
#include "text.h"

namespace llama_lora {

// (batch, n + 1) tokens: the mean loss of the predictions of all but the first.
torch::Tensor language_loss(Llama& model, const torch::Tensor& tokens,
                            const BlockRunner& run_block);

// Trains all weights for a few plain steps, and prints the loss now and then.
void pretrain(Llama& model, const Text& text, const Options& options);

}  // namespace llama_lora

#endif  // LLAMA_LORA_PRETRAINING_H_
