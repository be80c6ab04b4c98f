// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The state that the snippets of docs/ begin with.
#ifndef REPRISE_TESTS_DOCS_SNIPPET_TEST_H_
#define REPRISE_TESTS_DOCS_SNIPPET_TEST_H_

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace reprise::testing {

class SnippetTest : public ::testing::Test {
 protected:
  void SetUp() override { torch::manual_seed(0); }
};

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_DOCS_SNIPPET_TEST_H_
