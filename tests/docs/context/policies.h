// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Names that the snippets of docs/policies.md use.
#ifndef REPRISE_TESTS_DOCS_CONTEXT_POLICIES_H_
#define REPRISE_TESTS_DOCS_CONTEXT_POLICIES_H_

#include <string>
#include <vector>

#include "reprise/reprise.h"
#include "tests/docs/snippet_test.h"

namespace reprise::policies_page {

class Context : public testing::SnippetTest {
 protected:
  struct Cache {
    void fill_once() {}
  };

  static void train_one_step(testing::Block& model) {
    const at::Tensor input = torch::ones({4, 8}, torch::requires_grad());
    checkpoint({.policy = policies::save_matmuls()}, model, input).sum().backward();
  }

  testing::Block model, router, q_proj;
  at::Tensor activations = x.relu();
  Cache weights_cache;
  std::vector<std::string> names = {"first", "second", "third"};
};

}  // namespace reprise::policies_page

#endif  // REPRISE_TESTS_DOCS_CONTEXT_POLICIES_H_
