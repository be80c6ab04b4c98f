// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Names that the snippets of docs/troubleshooting.md use.
#ifndef REPRISE_TESTS_DOCS_CONTEXT_TROUBLESHOOTING_H_
#define REPRISE_TESTS_DOCS_CONTEXT_TROUBLESHOOTING_H_

#include "reprise/engine/checkpointed_module.h"
#include "tests/docs/snippet_test.h"

namespace reprise::troubleshooting_page {

class Context : public testing::SnippetTest {
 protected:
  static at::Tensor make_table() { return at::arange(8); }

  at::Tensor y = x.sin();
  at::Tensor table_;
};

}  // namespace reprise::troubleshooting_page

#endif  // REPRISE_TESTS_DOCS_CONTEXT_TROUBLESHOOTING_H_
