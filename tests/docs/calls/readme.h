// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Calls the functions that the snippets of README.md define.
#ifndef REPRISE_TESTS_DOCS_CALLS_README_H_
#define REPRISE_TESTS_DOCS_CALLS_README_H_

namespace reprise::readme_page {

TEST_F(ReadmePage, MainRuns) { program(); }

TEST_F(ReadmePage, RightIsRight) { right(h).sum().backward(); }

}  // namespace reprise::readme_page

#endif  // REPRISE_TESTS_DOCS_CALLS_README_H_
