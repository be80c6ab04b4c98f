// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Names that the snippets of README.md use.
#ifndef REPRISE_TESTS_DOCS_CONTEXT_README_H_
#define REPRISE_TESTS_DOCS_CONTEXT_README_H_

#include "tests/docs/snippet_test.h"

namespace reprise::readme_page {

class Context : public testing::SnippetTest {
 protected:
  torch::nn::Linear block{8, 8};
  at::Tensor w = torch::randn({8, 8}, torch::requires_grad());
  int calls = 0;
};

}  // namespace reprise::readme_page

#endif  // REPRISE_TESTS_DOCS_CONTEXT_README_H_
