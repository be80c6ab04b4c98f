// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "pretraining.h"

#include <cstdint>

#include "progress.h"
#include "variants.h"

namespace llama_lora {

torch::Tensor language_loss(Llama& model, const torch::Tensor& tokens,
                            const BlockRunner& run_block) {
  const std::int64_t predictions = tokens.size(1) - 1;
  const torch::Tensor logits = model(tokens.narrow(1, 0, predictions), run_block);
  return torch::nn::functional::cross_entropy(logits.flatten(0, 1),
                                              tokens.narrow(1, 1, predictions).flatten());
}

void pretrain(Llama& model, const Text& text, const Options& options) {
  const Variant& plain = all_variants().front();
  const at::Generator generator =
      at::detail::createCPUGenerator(static_cast<std::uint64_t>(options.seed));
  torch::optim::AdamW optimizer(model->parameters(),
                                torch::optim::AdamWOptions(options.pretrain_rate));
  Progress progress("pretraining", options.pretrain_steps);
  for (std::int64_t step = 0; step < options.pretrain_steps; ++step) {
    optimizer.zero_grad();
    const torch::Tensor loss =
        language_loss(model, text.draw(options.batch, generator), plain.run_block);
    loss.backward();
    optimizer.step();
    progress.finish_step(loss.item<double>());
  }
  optimizer.zero_grad();
}

}  // namespace llama_lora
