// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Calls the functions that the snippets of docs/checkpointing.md define.
#ifndef REPRISE_TESTS_DOCS_CALLS_CHECKPOINTING_H_
#define REPRISE_TESTS_DOCS_CALLS_CHECKPOINTING_H_

namespace reprise::checkpointing_page {

TEST_F(CheckpointingPage, ArgumentsOfAnyType) {
  run_head({.tokens = x, .mask = at::ones({8, 8}), .memory = {h}}).backward();
  mix(State(x, h)).sum().backward();
}

TEST_F(CheckpointingPage, ContextFunction) {
  verbosity = 2;
  quiet_replay(x).sum().backward();
  EXPECT_EQ(verbosity, 2);
}

TEST_F(CheckpointingPage, Modules) {
  Net()->forward(torch::randn({4, 256})).sum().backward();

  struct Model : torch::nn::Module {
    Model() {
      layer->push_back("attention", Mlp());
      layer->push_back("mlp", Mlp());
      register_module("decoder", torch::nn::ModuleList(layer));
    }
    torch::nn::Sequential layer;
  };
  Model model;
  const at::Tensor input = torch::randn({4, 64});
  for (auto* change : {checkpoint_blocks, offload_inputs, run_plainly}) {
    change(model);
    model.layer->forward(input).sum().backward();
  }
}

TEST_F(CheckpointingPage, BlockSavedAsOneUnit) {
  const auto half = [this](const at::Tensor& t) { return block->forward(t); };
  layer(x, half, half).sum().backward();
}

}  // namespace reprise::checkpointing_page

#endif  // REPRISE_TESTS_DOCS_CALLS_CHECKPOINTING_H_
