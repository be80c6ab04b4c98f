// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Calls the functions that the snippets of docs/hooks.md define. `train_step` is left out:
// page-locked memory needs an accelerator.
#ifndef REPRISE_TESTS_DOCS_CALLS_HOOKS_H_
#define REPRISE_TESTS_DOCS_CALLS_HOOKS_H_

namespace reprise::hooks_page {

TEST_F(HooksPage, Halves) { loss_with_halves(x, h).backward(); }

TEST_F(HooksPage, Disk) { spill(".", x, torch::randn({8, 8}, torch::requires_grad())); }

TEST_F(HooksPage, OneSavedTensor) { offload_one(x); }

TEST_F(HooksPage, WithoutHooks) { without_hooks(x).sum().backward(); }

}  // namespace reprise::hooks_page

#endif  // REPRISE_TESTS_DOCS_CALLS_HOOKS_H_
