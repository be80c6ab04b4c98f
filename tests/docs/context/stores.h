// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Names that the snippets of docs/stores.md use.
#ifndef REPRISE_TESTS_DOCS_CONTEXT_STORES_H_
#define REPRISE_TESTS_DOCS_CONTEXT_STORES_H_

#include "tests/docs/snippet_test.h"

namespace reprise::stores_page {

using testing::Block;
using Model = torch::nn::Sequential;

class Context : public testing::SnippetTest {};

}  // namespace reprise::stores_page

#endif  // REPRISE_TESTS_DOCS_CONTEXT_STORES_H_
