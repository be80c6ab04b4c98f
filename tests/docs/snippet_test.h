// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The state that the snippets of README.md and docs/ begin with, and names that many of them use.
#ifndef REPRISE_TESTS_DOCS_SNIPPET_TEST_H_
#define REPRISE_TESTS_DOCS_SNIPPET_TEST_H_

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <filesystem>
#include <string>
#include <vector>

namespace reprise::testing {

struct BlockImpl : torch::nn::Module {
  torch::nn::Linear linear{register_module("linear", torch::nn::Linear(8, 8))};

  at::Tensor forward(const at::Tensor& x) {
    return torch::dropout(torch::gelu(linear(x)), 0.1, is_training());
  }
};
TORCH_MODULE(Block);

// Each test runs in an empty folder of its own.
class SnippetTest : public ::testing::Test {
 protected:
  SnippetTest() {
    std::string folder = ::testing::TempDir() + "snippetXXXXXX";
    folder_ = mkdtemp(folder.data());
    std::filesystem::current_path(folder_);
  }
  ~SnippetTest() override {
    std::filesystem::current_path(before_);
    std::filesystem::remove_all(folder_);
  }
  void SetUp() override { torch::manual_seed(0); }

  Block block;
  std::vector<Block> blocks = std::vector<Block>(3);
  at::Tensor x = torch::randn({8, 8}, torch::requires_grad());
  at::Tensor h = x * 1;  // no leaf: may be modified in place

 private:
  std::filesystem::path before_ = std::filesystem::current_path();
  std::filesystem::path folder_;
};

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_DOCS_SNIPPET_TEST_H_
