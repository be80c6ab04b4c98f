// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Names that the snippets of docs/checkpointing.md use.
#ifndef REPRISE_TESTS_DOCS_CONTEXT_CHECKPOINTING_H_
#define REPRISE_TESTS_DOCS_CONTEXT_CHECKPOINTING_H_

#include "tests/docs/snippet_test.h"

namespace reprise::checkpointing_page {

using testing::Block;
using testing::BlockImpl;

class Context : public testing::SnippetTest {};

}  // namespace reprise::checkpointing_page

#endif  // REPRISE_TESTS_DOCS_CONTEXT_CHECKPOINTING_H_
