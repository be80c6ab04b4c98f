// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Calls the functions that the snippets of docs/models.md define.
#ifndef REPRISE_TESTS_DOCS_CALLS_MODELS_H_
#define REPRISE_TESTS_DOCS_CALLS_MODELS_H_

namespace reprise::models_page {

TEST_F(ModelsPage, ScopeForm) {
  BlockImpl().forward(torch::randn({4, 64}, torch::requires_grad())).sum().backward();
}

TEST_F(ModelsPage, RegionsFromOutside) {
  struct Model : torch::nn::Module {
    torch::nn::Sequential stage{torch::nn::Linear(8, 8), torch::nn::ReLU()};
    torch::nn::ModuleList stages{register_module("stages", torch::nn::ModuleList(stage))};
  };
  Model model;
  checkpoint_all(model);
  model.stage->forward(x).sum().backward();
}

}  // namespace reprise::models_page

#endif  // REPRISE_TESTS_DOCS_CALLS_MODELS_H_
