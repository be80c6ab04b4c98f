// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Calls the function that the snippet of docs/design.md defines.
#ifndef REPRISE_TESTS_DOCS_CALLS_DESIGN_H_
#define REPRISE_TESTS_DOCS_CALLS_DESIGN_H_

namespace reprise::design_page {

TEST_F(DesignPage, Forward) {
  torch::nn::Linear layer(8, 8);
  torch::nn::Linear other(8, 8);
  forward(layer, other, x).sum().backward();
}

}  // namespace reprise::design_page

#endif  // REPRISE_TESTS_DOCS_CALLS_DESIGN_H_
