// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Names that the snippets of docs/checkpoint-scope.md use.
#ifndef REPRISE_TESTS_DOCS_CONTEXT_CHECKPOINT_SCOPE_H_
#define REPRISE_TESTS_DOCS_CONTEXT_CHECKPOINT_SCOPE_H_

#include "tests/docs/snippet_test.h"

namespace reprise::checkpoint_scope_page {

class Context : public testing::SnippetTest {
 protected:
  static at::Tensor loss(const at::Tensor& result) { return result.square().mean(); }
};

}  // namespace reprise::checkpoint_scope_page

#endif  // REPRISE_TESTS_DOCS_CONTEXT_CHECKPOINT_SCOPE_H_
