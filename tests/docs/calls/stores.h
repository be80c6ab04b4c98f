// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Calls the functions that the snippets of docs/stores.md define.
#ifndef REPRISE_TESTS_DOCS_CALLS_STORES_H_
#define REPRISE_TESTS_DOCS_CALLS_STORES_H_

namespace reprise::stores_page {

TEST_F(StoresPage, AroundAnyCode) {
  Model model{torch::nn::Linear(8, 8), torch::nn::ReLU()};
  loss_with_stores(model, x).backward();
}

TEST_F(StoresPage, InputsOfRegions) { run(blocks, h).sum().backward(); }

TEST_F(StoresPage, ResultsOfAPolicy) {
  checkpoint(matmuls_on_the_host(), block, x).sum().backward();
}

TEST_F(StoresPage, StoreOfOnesOwn) {
  at::Tensor loss;
  {
    const StoreGuard guard(std::make_shared<FileStore>("."));
    loss = block->forward(h).sum();
  }
  loss.backward();
}

}  // namespace reprise::stores_page

#endif  // REPRISE_TESTS_DOCS_CALLS_STORES_H_
